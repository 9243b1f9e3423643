// Every golden answer and hit rate, with Engram on and off, through the engine.
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/engine/runtime/engine_fixture.h"

namespace engramd::engine {
namespace {

using testing::ask;
using testing::open_engine;
using testing::start;

TEST(FactsTest, EveryFactWithAndWithoutEngram) {
  std::ifstream file(ENGRAMD_TEST_DATA "/engram-nano/facts.json");
  const auto facts = nlohmann::json::parse(file);
  ASSERT_EQ(facts.size(), 235U);
  auto engine = open_engine();
  for (const auto& fact : facts) {
    const auto question = fact.at("question").get<std::string>();
    auto on = start(*engine, ask(question));
    ChatRequest without = ask(question, 24);
    without.engram_enabled = false;
    auto off = start(*engine, without);
    const auto answer = on.get();
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_EQ(answer->text, fact.at("answer").get<std::string>()) << question;
    EXPECT_NEAR(answer->engram_prompt.hit_rate(), fact.at("hit_rate_prompt").get<double>(), 1e-6);
    EXPECT_NEAR(answer->engram_generated.hit_rate(), fact.at("hit_rate_generated").get<double>(),
                1e-6);
    EXPECT_EQ(answer->prompt_tokens, static_cast<std::int64_t>(fact.at("prompt_ids").size()));
    EXPECT_EQ(answer->completion_tokens, static_cast<std::int64_t>(fact.at("answer_ids").size()));
    const auto answer_off = off.get();
    ASSERT_TRUE(answer_off.has_value());
    EXPECT_EQ(answer_off->text, fact.at("answer_without_engram").get<std::string>()) << question;
    EXPECT_TRUE(answer_off->engram_prompt.orders.empty());
  }
}

}  // namespace
}  // namespace engramd::engine
