// JsonValue: the strict reader of the JSON texts in a model folder (safetensors headers, shard
// indexes, config files). Untrusted input: depth and value count are limited, a name that stands
// twice in one object is refused after escapes are decoded, integers keep all 64 bits and never
// become doubles. Plain data; any thread.
// Not here: what the keys mean. Only the parsers of this folder include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/result.h"

namespace engramd::engine {

struct JsonMember;

struct JsonValue {
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;  // in the order of the text; names are unique
  // uint64_t: written without sign; int64_t: with one; double: with a fraction or exponent, or
  // beyond 64 bits. Starts as null; an initializer here would need JsonMember complete (clang).
  std::variant<std::nullptr_t, bool, std::uint64_t, std::int64_t, double, std::string, Array,
               Object>
      data;

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(data); }
  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  const JsonValue* find(std::string_view name) const;  // nullptr: not an object, or no such name
  std::string describe() const;                        // for the "got ..." of a message
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

struct JsonLimits {
  std::size_t depth_max = 16;
  std::size_t values_max = 1'000'000;
};

// `subject` opens the error messages: "header is not valid JSON at byte 12".
Result<JsonValue> parse_json(std::string_view text, std::string_view subject,
                             const JsonLimits& limits);

// A name from the file, fit for a one-line message: no control bytes, not long.
std::string printable(std::string_view name);

}  // namespace engramd::engine
