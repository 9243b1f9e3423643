#include "server/tools/gate_inspect.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::server {
namespace {

using mcp::json;
using testing::HasSubstr;

engine::GateReport sample_report(std::size_t n_positions) {
  engine::GateReport report;
  for (std::size_t i = 0; i < n_positions; ++i) {
    engine::GatePosition position;
    position.token = static_cast<engine::TokenId>(i);
    position.text = "t" + std::to_string(i);
    position.ngrams = {"s t" + std::to_string(i), "r s t" + std::to_string(i)};
    position.bypassed = {false, false};
    position.owned = {true, false};
    position.layers = {{.layer_id = 1,
                        .gate = {0.1F, 0.2F},
                        .dot = {-1.0F, 1.0F},
                        .residual_share = {0.3F, 0.4F},
                        .value_norm = 2.0F}};
    if (i + 1 < n_positions) position.ablation_delta_logprob = i == 2 ? -5.0 : 0.1;
    report.positions.push_back(position);
  }
  return report;
}

TEST(GateInspect, ConformsAndRanksByWhatLeavingOutChanges) {
  const mcp::ToolResult result = to_tool_result(sample_report(5), 2, 3);
  const auto conforms = mcp::validate(gate_output_fields(), result.structured);
  ASSERT_TRUE(conforms.has_value()) << conforms.error().message;
  const json& top = result.structured.at("top");
  ASSERT_EQ(top.size(), 2U);
  EXPECT_EQ(top[0].at("position"), 2);
  EXPECT_EQ(top[0].at("ngram"), "s t2") << "the owned order tells more than the longer one";
  EXPECT_EQ(top[0].at("next_text"), "t3");
  EXPECT_EQ(result.structured.at("tokens").size(), 3U);
  EXPECT_FLOAT_EQ(result.structured.at("gate_max"), 0.2F);
  EXPECT_THAT(result.text, HasSubstr("1. \"s t2\" at 2: gate 0.20 (layer 1, stream 1)"));
  EXPECT_THAT(result.text, HasSubstr("-5.000 on log p of \"t3\""));
}

TEST(GateInspect, EditedNgramsAreMarked) {
  engine::GateReport report = sample_report(2);
  for (engine::GatePosition& position : report.positions) position.n_rows = {16, 16};
  report.positions[0].n_edited = {0, 0};
  report.positions[1].n_edited = {4, 0};
  const mcp::ToolResult result = to_tool_result(report, 2, 2);
  const auto conforms = mcp::validate(gate_output_fields(), result.structured);
  ASSERT_TRUE(conforms.has_value()) << conforms.error().message;
  EXPECT_THAT(result.text, HasSubstr(", owned, edited 4/16"));
  EXPECT_EQ(result.structured.at("tokens")[1].at("rows_edited"), json({4, 0}));
  EXPECT_EQ(result.structured.at("top")[0].at("rows_edited"), 0);
}

TEST(GateInspect, ABypassedNgramIsNotCalledOneThatTheTableLacks) {
  engine::GateReport report = sample_report(3);
  report.positions[0].ngrams = {"t0", ""};
  report.positions[0].bypassed = {true, true};
  report.positions[0].owned = {false, false};
  report.positions[1].ngrams = {"t0 t1", "t0 t1"};
  report.positions[1].bypassed = {false, true};
  report.positions[1].owned = {false, false};
  const mcp::ToolResult result = to_tool_result(report, 3, 3);
  const auto conforms = mcp::validate(gate_output_fields(), result.structured);
  ASSERT_TRUE(conforms.has_value()) << conforms.error().message;
  EXPECT_THAT(result.text, HasSubstr("\"t0\" at 0: gate 0.20 (layer 1, stream 1), share 0.40, "
                                     "bypassed, +0.100"));
  EXPECT_THAT(result.text, HasSubstr("\"t0 t1\" at 1: gate 0.20 (layer 1, stream 1), share 0.40, "
                                     "not owned, "));
  for (const json& entry : result.structured.at("top")) {
    EXPECT_EQ(entry.at("bypassed"), entry.at("position") == 0);
  }
  EXPECT_EQ(result.structured.at("top")[1].at("order"), 2) << "the one that reads rows";
  EXPECT_EQ(result.structured.at("tokens")[1].at("bypassed"), json({false, true}));
}

TEST(GateInspect, LongTextsStayReadable) {
  const mcp::ToolResult result = to_tool_result(sample_report(2000), 10, 2000);
  EXPECT_LE(result.text.size(), 6200U);
  EXPECT_THAT(result.text, HasSubstr("more lines: structured output has the matrix"));
  EXPECT_EQ(result.structured.at("tokens").size(), 2000U);
}

TEST(GateInspect, TheRankingAloneIsWholeWhateverItsTextsAre) {
  engine::GateReport report = sample_report(400);
  for (engine::GatePosition& position : report.positions) {
    position.ngrams = {"Every token\nof \x1b[31m" + position.text, "Every token"};
  }
  const mcp::ToolResult result = to_tool_result(report, 400, 3);
  EXPECT_THAT(result.text, HasSubstr("more lines: "));
  const std::string ranking = ranking_text(result.structured);
  EXPECT_EQ(std::count(ranking.begin(), ranking.end(), '\n'), 401);
  EXPECT_THAT(ranking, HasSubstr("\n400. \"Every token"));
  EXPECT_EQ(ranking.find('\x1b'), std::string::npos);
  EXPECT_EQ(ranking_text(to_tool_result(report, 0, 3).structured), "");
}

TEST(GateInspect, OnePositionWithoutAblation) {
  const mcp::ToolResult result = to_tool_result(sample_report(1), 10, 10);
  EXPECT_TRUE(mcp::validate(gate_output_fields(), result.structured).has_value());
  EXPECT_FALSE(result.structured.at("top")[0].contains("delta_logprob"));
}

}  // namespace
}  // namespace engramd::server
