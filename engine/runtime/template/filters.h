// Filters (value | name) and tests (value is name). Private to this folder.
#pragma once

#include <string_view>

#include "engine/runtime/template/methods.h"
#include "engine/runtime/template/value.h"

namespace engramd::engine::jinja {

bool is_filter(std::string_view name);
bool is_test(std::string_view name);

Value apply_filter(Execution& run, std::string_view name, const Value& input,
                   const Arguments& arguments);
bool apply_test(Execution& run, std::string_view name, const Value& input,
                const Arguments& arguments);

}  // namespace engramd::engine::jinja
