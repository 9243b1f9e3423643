// JsonGrammar: which JSON texts an answer may be, as a graph of nodes. Plain data, immutable once
// made; any thread. Not here: JSON schemas (json_schema), which byte may come next
// (json_automaton).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace engramd::engine {

enum class JsonKind {
  kText,     // one of a list of texts: enum, const, true, false, null
  kString,   // any string
  kInteger,  // at most kIntegerDigitsMax digits
  kNumber,   // and as many behind a point; no exponent
  kObject,   // the listed properties, in their order
  kMap,      // any keys, all values alike
  kArray,    // all items alike
  kAnyOf,
};

struct JsonProperty {
  std::string key;  // as JSON writes it: "\"name\""
  int node = 0;     // of its value
  bool required = false;
};

struct JsonNode {
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int32_t>::max();
  static constexpr int kEndless = 1 << 20;  // a value that would have to nest for ever

  JsonKind kind = JsonKind::kText;
  std::vector<std::string> texts;          // kText: sorted, none twice
  std::int64_t min = 0, max = kUnlimited;  // characters of kString, items of kArray
  std::vector<JsonProperty> properties;    // kObject
  int item = 0;                            // node of the values of kMap and kArray
  std::vector<int> alternatives;           // kAnyOf
  int n_required = 0;                      // kObject: behind its last required property
  int depth_min = kEndless;                // levels of nesting that its shallowest value takes
};

// What a generated text keeps to, beyond its schema, so that every reader takes it.
constexpr int kJsonDepthMax = 32;
constexpr int kIntegerDigitsMax = 15;  // exact as a double

struct JsonGrammar {
  std::vector<JsonNode> nodes;
  int root = 0;
};

}  // namespace engramd::engine
