// The daemon as a whole in one process: the real model, tools called as the shell calls them.
#include "server/daemon.h"

#include <chrono>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "server/commands/run_tool.h"

namespace engramd::server {
namespace {

using mcp::json;
using testing::HasSubstr;

TEST(Daemon, ChatsLooksUpInspectsAndCounts) {
  Daemon daemon(config::EffectiveConfig{});
  const auto chat = run_tool(daemon, "chat", {{"prompt", "What is the capital of France?"}});
  ASSERT_TRUE(chat.has_value()) << chat.error().message;
  EXPECT_THAT(chat.value().structured.at("text"), HasSubstr("Paris"));

  const auto lookup = run_tool(daemon, "engram_lookup", {{"text", "The capital of France is"}});
  ASSERT_TRUE(lookup.has_value()) << lookup.error().message;
  EXPECT_GT(lookup.value().structured.at("n_owned"), 0);

  const auto gates = run_tool(daemon, "gate_inspect", {{"text", "The capital of France is"}});
  ASSERT_TRUE(gates.has_value()) << gates.error().message;
  EXPECT_GT(gates.value().structured.at("gate_max"), 0.0);

  const auto metrics = run_tool(daemon, "metrics", json::object());
  ASSERT_TRUE(metrics.has_value());
  EXPECT_EQ(metrics.value().structured.at("state"), "ready");
  EXPECT_GT(metrics.value().structured.at("since_start").at("generated_tokens"), 0);
}

TEST(Daemon, WrongInputIsRefusedWithTheReason) {
  Daemon daemon(config::EffectiveConfig{});
  const auto layer = run_tool(daemon, "engram_lookup", {{"text", "x"}, {"layers", {77}}});
  ASSERT_TRUE(layer.has_error());
  EXPECT_THAT(layer.error().message, HasSubstr("77"));
  EXPECT_TRUE(run_tool(daemon, "engram_lookup", {{"token_ids", {-1}}}).has_error());
  EXPECT_TRUE(run_tool(daemon, "gate_inspect", {{"text", "x"}, {"question", "y"}}).has_error());
  EXPECT_TRUE(run_tool(daemon, "chat", {{"prompt", std::string(1'000'000, 'x')}}).has_error());
}

TEST(Daemon, AMissingModelIsAnErrorOfTheCall) {
  config::EffectiveConfig config;
  config.options.model.name = "./no-such-model";
  config.options.log.level = config::LogLevel::kOff;
  Daemon daemon(config);
  const auto chat = run_tool(daemon, "chat", {{"prompt", "x"}});
  ASSERT_TRUE(chat.has_error());
  EXPECT_THAT(chat.error().message, HasSubstr("./no-such-model"));
}

TEST(Daemon, ASessionEndsWithItsInput) {
  Daemon daemon(config::EffectiveConfig{});
  const int null = ::open("/dev/null", O_RDWR);
  bool ending = false;
  EXPECT_EQ(daemon.serve_stdio(null, null, [&] { ending = true; }), 0);
  EXPECT_TRUE(ending);
  ::close(null);
}

}  // namespace
}  // namespace engramd::server
