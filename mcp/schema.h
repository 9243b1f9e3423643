// Field tables: one description of an object from which both its JSON Schema and its validation
// come, so that the two cannot differ. Schemas stay inside what strict clients accept: root
// type object, no $ref/anyOf/type arrays, `items` on every array, a description on every property.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/result.h"

namespace engramd::mcp {

enum class FieldType { kString, kInteger, kNumber, kBoolean, kArray, kObject };

struct Field {
  std::string name;
  FieldType type = FieldType::kString;
  std::string description;
  bool required = false;
  nlohmann::json default_value;  // null: none
  std::optional<double> minimum, maximum;
  std::optional<std::int64_t> length_max;  // characters of a string, items of an array
  std::vector<std::string> enumeration;    // strings only
  std::vector<Field> children;             // kObject: properties; kArray of objects: the item's
  std::optional<FieldType> item_type;      // kArray
  std::vector<Field> nested_item;  // kArray of kArray: one Field that describes the inner item
  bool open = false;               // kObject: any further property is allowed
};

nlohmann::json to_json_schema(const std::vector<Field>& fields);

// Checks types, ranges, lengths, enumerations, required and unknown names (with the nearest known
// one); fills in defaults. Errors name the path, what was expected and what was got.
Result<nlohmann::json> validate(const std::vector<Field>& fields, const nlohmann::json& value);

}  // namespace engramd::mcp
