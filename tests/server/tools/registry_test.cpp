#include "server/tools/registry.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/tools/engram_lookup.h"
#include "server/tools/metrics.h"
#include "tests/server/tools/test_services.h"

namespace engramd::server {
namespace {

using mcp::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RegistryTest : public testing::Test {
 protected:
  TestServices test_;
  mcp::Registry registry_ = make_registry(test_.services());
};

TEST_F(RegistryTest, StrictClientsAcceptEverything) {
  EXPECT_THAT(mcp::lint_registry(registry_), IsEmpty());
  std::vector<std::string> names;
  for (const mcp::Tool& tool : registry_.tools) {
    names.push_back(tool.name);
    EXPECT_THAT(mcp::lint_schema(mcp::to_json_schema(tool.input)), IsEmpty()) << tool.name;
    EXPECT_THAT(mcp::lint_schema(mcp::to_json_schema(tool.output)), IsEmpty()) << tool.name;
    EXPECT_LE(tool.description.size(), 1024U) << tool.name;  // clients cut longer ones
  }
  EXPECT_THAT(names,
              ElementsAre("chat", "engram_lookup", "gate_inspect", "table_get", "table_update",
                          "table_history", "table_rollback", "table_fold", "table_teach",
                          "table_taught", "table_forget", "metrics", "doctor"));
}

// An empty list asks for nothing; as "no layers" it would have been answered with all of them.
TEST_F(RegistryTest, ListsThatChooseAreNotEmpty) {
  for (const mcp::Tool& tool : registry_.tools) {
    for (const char* name : {"layers", "token_ids"}) {
      const bool has_field = std::any_of(tool.input.begin(), tool.input.end(),
                                         [&](const mcp::Field& f) { return f.name == name; });
      if (!has_field) continue;
      const auto checked = mcp::validate(tool.input, {{name, json::array()}});
      ASSERT_TRUE(checked.has_error()) << tool.name << ' ' << name;
      EXPECT_EQ(checked.error().message,
                std::string(name) + ": expected at least 1 item, got an empty array");
    }
  }
}

TEST_F(RegistryTest, MetricsConformWhileLoadingAndAfterAFailure) {
  const Services services = test_.services();
  const auto check = [&](const std::string& state) {
    const json metrics = metrics_json(services);
    const auto conforms = mcp::validate(metrics_output_fields(), metrics);
    EXPECT_TRUE(conforms.has_value()) << conforms.error().message;
    EXPECT_EQ(metrics.at("state"), state);
    EXPECT_GT(metrics.at("memory").at("process_resident_bytes"), 1'000'000);
  };
  check("loading");
  test_.loader.start();
  while (test_.loader.loading()) test_.run_posted();
  check("failed");
}

TEST_F(RegistryTest, ResourcesAreJsonInEveryState) {
  for (const mcp::Resource& resource : registry_.resources) {
    if (resource.available && !resource.available()) continue;
    const auto text = resource.read();
    ASSERT_TRUE(text.has_value());
    EXPECT_EQ(json::parse(text.value()).at("state"), "loading");
  }
}

TEST_F(RegistryTest, TheRetrievalPromptPutsContextFirst) {
  const auto messages =
      registry_.prompts.at(0).render({{"question", "Who?"}, {"context", "Somebody."}});
  ASSERT_TRUE(messages.has_value());
  EXPECT_EQ(messages.value().at(0).text, "Context:\nSomebody.\n\nQuestion: Who?");
}

engine::LookupCell cell(int order, std::int64_t row) {
  engine::LookupCell made;
  made.order = order;
  made.row = row;
  return made;
}

TEST(EngramLookup, ConformsWithAndWithoutATable) {
  engine::LookupReport report;
  engine::LookupPosition position;
  position.text = "Paris";
  position.ngrams = {{.order = 2, .text = "in Paris", .classes = {1, 2}, .bypassed = false},
                     {.order = 3, .text = "", .classes = {}, .bypassed = true}};
  position.layers = {{.layer_id = 1, .cells = {cell(2, 7), cell(3, 9)}}};
  report.positions = {position};
  for (const bool with_table : {false, true}) {
    if (with_table) {
      auto& first = report.positions[0].layers[0].cells[0];
      first.occupied = first.owned = true;
      first.row_norm = 1.5;
    }
    for (const bool with_rows : {false, true}) {
      const mcp::ToolResult result = to_tool_result(report, with_rows);
      const auto conforms = mcp::validate(lookup_output_fields(), result.structured);
      EXPECT_TRUE(conforms.has_value()) << conforms.error().message;
      EXPECT_EQ(result.structured.at("tokens")[0].contains("layers"), with_rows);
      EXPECT_THAT(result.text, HasSubstr("2-gram \"in Paris\""));
      EXPECT_THAT(result.text, HasSubstr("3-gram bypassed"));
      EXPECT_EQ(result.text.find("owned 1/1") != std::string::npos, with_table);
    }
  }
}

TEST(EngramLookup, LongTextsStayReadableAndStructuredKeepsWhatWasAsked) {
  engine::LookupReport report;
  for (int i = 0; i < 2000; ++i) {
    engine::LookupPosition position;
    position.text = "word";
    position.ngrams = {{.order = 2, .text = "a word", .classes = {1, 2}, .bypassed = false}};
    position.layers = {{.layer_id = 1, .cells = {cell(2, i)}}};
    report.positions.push_back(position);
  }
  for (const bool with_rows : {false, true}) {
    const mcp::ToolResult result = to_tool_result(report, with_rows);
    EXPECT_LE(result.text.size(), 4200U);
    EXPECT_THAT(result.text, HasSubstr("more lines: structured output has them all"));
    EXPECT_EQ(result.text.find("detail \"ngrams\"") != std::string::npos, with_rows);
    EXPECT_EQ(result.structured.at("tokens").size(), 2000U);
    EXPECT_EQ(result.structured.at("tokens")[1999].contains("layers"), with_rows);
  }
}

TEST_F(RegistryTest, LookupRowsComeWhenAskedFor) {
  const auto tool = std::find_if(registry_.tools.begin(), registry_.tools.end(),
                                 [](const mcp::Tool& t) { return t.name == "engram_lookup"; });
  ASSERT_NE(tool, registry_.tools.end());
  const auto checked = mcp::validate(tool->input, {{"text", "x"}});
  ASSERT_TRUE(checked.has_value()) << checked.error().message;
  EXPECT_EQ(checked.value().at("detail"), "ngrams");
}

}  // namespace
}  // namespace engramd::server
