#include "mcp/registry.h"

#include <gtest/gtest.h>

namespace engramd::mcp {
namespace {

Registry sound_registry() {
  Registry registry;
  registry.tools = {{.name = "echo",
                     .description = "Echoes.",
                     .input = {{.name = "text", .description = "a text"}},
                     .handler = [](const std::shared_ptr<ToolCall>&) {}}};
  registry.resources = {
      {"test://note", "note", "", "A note.", "", [] { return Result<std::string>(""); }}};
  registry.prompts = {{"greet", "", "Greets.", {{"name", "who", true}}, [](const auto&) {
                         return Result<std::vector<PromptMessage>>();
                       }}};
  return registry;
}

TEST(LintRegistry, IsContentWithASoundRegistry) {
  EXPECT_TRUE(lint_registry(sound_registry()).empty());
}

TEST(LintRegistry, FindsEachFault) {
  using Change = void (*)(Registry&);
  const std::vector<std::pair<const char*, Change>> cases = {
      {"tool \"a b\" is not [A-Za-z0-9_-]{1,40}", [](Registry& r) { r.tools[0].name = "a b"; }},
      {"tool \"echo\" is there twice", [](Registry& r) { r.tools.push_back(r.tools[0]); }},
      {"tool echo has no description", [](Registry& r) { r.tools[0].description = ""; }},
      {"tool echo has a description over 2048 bytes",
       [](Registry& r) { r.tools[0].description = std::string(2049, 'x'); }},
      {"tool echo input: schema.text has no description",
       [](Registry& r) { r.tools[0].input[0].description = ""; }},
      {"tool echo has no handler", [](Registry& r) { r.tools[0].handler = nullptr; }},
      {"resource \"note\" is no URI", [](Registry& r) { r.resources[0].uri = "note"; }},
      {"test://note has no reader", [](Registry& r) { r.resources[0].read = nullptr; }},
      {"greet.name has no description",
       [](Registry& r) { r.prompts[0].arguments[0].description = ""; }},
      {"prompt greet has no renderer", [](Registry& r) { r.prompts[0].render = nullptr; }},
  };
  for (const auto& [complaint, change] : cases) {
    Registry registry = sound_registry();
    change(registry);
    EXPECT_EQ(lint_registry(registry), std::vector<std::string>{complaint});
  }
}

}  // namespace
}  // namespace engramd::mcp
