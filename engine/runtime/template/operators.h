// Operators on template values with Python's meaning: arithmetic, comparison, membership,
// attributes, subscripts and slices. Private to this folder. Errors go to the execution.
#pragma once

#include <string_view>

#include "engine/runtime/template/syntax.h"
#include "engine/runtime/template/value.h"

namespace engramd::engine::jinja {

// Integers are 64-bit; what Python would give as a longer one is an error. A float result is a
// float. Strings and lists can be added and repeated.
Value arithmetic(Execution& run, Operator operation, const Value& a, const Value& b);
Value negate(Execution& run, const Value& value);
bool compare(Execution& run, Operator comparison, const Value& a, const Value& b);
bool contains(Execution& run, const Value& container, const Value& item);

// An undefined value if it is missing; an error if the object is undefined itself.
Value attribute(Execution& run, const Value& object, std::string_view name);
Value subscript(Execution& run, const Value& object, const Value& key);
// Python's object[start:stop:step]; None stands for an absent bound.
Value slice(Execution& run, const Value& object, const Value& start, const Value& stop,
            const Value& step);

}  // namespace engramd::engine::jinja
