// Field tables: one description of an object from which both its JSON Schema and its validation
// come, so that the two cannot differ. Schemas stay inside what strict clients accept: root
// type object, no $ref/anyOf/type arrays, `items` on every array, a description on every property.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/result.h"

namespace engramd::mcp {

enum class FieldType { kString, kInteger, kNumber, kBoolean, kArray, kObject };

struct Field {
  std::string name = {};
  FieldType type = FieldType::kString;
  std::string description = {};
  bool required = false;
  nlohmann::json default_value = {};  // null: none
  // Of a number; of an array of numbers or strings, these three describe each item.
  std::optional<double> minimum = {};
  std::optional<double> maximum = {};
  std::vector<std::string> enumeration = {};    // strings only
  bool may_be_empty = true;                     // a string, an array
  std::optional<std::int64_t> length_max = {};  // characters of a string, items of an array
  std::vector<Field> children = {};         // kObject: properties; kArray of objects: the item's
  std::optional<FieldType> item_type = {};  // kArray
  // kArray of kArray, or of anything that the above cannot describe: one Field of type item_type. A
  // matrix of numbers is {.type = kArray, .item_type = kArray,
  //                       .nested_item = {{.type = kArray, .item_type = kNumber}}}.
  std::vector<Field> nested_item = {};
  bool open = false;  // kObject or array of objects: any further property is allowed
};

nlohmann::json to_json_schema(const std::vector<Field>& fields);

// Checks types, ranges, lengths, enumerations, required and unknown names (with the nearest known
// one); fills in defaults. Errors name the path, what was expected and what was got. Integers fit
// std::int64_t afterwards (5.0 becomes 5) and numbers are finite.
Result<nlohmann::json> validate(const std::vector<Field>& fields, const nlohmann::json& value);

// What in a schema would make a strict client drop the tool; empty when nothing does.
std::vector<std::string> lint_schema(const nlohmann::json& schema);

}  // namespace engramd::mcp
