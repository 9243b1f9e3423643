#include "engine/runtime/constraint/json_schema.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace engramd::engine {
namespace {

using Schema = nlohmann::ordered_json;

constexpr std::size_t kNodesMax = 8192;
constexpr int kDepthMax = 256;                 // of the schema's text
constexpr std::int64_t kCountMax = 1'000'000;  // of minItems, maxLength ...

// What says nothing about the value.
constexpr std::array kAnnotations = {"title",       "description", "default",  "examples",
                                     "$schema",     "$id",         "$comment", "$defs",
                                     "definitions", "deprecated",  "readOnly", "writeOnly"};
// What is kept, by the type that it speaks of; it means nothing beside another type.
constexpr std::array kConstraints = {
    "type",  "enum",     "const",    "properties", "required", "additionalProperties",
    "items", "minItems", "maxItems", "minLength",  "maxLength"};
constexpr std::array kReferences = {"$ref", "anyOf", "allOf"};

template <class List>
bool is_one_of(const std::string& word, const List& list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

class Compiler {
 public:
  explicit Compiler(const Schema& root) : root_(root) {}

  Result<JsonGrammar> run() {
    grammar_.root = compile(root_, "$");
    while (!pending_.empty() && !error_) {
      const auto [reference, node] = std::move(pending_.front());
      pending_.pop_front();
      resolve(reference, node);
    }
    if (!error_) find_endless_choices();
    if (error_) return invalid_argument(*error_);
    measure_depths();
    if (depth_min(grammar_.root) > kJsonDepthMax) {
      return invalid_argument("no text of at most " + std::to_string(kJsonDepthMax) +
                              " levels can fit the schema");
    }
    return std::move(grammar_);
  }

  int any_object() { return add(map_of(any_value())); }
  JsonGrammar take(int root) {
    grammar_.root = root;
    measure_depths();
    return std::move(grammar_);
  }

 private:
  int fail(const std::string& path, const std::string& message) {
    if (!error_) error_ = path + ": " + message;
    return 0;
  }

  int add(JsonNode node) {
    if (grammar_.nodes.size() >= kNodesMax) {
      return fail("$", "the schema has more than " + std::to_string(kNodesMax) + " parts");
    }
    grammar_.nodes.push_back(std::move(node));
    return static_cast<int>(grammar_.nodes.size()) - 1;
  }

  static JsonNode of_kind(JsonKind kind) {
    JsonNode node;
    node.kind = kind;
    return node;
  }
  static JsonNode texts(std::vector<std::string> list) {
    JsonNode node = of_kind(JsonKind::kText);
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    node.texts = std::move(list);
    return node;
  }
  static JsonNode any_of(std::vector<int> alternatives) {
    JsonNode node = of_kind(JsonKind::kAnyOf);
    node.alternatives = std::move(alternatives);
    return node;
  }
  static JsonNode map_of(int item) {
    JsonNode node = of_kind(JsonKind::kMap);
    node.item = item;
    return node;
  }

  // One node for all places where anything goes; it contains itself.
  int any_value() {
    if (any_) return *any_;
    const int any = add(any_of({}));
    any_ = any;
    JsonNode list = of_kind(JsonKind::kArray);
    list.item = any;
    const std::vector<int> alternatives = {
        add(map_of(any)), add(std::move(list)), add(of_kind(JsonKind::kString)),
        add(of_kind(JsonKind::kNumber)), add(texts({"true", "false", "null"}))};
    if (!error_) grammar_.nodes[static_cast<std::size_t>(any)].alternatives = alternatives;
    return any;
  }

  int compile(const Schema& schema, const std::string& path) {
    if (error_) return 0;
    if (schema.is_boolean()) {
      return schema.get<bool>() ? any_value() : fail(path, "false fits nothing");
    }
    if (!schema.is_object()) return fail(path, "expected a schema, an object");
    if (!check_keywords(schema, path)) return 0;
    for (const char* keyword : kReferences) {
      if (!schema.contains(keyword)) continue;
      for (const char* other : kConstraints) {
        if (schema.contains(other)) {
          return fail(path, std::string(other) + " beside " + keyword + " is not supported");
        }
      }
      return compile_reference(schema, keyword, path);
    }
    if (schema.contains("const")) return compile_values(schema, {schema["const"]}, path);
    if (schema.contains("enum")) {
      const Schema& values = schema["enum"];
      if (!values.is_array()) return fail(path, "enum must be an array");
      return compile_values(schema, {values.begin(), values.end()}, path);
    }
    return compile_types(schema, path);
  }

  bool check_keywords(const Schema& schema, const std::string& path) {
    for (const auto& [keyword, value] : schema.items()) {
      if (is_one_of(keyword, kAnnotations) || is_one_of(keyword, kConstraints) ||
          is_one_of(keyword, kReferences)) {
        continue;
      }
      fail(path, "the keyword \"" + keyword.substr(0, 40) + "\" is not supported");
      return false;
    }
    return true;
  }

  int compile_reference(const Schema& schema, const std::string& keyword, const std::string& path) {
    for (const char* other : kReferences) {
      if (other != keyword && schema.contains(other)) {
        return fail(path, std::string(other) + " beside " + keyword + " is not supported");
      }
    }
    const Schema& value = schema[keyword];
    if (keyword == "$ref") return reference(value, path);
    if (!value.is_array() || value.empty()) return fail(path, keyword + " must be a filled array");
    if (keyword == "allOf" && value.size() > 1) {
      return fail(path, "allOf of more than one schema is not supported");
    }
    std::vector<int> alternatives;
    for (std::size_t i = 0; i < value.size(); ++i) {
      alternatives.push_back(
          compile(value[i], path + "." + keyword + "[" + std::to_string(i) + "]"));
    }
    return add(any_of(std::move(alternatives)));
  }

  // A node that the referenced schema is put into later: references may go round in circles.
  int reference(const Schema& value, const std::string& path) {
    if (!value.is_string()) return fail(path, "$ref must be a string");
    const auto target = value.get<std::string>();
    if (!target.starts_with('#')) {
      return fail(path, "$ref: expected a place in this schema (#/$defs/...), got \"" +
                            target.substr(0, 60) + "\"");
    }
    const auto known = references_.find(target);
    if (known != references_.end()) return known->second;
    const int node = add(any_of({}));
    references_[target] = node;
    pending_.emplace_back(target, node);
    return node;
  }

  void resolve(const std::string& reference, int node) {
    const Schema* at = &root_;
    std::string_view rest = std::string_view(reference).substr(1);
    while (!rest.empty()) {
      if (rest.front() != '/') break;
      rest.remove_prefix(1);
      const std::size_t end = std::min(rest.find('/'), rest.size());
      const std::string name = unescaped(rest.substr(0, end));
      rest.remove_prefix(end);
      if (!at->is_object() || !at->contains(name)) {
        at = nullptr;
        break;
      }
      at = &(*at)[name];
    }
    if (at == nullptr || !rest.empty()) {
      fail("$", "$ref: the schema has no " + reference.substr(0, 60));
      return;
    }
    const int target = compile(*at, reference);
    if (!error_) grammar_.nodes[static_cast<std::size_t>(node)].alternatives = {target};
  }

  static std::string unescaped(std::string_view token) {  // RFC 6901
    std::string name(token);
    for (const auto& [from, to] : {std::pair{"~1", "/"}, std::pair{"~0", "~"}}) {
      for (std::size_t i = name.find(from); i != std::string::npos; i = name.find(from, i + 1)) {
        name.replace(i, 2, to);
      }
    }
    return name;
  }

  static bool has_type(const Schema& value, const std::string& type) {
    if (type == "number") return value.is_number();
    if (type == "integer") return value.is_number_integer();
    return type == value.type_name();
  }

  int compile_values(const Schema& schema, const std::vector<Schema>& values,
                     const std::string& path) {
    for (const char* other : kConstraints) {
      const std::string word = other;
      if (word != "type" && word != "enum" && word != "const" && schema.contains(word)) {
        return fail(path, word + " beside enum or const is not supported");
      }
    }
    const std::vector<std::string> types = types_of(schema, path);
    std::vector<std::string> list;
    for (const Schema& value : values) {
      const bool fits = !schema.contains("type") ||
                        std::any_of(types.begin(), types.end(),
                                    [&](const std::string& type) { return has_type(value, type); });
      if (fits) list.push_back(value.dump());
    }
    if (list.empty()) return fail(path, "enum has no value of the type");
    return add(texts(std::move(list)));
  }

  std::vector<std::string> types_of(const Schema& schema, const std::string& path) {
    constexpr std::array kTypes = {"object", "array",   "string", "integer",
                                   "number", "boolean", "null"};
    if (!schema.contains("type")) return {};
    const Schema& type = schema["type"];
    const Schema list = type.is_array() ? type : Schema::array({type});
    std::vector<std::string> types;
    for (const Schema& item : list) {
      if (!item.is_string() || !is_one_of(item.get<std::string>(), kTypes)) {
        fail(path, "type: expected object, array, string, integer, number, boolean or null");
        return {};
      }
      types.push_back(item.get<std::string>());
    }
    if (types.empty()) fail(path, "type: expected at least one");
    return types;
  }

  int compile_types(const Schema& schema, const std::string& path) {
    std::vector<std::string> types = types_of(schema, path);
    if (types.empty() && !error_) {
      const bool object = schema.contains("properties") || schema.contains("required") ||
                          schema.contains("additionalProperties");
      const bool array =
          schema.contains("items") || schema.contains("minItems") || schema.contains("maxItems");
      const bool text = schema.contains("minLength") || schema.contains("maxLength");
      if (!object && !array && !text) return any_value();
      // Without a type the keywords would hold for some values and leave the others free.
      types.emplace_back(object ? "object" : array ? "array" : "string");
    }
    std::vector<int> alternatives;
    for (const std::string& type : types) alternatives.push_back(compile_type(schema, type, path));
    if (alternatives.size() == 1) return alternatives.front();
    return add(any_of(std::move(alternatives)));
  }

  int compile_type(const Schema& schema, const std::string& type, const std::string& path) {
    if (type == "object") return compile_object(schema, path);
    if (type == "array") return compile_array(schema, path);
    if (type == "integer") return add(of_kind(JsonKind::kInteger));
    if (type == "number") return add(of_kind(JsonKind::kNumber));
    if (type == "boolean") return add(texts({"true", "false"}));
    if (type == "null") return add(texts({"null"}));
    JsonNode node = of_kind(JsonKind::kString);
    read_range(schema, "minLength", "maxLength", path, node);
    return add(std::move(node));
  }

  void read_range(const Schema& schema, const char* low, const char* high, const std::string& path,
                  JsonNode& node) {
    for (const auto& [name, bound] : {std::pair{low, &node.min}, std::pair{high, &node.max}}) {
      if (!schema.contains(name)) continue;
      const Schema& value = schema[name];
      if (!value.is_number_integer() || value < 0 || value > kCountMax) {
        fail(path, std::string(name) + ": expected 0 to " + std::to_string(kCountMax));
        return;
      }
      *bound = value.get<std::int64_t>();
    }
    if (node.min > node.max) fail(path, std::string(low) + " is greater than " + high);
  }

  int compile_array(const Schema& schema, const std::string& path) {
    JsonNode node = of_kind(JsonKind::kArray);
    read_range(schema, "minItems", "maxItems", path, node);
    const bool none = schema.contains("items") && schema["items"] == false;
    if (none) node.max = 0;
    if (none && node.min > 0) return fail(path, "minItems beside items false fits nothing");
    node.item =
        schema.contains("items") && !none ? compile(schema["items"], path + ".items") : any_value();
    return add(std::move(node));
  }

  int compile_object(const Schema& schema, const std::string& path) {
    const Schema properties = schema.value("properties", Schema::object());
    if (!properties.is_object()) return fail(path, "properties must be an object");
    const Schema required = schema.value("required", Schema::array());
    if (!required.is_array()) return fail(path, "required must be an array");
    const Schema others = schema.value("additionalProperties", Schema(true));
    JsonNode node = of_kind(JsonKind::kObject);
    for (const auto& [name, value] : properties.items()) {
      node.properties.push_back({Schema(name).dump(), compile(value, path + "." + name), false});
    }
    for (const Schema& name : required) {
      if (!name.is_string()) return fail(path, "required: expected names");
      const std::string key = name.dump();
      auto found = std::find_if(node.properties.begin(), node.properties.end(),
                                [&](const JsonProperty& property) { return property.key == key; });
      if (found == node.properties.end()) {
        const int value = compile(others, path + ".additionalProperties");
        found = node.properties.insert(found, {key, value, false});
      }
      found->required = true;
    }
    for (std::size_t i = 0; i < node.properties.size(); ++i) {
      if (node.properties[i].required) node.n_required = static_cast<int>(i) + 1;
    }
    if (node.properties.empty() && others != false) {
      return add(map_of(compile(others, path + ".additionalProperties")));
    }
    return add(std::move(node));
  }

  // A choice that leads back to itself before a single byte was written would be expanded for ever.
  void find_endless_choices() {
    enum class Mark : std::uint8_t { kNew, kOpen, kDone };
    std::vector<Mark> marks(grammar_.nodes.size(), Mark::kNew);
    std::vector<std::pair<int, std::size_t>> open;  // node, next alternative
    for (std::size_t start = 0; start < marks.size(); ++start) {
      if (marks[start] == Mark::kNew) open.emplace_back(static_cast<int>(start), 0);
      while (!open.empty()) {
        auto& [node, next] = open.back();
        const auto at = static_cast<std::size_t>(node);
        marks[at] = Mark::kOpen;
        if (next == grammar_.nodes[at].alternatives.size()) {
          marks[at] = Mark::kDone;
          open.pop_back();
          continue;
        }
        const int alternative = grammar_.nodes[at].alternatives[next++];
        const Mark mark = marks[static_cast<std::size_t>(alternative)];
        if (mark == Mark::kOpen) {
          fail("$", "a $ref leads back to itself without a value in between");
          return;
        }
        if (mark == Mark::kNew) open.emplace_back(alternative, 0);
      }
    }
  }

  int depth_min(int node) const { return grammar_.nodes[static_cast<std::size_t>(node)].depth_min; }

  int shallowest(const JsonNode& node) const {
    int depth = 0;
    switch (node.kind) {
      case JsonKind::kText:
      case JsonKind::kString:
      case JsonKind::kInteger:
      case JsonKind::kNumber:
        return 0;
      case JsonKind::kMap:
        return 1;
      case JsonKind::kArray:
        return node.min > 0 ? 1 + depth_min(node.item) : 1;
      case JsonKind::kObject:
        for (const JsonProperty& property : node.properties) {
          if (property.required) depth = std::max(depth, depth_min(property.node));
        }
        return 1 + depth;
      case JsonKind::kAnyOf:
        depth = JsonNode::kEndless;
        for (const int alternative : node.alternatives) {
          depth = std::min(depth, depth_min(alternative));
        }
        return depth;
    }
    return 0;
  }

  // Smallest fixed point. A pass over the nodes settles at least one more level, and no more levels
  // than may be written matter.
  void measure_depths() {
    bool changed = true;
    for (std::size_t pass = 0; changed && pass < grammar_.nodes.size() + 1; ++pass) {
      changed = false;
      for (JsonNode& node : grammar_.nodes) {
        const int depth = std::min(shallowest(node), JsonNode::kEndless);
        changed = changed || depth != node.depth_min;
        node.depth_min = depth;
      }
    }
  }

  const Schema root_;
  JsonGrammar grammar_;
  std::optional<int> any_;
  std::map<std::string, int> references_;
  std::deque<std::pair<std::string, int>> pending_;
  std::optional<std::string> error_;
};

}  // namespace

Result<std::shared_ptr<const JsonGrammar>> compile_json_schema(std::string_view schema) {
  bool too_deep = false;
  const auto keep = [&](int depth, Schema::parse_event_t, Schema&) {
    too_deep = too_deep || depth > kDepthMax;
    return !too_deep;
  };
  const Schema root = Schema::parse(schema, keep, /*allow_exceptions=*/false);
  if (too_deep) {
    return invalid_argument("the schema nests deeper than " + std::to_string(kDepthMax));
  }
  if (root.is_discarded()) return invalid_argument("the schema is not valid JSON in UTF-8");
  auto grammar = Compiler(root).run();
  if (grammar.has_error()) return grammar.error();
  return std::make_shared<const JsonGrammar>(std::move(*grammar));
}

std::shared_ptr<const JsonGrammar> any_json_object() {
  Compiler compiler{Schema()};
  const int root = compiler.any_object();
  return std::make_shared<const JsonGrammar>(compiler.take(root));
}

}  // namespace engramd::engine
