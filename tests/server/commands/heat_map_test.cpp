#include "server/commands/heat_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace engramd::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const json kGates = json::parse(R"({"n_tokens": 2, "tokens": [
  {"text": "a\nb", "ablation_delta_logprob": 1.25,
   "layers": [{"layer": 1, "gate": [0.0, 1.0]}, {"layer": 3, "gate": [0.5, 0.25]}]},
  {"text": "c", "layers": [{"layer": 1, "gate": [0.0, 1.0]}, {"layer": 3, "gate": [0.5, 0.25]}]}]})");

TEST(HeatMap, PlainNumbersWithoutColour) {
  const std::string text = heat_map(kGates, false);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("L1 .0"));
  EXPECT_THAT(text, HasSubstr("  0.00  1.00  0.50  0.25  +1.250  \"a\\nb\"\n"));
  EXPECT_THAT(text, HasSubstr("0.25       -  \"c\""));
}

TEST(HeatMap, EveryColourIsReset) {
  const std::string text = heat_map(kGates, true);
  std::size_t n_set = 0;
  std::size_t n_reset = 0;
  for (std::size_t at = text.find("\x1b["); at != std::string::npos;
       at = text.find("\x1b[", at + 1)) {
    ++(text.compare(at, 4, "\x1b[0m") == 0 ? n_reset : n_set);
  }
  EXPECT_EQ(n_set, 8U);
  EXPECT_EQ(n_reset, n_set);
}

TEST(HeatMap, TokensLeftOutAreCounted) {
  EXPECT_THAT(heat_map(kGates, false), Not(HasSubstr("more tokens")));
  json cut = kGates;
  cut["n_tokens"] = 90;
  EXPECT_THAT(heat_map(cut, false), HasSubstr("\n(88 more tokens: engramd gates --json has "));
}

TEST(HeatMap, NothingToShow) {
  EXPECT_EQ(heat_map({{"n_tokens", 0}, {"tokens", json::array()}}, true), "");
}

}  // namespace
}  // namespace engramd::server
