// Methods of strings, dicts and loops, and the global functions (range, namespace, dict,
// raise_exception). Private to this folder. Letters other than ASCII keep their case.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/runtime/template/value.h"

namespace engramd::engine::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Arguments in the order of their parameters; null where none was given.
using Bound = std::array<const Value*, 3>;
using Parameters = std::array<std::string_view, 3>;  // empty: none
// False, and an error, for an argument too many or one without a parameter.
bool bind_arguments(Execution& run, std::string_view function, const Parameters& parameters,
                    const Arguments& arguments, Bound& bound);

// The method's name with static lifetime.
std::optional<std::string_view> find_method(const Value& self, std::string_view name);
std::optional<std::string_view> find_global(std::string_view name);
std::optional<Value> loop_attribute(const LoopData& loop, std::string_view name);
// A method if the function has a self, else a global function; not a macro.
Value call_function(Execution& run, const Function& function, const Arguments& arguments);

// Shared with the filters of the same names.
std::string lower_ascii(std::string_view text);
std::string upper_ascii(std::string_view text);
std::string capitalize_ascii(std::string_view text);
enum class Side { kLeft, kRight, kBoth };
// White space, or the characters given.
std::string_view strip(Execution& run, std::string_view text, Side side, const Value* characters);
Value replace(Execution& run, std::string_view text, const Bound& old_new_count);
Value items_of(Execution& run, const ObjectData& object);

}  // namespace engramd::engine::jinja
