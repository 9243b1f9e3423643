// Answers held to JSON schemas: random schemas, a model that says anything, and a validator that
// knows nothing of the automaton.
#include "engine/runtime/constraint/constraint.h"

#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/runtime/constraint/json_schema.h"

namespace engramd::engine {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using ::testing::HasSubstr;
using Random = std::mt19937;

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer =
      Tokenizer::from_file(std::string(ENGRAMD_SOURCE_DIR) +
                           "/install/models/engram-nano/tokenizer.json")
          .value();
  return kTokenizer;
}

const std::shared_ptr<TokenTrie>& trie() {
  static const std::shared_ptr<TokenTrie> kTrie = TokenTrie::build(tokenizer()).value();
  return kTrie;
}

std::shared_ptr<const JsonGrammar> grammar_of(const ordered_json& schema) {
  auto grammar = compile_json_schema(schema.dump());
  EXPECT_TRUE(grammar.has_value()) << schema << ": " << grammar.error().message;
  return grammar.has_value() ? *grammar : any_json_object();
}

int below(Random& random, int n) {
  return std::uniform_int_distribution<int>(0, n - 1)(random);
}

// ---- A validator of the keywords that are supported.

bool is_type(const json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return type == value.type_name();
}

std::int64_t n_characters(const std::string& utf8) {
  std::int64_t n = 0;
  for (const char c : utf8) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return n;
}

bool validates(const json& value, const json& schema, const json& root);

bool object_validates(const json& value, const json& schema, const json& root) {
  const json properties = schema.value("properties", json::object());
  for (const json& name : schema.value("required", json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  for (const auto& [name, item] : value.items()) {
    const json& item_schema = properties.contains(name) ? properties[name]
                              : schema.contains("additionalProperties")
                                  ? schema["additionalProperties"]
                                  : json(true);
    if (!validates(item, item_schema, root)) return false;
  }
  return true;
}

bool validates(const json& value, const json& schema, const json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    const std::string reference = schema["$ref"];
    return validates(value, root.at(json::json_pointer(reference.substr(1))), root);
  }
  for (const char* keyword : {"anyOf", "allOf"}) {
    if (!schema.contains(keyword)) continue;
    bool any = false;
    for (const json& one : schema[keyword]) any = any || validates(value, one, root);
    if (!any) return false;
  }
  if (schema.contains("const") && value != schema["const"]) return false;
  if (schema.contains("enum")) {
    bool any = false;
    for (const json& one : schema["enum"]) any = any || value == one;
    if (!any) return false;
  }
  if (schema.contains("type")) {
    const json types = schema["type"].is_array() ? schema["type"] : json::array({schema["type"]});
    bool any = false;
    for (const json& type : types) any = any || is_type(value, type);
    if (!any) return false;
  }
  if (value.is_string()) {
    const std::int64_t n = n_characters(value);
    if (n < schema.value("minLength", 0) || n > schema.value("maxLength", 1 << 30)) return false;
  }
  if (value.is_array()) {
    const auto n = static_cast<std::int64_t>(value.size());
    if (n < schema.value("minItems", 0) || n > schema.value("maxItems", 1 << 30)) return false;
    for (const json& item : value) {
      if (schema.contains("items") && !validates(item, schema["items"], root)) return false;
    }
  }
  return !value.is_object() || object_validates(value, schema, root);
}

// ---- Random schemas.

ordered_json random_schema(Random& random, int depth);

ordered_json random_object(Random& random, int depth) {
  ordered_json schema = {{"type", "object"}};
  const int n = below(random, 4);
  for (int i = 0; i < n; ++i) {
    static const char* const kNames[] = {"name", "na", "\"q\\", "größe", "x y", "0"};
    const std::string name = kNames[below(random, 6)];
    schema["properties"][name] = random_schema(random, depth + 1);
    if (below(random, 2) == 0) schema["required"].push_back(name);
  }
  if (below(random, 3) == 0) schema["additionalProperties"] = false;
  return schema;
}

ordered_json random_scalar(Random& random) {
  switch (below(random, 6)) {
    case 0:
      return {{"type", "integer"}};
    case 1:
      return {{"type", {"number", "null"}}};
    case 2:
      return {{"enum", {"a", "ab", "b", 1, 12, 1.5, nullptr, {{"k", {1, 2}}}}}};
    case 3:
      return {{"const", "naïve \"word\""}};
    case 4: {
      const int low = below(random, 4);
      return {{"type", "string"}, {"minLength", low}, {"maxLength", low + below(random, 6)}};
    }
    default:
      return {{"type", {"boolean", "string"}}, {"maxLength", 3}};
  }
}

ordered_json random_schema(Random& random, int depth) {
  const int kind = depth > 3 ? 9 : below(random, 10);
  if (kind < 3) return random_object(random, depth);
  if (kind == 3) {
    const int low = below(random, 3);
    return {{"type", "array"},
            {"items", random_schema(random, depth + 1)},
            {"minItems", low},
            {"maxItems", low + below(random, 3)}};
  }
  if (kind == 4) {
    return {{"anyOf", {random_schema(random, depth + 1), random_schema(random, depth + 1)}}};
  }
  if (kind == 5) return {{"$ref", "#/$defs/tree"}};
  return random_scalar(random);
}

ordered_json random_root(Random& random) {
  ordered_json root = random_object(random, 0);
  root["$defs"]["tree"] = ordered_json::parse(
      R"({"type": "object", "required": ["left"], "additionalProperties": false, "properties":
          {"left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
           "label": {"type": "string", "maxLength": 2}}})");
  return root;
}

// One of the allowed, at random; often one that closes something, so that texts end.
TokenId choose(Random& random, const TokenSet& allowed) {
  std::vector<TokenId> all, closing;
  allowed.for_each([&](TokenId id) {
    all.push_back(id);
    if (tokenizer().token_bytes(id).find_first_of("\"}],") != std::string_view::npos) {
      closing.push_back(id);
    }
  });
  const auto& from = !closing.empty() && below(random, 4) != 0 ? closing : all;
  return from[static_cast<std::size_t>(below(random, static_cast<int>(from.size())))];
}

// The whole text, or nothing when it grows long.
std::optional<std::string> generate(Random& random,
                                    const std::shared_ptr<const JsonGrammar>& grammar) {
  Constraint constraint(grammar, trie());
  std::string text;
  for (int i = 0; i < 600; ++i) {
    if (constraint.must_end() || (constraint.may_end() && below(random, 2) == 0)) return text;
    const TokenSet& allowed = constraint.allowed();
    EXPECT_FALSE(allowed.empty()) << "stuck after " << text;
    if (allowed.empty()) return std::nullopt;
    const TokenId token = choose(random, allowed);
    text += tokenizer().token_bytes(token);
    constraint.accept(token);
  }
  return std::nullopt;
}

TEST(Constraint, WhateverIsSaidParsesAndValidates) {
  Random random(1);
  int n_complete = 0;
  for (int i = 0; i < 400; ++i) {
    const ordered_json schema = random_root(random);
    const auto grammar = grammar_of(schema);
    const auto text = generate(random, grammar);
    if (!text) continue;
    ++n_complete;
    const json value = json::parse(*text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << *text;
    const json plain = json::parse(schema.dump());
    ASSERT_TRUE(validates(value, plain, plain)) << *text << "\n" << schema;
  }
  EXPECT_GE(n_complete, 350);
}

TEST(Constraint, AnyObjectParsesAndNestsToItsLimitOnly) {
  Random random(2);
  int n_complete = 0;
  for (int i = 0; i < 200; ++i) {
    const auto text = generate(random, any_json_object());
    if (!text) continue;
    ++n_complete;
    ASSERT_TRUE(json::parse(*text, nullptr, false).is_object()) << *text;
  }
  EXPECT_GE(n_complete, 100);

  // A model that does nothing but open is led to an end.
  Constraint constraint(any_json_object(), trie());
  const TokenId open = *tokenizer().token_to_id("{");
  const TokenId quote = *tokenizer().token_to_id("\"");
  const TokenId colon = *tokenizer().token_to_id(":");
  int depth = 0;
  while (constraint.allowed().contains(open)) {
    constraint.accept(open);
    ++depth;
    if (!constraint.allowed().contains(quote)) break;
    for (const TokenId token : {quote, quote, colon}) constraint.accept(token);
  }
  EXPECT_EQ(depth, kJsonDepthMax);
}

// The walk over the tree and its short cuts against one token after the other.
TEST(Constraint, AllowedTokensAreThoseThatFitByteByByte) {
  Random random(3);
  for (int i = 0; i < 60; ++i) {
    const auto grammar = grammar_of(random_root(random));
    Constraint constraint(grammar, trie());
    JsonAutomaton automaton(*grammar);
    std::vector<JsonState> states = {automaton.start()};
    const auto after = [&](TokenId token) {
      std::vector<JsonState> at = states;
      for (const char c : tokenizer().token_bytes(token)) {
        std::vector<JsonState> next;
        for (const JsonState& state : at) automaton.step(state, static_cast<std::uint8_t>(c), next);
        at = std::move(next);
      }
      return at;
    };
    for (int step = 0; step < 12 && !constraint.must_end(); ++step) {
      const TokenSet allowed = constraint.allowed();
      for (TokenId id = 0; id < tokenizer().vocab_size(); ++id) {
        const bool usable = !tokenizer().is_special(id) && !tokenizer().token_bytes(id).empty();
        const std::size_t stack_size = automaton.stack_size();
        ASSERT_EQ(allowed.contains(id), usable && !after(id).empty())
            << tokenizer().token_bytes(id);
        automaton.rewind(stack_size);
      }
      const TokenId token = choose(random, allowed);
      states = after(token);
      constraint.accept(token);
    }
  }
}

TEST(Constraint, OptionalPropertiesComeInOrderOrNotAtAll) {
  const auto grammar = grammar_of(ordered_json::parse(
      R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}},
          "required": ["b"]})"));
  const auto fits = [&](const std::string& text) {
    JsonAutomaton automaton(*grammar);
    std::vector<JsonState> states = {automaton.start()};
    for (const char c : text) {
      std::vector<JsonState> next;
      for (const JsonState& state : states) {
        automaton.step(state, static_cast<std::uint8_t>(c), next);
      }
      states = std::move(next);
    }
    return std::any_of(states.begin(), states.end(),
                       [&](const JsonState& state) { return automaton.may_end(state); });
  };
  for (const char* text :
       {R"({"b":2})", R"({"a":1,"b":2})", R"({"a": 1, "b": 2, "c": 3})", R"({"b":2,"c":3})"}) {
    EXPECT_TRUE(fits(text)) << text;
  }
  for (const char* text : {R"({})", R"({"a":1})", R"({"a":1,"c":3})", R"({"b":2,"a":1})",
                           R"({"b":2,})", R"({"b":2,"b":2})", R"({"b":3})", R"({"b":2} )"}) {
    EXPECT_FALSE(fits(text)) << text;
  }
}

TEST(Constraint, NumbersAndStringsAreWhatReadersTake) {
  const auto ends = [](const char* schema, const std::string& text) {
    const auto grammar = grammar_of(ordered_json::parse(schema));
    JsonAutomaton automaton(*grammar);
    std::vector<JsonState> states = {automaton.start()};
    for (const char c : text) {
      std::vector<JsonState> next;
      for (const JsonState& state : states) {
        automaton.step(state, static_cast<std::uint8_t>(c), next);
      }
      states = std::move(next);
    }
    return !states.empty() && automaton.may_end(states[0]);
  };
  const char* number = R"({"type": "number"})";
  for (const char* text : {"0", "-0.5", "12", "123456789012345", "1.25"}) {
    EXPECT_TRUE(ends(number, text)) << text;
  }
  for (const char* text : {"", "-", "01", "1.", ".5", "+1", "1234567890123456", "1e5"}) {
    EXPECT_FALSE(ends(number, text)) << text;
  }
  EXPECT_FALSE(ends(R"({"type": "integer"})", "1.5"));
  const char* string = R"({"type": "string"})";
  for (const char* text :
       {"\"\"", "\"\\u00e9\\n\"", "\"\xC3\xA9\xF0\x9F\x98\x80\"", "\"\\ud7ff\""}) {
    EXPECT_TRUE(ends(string, text)) << text;
  }
  for (const char* text : {"\"\n\"", "\"\\x\"", "\"\\ud800\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"",
                           "\"\xF4\x90\x80\x80\"", "\"\xC3\"", "\""}) {
    EXPECT_FALSE(ends(string, text)) << text;
  }
  EXPECT_TRUE(ends(R"({"type": "string", "maxLength": 2})", "\"\xC3\xA9\\n\""));
  EXPECT_FALSE(ends(R"({"type": "string", "maxLength": 1})", "\"\xC3\xA9\\n\""));
  EXPECT_FALSE(ends(R"({"type": "string", "minLength": 2})", "\"\xC3\xA9\""));
}

TEST(JsonSchema, WhatCannotBeKeptIsRefusedByName) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({"type": "string", "pattern": "a"})", "pattern"},
      {R"({"type": "string", "format": "date"})", "format"},
      {R"({"type": "integer", "minimum": 1})", "minimum"},
      {R"({"properties": {"a": {"oneOf": [{}]}}})", "oneOf"},
      {R"({"not": {}})", "not"},
      {R"({"type": "thing"})", "type: expected"},
      {R"({"type": []})", "at least one"},
      {R"({"$ref": "#/$defs/none"})", "#/$defs/none"},
      {R"({"$ref": "other.json"})", "other.json"},
      {R"({"$ref": "#"})", "leads back to itself"},
      {R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", "leads back to itself"},
      {R"({"anyOf": []})", "anyOf"},
      {R"({"anyOf": [{}], "type": "object"})", "beside"},
      {R"({"allOf": [{}, {}]})", "allOf"},
      {R"({"type": "string", "minLength": 3, "maxLength": 2})", "greater"},
      {R"({"minItems": -1})", "minItems"},
      {R"({"enum": []})", "enum"},
      {R"({"enum": ["a"], "type": "integer"})", "enum"},
      {R"({"properties": {"a": false}, "required": ["a"]})", "$.a: false"},
      {R"({"properties": [], "type": "object"})", "properties"},
      {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})", "levels"},
      {R"("text")", "expected a schema"},
      {R"({"type")", "not valid JSON"},
  };
  for (const auto& [schema, words] : kCases) {
    const auto grammar = compile_json_schema(schema);
    ASSERT_TRUE(grammar.has_error()) << schema;
    EXPECT_THAT(grammar.error().message, HasSubstr(words)) << schema;
  }
}

TEST(JsonSchema, SizeAndDepthAreBounded) {
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += R"({"items":)";
  EXPECT_THAT(compile_json_schema(deep).error().message, HasSubstr("deeper"));
  ordered_json wide = ordered_json::array();
  for (int i = 0; i < 10000; ++i) wide.push_back({{"type", "null"}});
  EXPECT_THAT(compile_json_schema(ordered_json{{"anyOf", wide}}.dump()).error().message,
              HasSubstr("parts"));
}

}  // namespace
}  // namespace engramd::engine
