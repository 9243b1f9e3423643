// Template source to syntax tree. Private to this folder and chat_template.cpp; stateless.
#pragma once

#include <string_view>

#include "config/result.h"
#include "engine/runtime/template/syntax.h"

namespace engramd::engine::jinja {

// Unknown tags, filters and tests are errors here already, as in Jinja. Nesting of blocks and
// expressions beyond depth_max is an error.
Result<Body> parse(std::string_view source, int depth_max);

}  // namespace engramd::engine::jinja
