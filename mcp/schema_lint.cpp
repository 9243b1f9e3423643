// What strict clients refuse in a tool schema, collected from their public bugs: Gemini CLI and
// VS Code drop tools with $ref or an array without items, others read only plain types, and the
// Gemini API refuses a whole request for an exclusive bound.
#include <algorithm>
#include <array>
#include <string_view>

#include "mcp/schema.h"

namespace engramd::mcp {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 11> kForbidden = {"$ref",
                                                         "$defs",
                                                         "definitions",
                                                         "anyOf",
                                                         "oneOf",
                                                         "allOf",
                                                         "not",
                                                         "if",
                                                         "patternProperties",
                                                         "exclusiveMinimum",
                                                         "exclusiveMaximum"};
constexpr std::array<std::string_view, 6> kTypes = {"string",  "integer", "number",
                                                    "boolean", "array",   "object"};

class Linter {
 public:
  std::vector<std::string> complaints;

  void check(const json& schema, const std::string& path) {
    if (!schema.is_object()) return complain(path, "is not an object (boolean schema?)");
    for (const std::string_view keyword : kForbidden) {
      if (schema.contains(keyword)) complain(path, "uses " + std::string(keyword));
    }
    const json type = schema.value("type", json());
    if (!type.is_string()) return complain(path, "has no single type");
    const std::string& name = type.get_ref<const std::string&>();
    if (std::find(kTypes.begin(), kTypes.end(), name) == kTypes.end()) {
      complain(path, "has the unknown type " + name);
    }
    if (name == "array") check_array(schema, path);
    if (name == "object") check_object(schema, path);
  }

 private:
  void complain(const std::string& path, const std::string& what) {
    complaints.push_back(path + ' ' + what);
  }

  void check_array(const json& schema, const std::string& path) {
    if (!schema.contains("items")) return complain(path, "is an array without items");
    check(schema["items"], path + "[]");
  }

  void check_object(const json& schema, const std::string& path) {
    const json properties = schema.value("properties", json::object());
    for (const auto& [name, property] : properties.items()) {
      const std::string inner = path + '.' + name;
      check(property, inner);
      if (property.is_object() && property.value("description", "").empty()) {
        complain(inner, "has no description");
      }
    }
    for (const json& name : schema.value("required", json::array())) {
      if (!name.is_string() || !properties.contains(name.get<std::string>())) {
        complain(path, "requires " + name.dump() + ", which is no property");
      }
    }
    const json further = schema.value("additionalProperties", json(false));
    if (further != json(false)) complain(path, "has additionalProperties other than false");
  }
};

}  // namespace

std::vector<std::string> lint_schema(const json& schema) {
  Linter linter;
  linter.check(schema, "schema");
  if (schema.is_object() && schema.value("type", json()) != "object") {
    linter.complaints.push_back("schema root is not of type object");
  }
  return linter.complaints;
}

}  // namespace engramd::mcp
