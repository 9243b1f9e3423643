#include "mcp/schema.h"

#include <limits>

#include <gtest/gtest.h>

namespace engramd::mcp {
namespace {

using nlohmann::json;

std::vector<Field> sample_fields() {
  return {
      {.name = "text", .description = "a text", .required = true, .length_max = 5},
      {.name = "mode",
       .description = "a mode",
       .default_value = "fast",
       .enumeration = {"fast", "slow"}},
      {.name = "count",
       .type = FieldType::kInteger,
       .description = "a count",
       .minimum = 1,
       .maximum = 9},
      {.name = "share", .type = FieldType::kNumber, .description = "a share", .minimum = 0.5},
      {.name = "on", .type = FieldType::kBoolean, .description = "a switch", .default_value = true},
      {.name = "ids",
       .type = FieldType::kArray,
       .description = "ids",
       .minimum = 0,
       .length_max = 3,
       .item_type = FieldType::kInteger},
      {.name = "messages",
       .type = FieldType::kArray,
       .description = "messages",
       .children = {{.name = "role",
                     .description = "who",
                     .required = true,
                     .enumeration = {"user", "assistant"}},
                    {.name = "weight",
                     .type = FieldType::kNumber,
                     .description = "w",
                     .default_value = 1.5}},
       .item_type = FieldType::kObject},
      {.name = "matrix",
       .type = FieldType::kArray,
       .description = "rows",
       .item_type = FieldType::kArray,
       .nested_item = {{.type = FieldType::kArray, .item_type = FieldType::kNumber}}},
      {.name = "bias", .type = FieldType::kObject, .description = "per token", .open = true},
      {.name = "stops",
       .type = FieldType::kArray,
       .description = "texts",
       .may_be_empty = false,
       .item_type = FieldType::kString,
       .nested_item = {{.may_be_empty = false, .length_max = 4}}},
      {.name = "seed",
       .type = FieldType::kInteger,
       .description = "a seed",
       .minimum = -9007199254740992,
       .maximum = 9007199254740991},
  };
}

TEST(ToJsonSchema, StatesEveryRuleOfTheTable) {
  EXPECT_EQ(to_json_schema(sample_fields()), json::parse(R"({
    "type": "object", "additionalProperties": false, "required": ["text"],
    "properties": {
      "text": {"type": "string", "description": "a text", "maxLength": 5},
      "mode": {"type": "string", "description": "a mode", "default": "fast", "enum": ["fast",
           "slow"]},
      "count": {"type": "integer", "description": "a count", "minimum": 1, "maximum": 9},
      "share": {"type": "number", "description": "a share", "minimum": 0.5},
      "on": {"type": "boolean", "description": "a switch", "default": true},
      "ids": {"type": "array", "description": "ids", "maxItems": 3,
              "items": {"type": "integer", "minimum": 0}},
      "messages": {"type": "array", "description": "messages", "items": {
        "type": "object", "additionalProperties": false, "required": ["role"], "properties": {
          "role": {"type": "string", "description": "who", "enum": ["user", "assistant"]},
          "weight": {"type": "number", "description": "w", "default": 1.5}}}},
      "matrix": {"type": "array", "description": "rows",
                 "items": {"type": "array", "items": {"type": "number"}}},
      "bias": {"type": "object", "description": "per token"},
      "stops": {"type": "array", "description": "texts", "minItems": 1,
                "items": {"type": "string", "minLength": 1, "maxLength": 4}},
      "seed": {"type": "integer", "description": "a seed", "minimum": -9007199254740992,
               "maximum": 9007199254740991}
    }})"));
  EXPECT_EQ(to_json_schema({}), json::parse(R"({"type":"object","additionalProperties":false})"));
  EXPECT_TRUE(lint_schema(to_json_schema(sample_fields())).empty());
}

// Equality of json does not tell 5 from 5.0, but some clients do.
TEST(ToJsonSchema, WholeBoundsAreWrittenAsIntegersWhereDoublesAreExact) {
  const auto maximum_of = [](double maximum) {
    const std::vector<Field> fields = {
        {.name = "n", .type = FieldType::kInteger, .description = "n", .maximum = maximum}};
    return to_json_schema(fields).at("properties").at("n").at("maximum").dump();
  };
  EXPECT_EQ(maximum_of(0), "0");
  EXPECT_EQ(maximum_of(-9007199254740991), "-9007199254740991");
  EXPECT_EQ(maximum_of(9007199254740991), "9007199254740991");
  EXPECT_EQ(maximum_of(9007199254740992), "9007199254740992");
  EXPECT_EQ(maximum_of(0.5), "0.5");
}

TEST(Validate, FillsInDefaultsAndNormalisesIntegers) {
  const auto checked =
      validate(sample_fields(),
               json::parse(R"({"text":"\u4f60\u597d","count":5.0,"messages":[{"role":"user"}],
                                       "matrix":[[1,2.5],[]],"bias":{"7":-1},"ids":[0,2]})"));
  ASSERT_TRUE(checked.has_value()) << checked.error().message;
  EXPECT_EQ(*checked, json::parse(R"({"text":"\u4f60\u597d","mode":"fast","count":5,"on":true,
    "messages":[{"role":"user","weight":1.5}],"matrix":[[1,2.5],[]],"bias":{"7":-1},
           "ids":[0,2]})"));
  EXPECT_TRUE((*checked)["count"].is_number_integer());
}

struct Refusal {
  const char* value;
  const char* message;
};

TEST(Validate, SaysWhatWasWrongAndWhere) {
  const std::vector<Refusal> cases = {
      {R"([])", "arguments: expected an object, got an array"},
      {R"({})", "text: missing, expected string (a text)"},
      {R"({"txt":"a"})", R"(arguments: unknown name "txt" (did you mean "text"?))"},
      {R"({"text":7})", "text: expected a string, got 7"},
      {R"({"text":null})", "text: expected a string, got null"},
      {R"({"text":"123456"})", "text: expected at most 5 characters, got 6"},
      {R"({"text":"a","mode":"medium"})",
       R"(mode: expected one of "fast", "slow", got the string "medium")"},
      {R"({"text":"a","count":"5"})", R"(count: expected an integer, got the string "5")"},
      {R"({"text":"a","count":5.5})", "count: expected an integer of 64 bits, got 5.5"},
      {R"({"text":"a","count":0})", "count: expected an integer >= 1 and <= 9, got 0"},
      {R"({"text":"a","count":10})", "count: expected an integer >= 1 and <= 9, got 10"},
      {R"({"text":"a","count":18446744073709551615})",
       "count: expected an integer of 64 bits, got 18446744073709551615"},
      {R"({"text":"a","share":0.25})", "share: expected a number >= 0.5, got 0.25"},
      {R"({"text":"a","on":1})", "on: expected true or false, got 1"},
      {R"({"text":"a","ids":7})", "ids: expected an array, got 7"},
      {R"({"text":"a","ids":[1,2,3,4]})", "ids: expected at most 3 items, got 4"},
      {R"({"text":"a","ids":[1,-2]})", "ids[1]: expected an integer >= 0, got -2"},
      {R"({"text":"a","messages":[{"role":"user"},{"role":"usr"}]})",
       R"(messages[1].role: expected one of "user", "assistant", got the string "usr")"},
      {R"({"text":"a","messages":[{"rol":"user"}]})",
       R"(messages[0]: unknown name "rol" (did you mean "role"?))"},
      {R"({"text":"a","matrix":[[1],["x"]]})",
       R"(matrix[1][0]: expected a number, got the string "x")"},
      {R"({"text":"a","bias":[]})", "bias: expected an object, got an array"},
      {R"({"text":"a","stops":[]})", "stops: expected at least 1 item, got an empty array"},
      {R"({"text":"a","stops":["a",""]})",
       "stops[1]: expected at least 1 character, got an empty string"},
      {R"({"text":"a","stops":["12345"]})", "stops[0]: expected at most 4 characters, got 5"},
  };
  for (const Refusal& each : cases) {
    const auto checked = validate(sample_fields(), json::parse(each.value));
    ASSERT_FALSE(checked.has_value()) << each.value;
    EXPECT_EQ(checked.error().message, each.message);
    EXPECT_EQ(checked.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(Validate, RefusesNumbersThatJsonCannotSay) {
  const std::vector<Field> fields = {{.name = "x", .type = FieldType::kNumber, .description = "x"}};
  for (const double x :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(validate(fields, {{"x", x}}).has_value());
  }
}

TEST(LintSchema, FindsWhatStrictClientsRefuse) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"type":"string"})", "schema root is not of type object"},
      {R"(true)", "schema is not an object (boolean schema?)"},
      {R"({"type":"object","anyOf":[]})", "schema uses anyOf"},
      {R"({"type":"object","$defs":{}})", "schema uses $defs"},
      {R"({"type":"object","properties":{"a":{"type":"number","description":"d",
           "exclusiveMinimum":0}}})",
       "schema.a uses exclusiveMinimum"},
      {R"({"type":"object","additionalProperties":{}})",
       "schema has additionalProperties other than false"},
      {R"({"type":"object","required":["x"]})", R"(schema requires "x", which is no property)"},
      {R"({"type":"object","properties":{"a":{"type":"string"}}})", "schema.a has no description"},
      {R"({"type":"object","properties":{"a":{"type":"array","description":"d"}}})",
       "schema.a is an array without items"},
      {R"({"type":"object","properties":{"a":{"type":["string","null"],"description":"d"}}})",
       "schema.a has no single type"},
      {R"({"type":"object","properties":{"a":{"type":"array","description":"d",
           "items":{"$ref":"#/x","type":"object"}}}})",
       "schema.a[] uses $ref"},
  };
  for (const auto& [schema, complaint] : cases) {
    const auto complaints = lint_schema(json::parse(schema));
    ASSERT_FALSE(complaints.empty()) << schema;
    EXPECT_EQ(complaints.front(), complaint) << schema;
  }
}

}  // namespace
}  // namespace engramd::mcp
