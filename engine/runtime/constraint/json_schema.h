// JSON schemas to grammars. Schemas are untrusted: bounded in size, and every keyword that could
// not be kept is refused by name. Pure, any thread.
//
// Of draft 2020-12: type (one or several), properties, required, additionalProperties, items,
// minItems, maxItems, minLength, maxLength, enum, const, anyOf, allOf of one, $ref into the schema
// itself. Properties are written in the order of the schema; those that it does not list are not
// written when it lists some.
#pragma once

#include <memory>
#include <string_view>

#include "config/result.h"
#include "engine/runtime/constraint/json_grammar.h"

namespace engramd::engine {

Result<std::shared_ptr<const JsonGrammar>> compile_json_schema(std::string_view schema);

// Any object with any values.
std::shared_ptr<const JsonGrammar> any_json_object();

}  // namespace engramd::engine
