#include "mcp/schema.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mcp/text.h"

namespace engramd::mcp {
namespace {

using nlohmann::json;

const char* type_name(FieldType type) {
  switch (type) {
    case FieldType::kString:
      return "string";
    case FieldType::kInteger:
      return "integer";
    case FieldType::kNumber:
      return "number";
    case FieldType::kBoolean:
      return "boolean";
    case FieldType::kArray:
      return "array";
    case FieldType::kObject:
      return "object";
  }
  ENGRAMD_ASSERT(false);
}

// The item of an array as a Field of its own, without a name.
Field item_of(const Field& array) {
  ENGRAMD_ASSERT(array.item_type.has_value());
  if (*array.item_type == FieldType::kArray || !array.nested_item.empty()) {
    ENGRAMD_ASSERT(array.nested_item.size() == 1);
    ENGRAMD_ASSERT(array.nested_item.front().type == *array.item_type);
    return array.nested_item.front();
  }
  Field item;
  item.type = *array.item_type;
  item.minimum = array.minimum;
  item.maximum = array.maximum;
  item.enumeration = array.enumeration;
  item.children = array.children;
  item.open = array.open;
  return item;
}

// Whole numbers as integers, as far as a double is exact.
json number(double value) {
  constexpr double kExactMax = 9007199254740992.0;  // 2^53
  if (std::trunc(value) == value && std::abs(value) <= kExactMax) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

json object_schema(const std::vector<Field>& fields, bool open);

json field_schema(const Field& field) {
  json schema = field.type == FieldType::kObject ? object_schema(field.children, field.open)
                                                 : json{{"type", type_name(field.type)}};
  if (!field.description.empty()) schema["description"] = field.description;
  if (!field.default_value.is_null()) schema["default"] = field.default_value;
  if (field.type == FieldType::kArray) {
    schema["items"] = field_schema(item_of(field));
    if (!field.may_be_empty) schema["minItems"] = 1;
    if (field.length_max) schema["maxItems"] = *field.length_max;
    return schema;
  }
  if (field.minimum) schema["minimum"] = number(*field.minimum);
  if (field.maximum) schema["maximum"] = number(*field.maximum);
  if (!field.enumeration.empty()) schema["enum"] = field.enumeration;
  if (!field.may_be_empty) schema["minLength"] = 1;
  if (field.length_max) schema["maxLength"] = *field.length_max;
  return schema;
}

json object_schema(const std::vector<Field>& fields, bool open) {
  json schema = {{"type", "object"}};
  if (!open) schema["additionalProperties"] = false;
  for (const Field& field : fields) {
    schema["properties"][field.name] = field_schema(field);
    if (field.required) schema["required"].push_back(field.name);
  }
  return schema;
}

// What was received, short enough for an error message.
std::string describe(const json& value) {
  if (value.is_string()) return "the string " + quote(value.get_ref<const std::string&>());
  if (value.is_structured()) return std::string("an ") + value.type_name();
  return value.dump();
}

using Checked = std::optional<Error>;  // nothing: conforms

Error wrong_value(const std::string& path, const std::string& expected, const json& got) {
  return invalid_argument(path + ": expected " + expected + ", got " + describe(got));
}

Checked check_object(const std::vector<Field>& fields, bool open, json& value,
                     const std::string& path);
Checked check(const Field& field, json& value, const std::string& path);

Checked check_string(const Field& field, const json& value, const std::string& path) {
  if (!value.is_string()) return wrong_value(path, "a string", value);
  const auto& text = value.get_ref<const std::string&>();
  if (!field.may_be_empty && text.empty()) {
    return invalid_argument(path + ": expected at least 1 character, got an empty string");
  }
  const auto characters =
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  if (field.length_max && characters > *field.length_max) {
    return invalid_argument(path + ": expected at most " + std::to_string(*field.length_max) +
                            " characters, got " + std::to_string(characters));
  }
  const auto& allowed = field.enumeration;
  if (allowed.empty() || std::find(allowed.begin(), allowed.end(), text) != allowed.end())
    return {};
  std::string expected = "one of";
  for (const std::string& name : allowed) {
    expected += (&name == &allowed.front() ? " \"" : ", \"") + name + '"';
  }
  return wrong_value(path, expected, value);
}

Checked check_number(const Field& field, json& value, const std::string& path) {
  const bool integer = field.type == FieldType::kInteger;
  if (!value.is_number()) return wrong_value(path, integer ? "an integer" : "a number", value);
  const double amount = value.get<double>();
  if (!std::isfinite(amount)) return wrong_value(path, "a finite number", value);
  if (integer) {
    // 2^63 itself is the first double that no longer fits.
    constexpr double kIntegerEnd = 9223372036854775808.0;
    if (std::trunc(amount) != amount || amount < -kIntegerEnd || amount >= kIntegerEnd) {
      return wrong_value(path, "an integer of 64 bits", value);
    }
    if (!value.is_number_integer()) value = static_cast<std::int64_t>(amount);
  }
  if ((field.minimum && amount < *field.minimum) || (field.maximum && amount > *field.maximum)) {
    std::string expected = integer ? "an integer" : "a number";
    if (field.minimum) expected += " >= " + number(*field.minimum).dump();
    if (field.minimum && field.maximum) expected += " and";
    if (field.maximum) expected += " <= " + number(*field.maximum).dump();
    return wrong_value(path, expected, value);
  }
  return {};
}

Checked check_array(const Field& field, json& value, const std::string& path) {
  if (!value.is_array()) return wrong_value(path, "an array", value);
  if (!field.may_be_empty && value.empty()) {
    return invalid_argument(path + ": expected at least 1 item, got an empty array");
  }
  if (field.length_max && static_cast<std::int64_t>(value.size()) > *field.length_max) {
    return invalid_argument(path + ": expected at most " + std::to_string(*field.length_max) +
                            " items, got " + std::to_string(value.size()));
  }
  const Field item = item_of(field);
  for (size_t i = 0; i < value.size(); ++i) {
    if (auto error = check(item, value[i], path + '[' + std::to_string(i) + ']')) return error;
  }
  return {};
}

Checked check(const Field& field, json& value, const std::string& path) {
  switch (field.type) {
    case FieldType::kString:
      return check_string(field, value, path);
    case FieldType::kInteger:
    case FieldType::kNumber:
      return check_number(field, value, path);
    case FieldType::kBoolean:
      return value.is_boolean() ? Checked() : wrong_value(path, "true or false", value);
    case FieldType::kArray:
      return check_array(field, value, path);
    case FieldType::kObject:
      if (!value.is_object()) return wrong_value(path, "an object", value);
      return check_object(field.children, field.open, value, path);
  }
  ENGRAMD_ASSERT(false);
}

// Before anything is called missing, because a misspelt name is both.
Checked check_names(const std::vector<Field>& fields, const json& value, const std::string& path) {
  std::vector<std::string> known;
  for (const Field& field : fields) known.push_back(field.name);
  for (const auto& [name, unused] : value.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return invalid_argument((path.empty() ? "arguments" : path) + ": unknown name " + quote(name) +
                            suggest(name, known) + (known.empty() ? ", expected none" : ""));
  }
  return {};
}

Checked check_object(const std::vector<Field>& fields, bool open, json& value,
                     const std::string& path) {
  if (!open) {
    if (auto error = check_names(fields, value, path)) return error;
  }
  const std::string prefix = path.empty() ? path : path + '.';
  for (const Field& field : fields) {
    const auto member = value.find(field.name);
    if (member != value.end()) {
      if (auto error = check(field, *member, prefix + field.name)) return error;
    } else if (field.required) {
      return invalid_argument(prefix + field.name + ": missing, expected " + type_name(field.type) +
                              (field.description.empty() ? "" : " (" + field.description + ")"));
    } else if (!field.default_value.is_null()) {
      value[field.name] = field.default_value;
    }
  }
  return {};
}

}  // namespace

json to_json_schema(const std::vector<Field>& fields) {
  return object_schema(fields, false);
}

Result<json> validate(const std::vector<Field>& fields, const json& value) {
  if (!value.is_object()) return wrong_value("arguments", "an object", value);
  json checked = value;
  if (auto error = check_object(fields, false, checked, "")) return *error;
  // Said in full, because json converts from and to almost anything.
  return Result<json>(boost::system::in_place_value, std::move(checked));
}

}  // namespace engramd::mcp
