// What engram_lookup and gate_inspect read: a text, a chat, or token ids, as one group of fields
// and one function that makes token ids of them. Pure but for the engine's tokenizer.
#pragma once

#include <vector>

#include "engine/runtime/local_engine.h"
#include "mcp/registry.h"

namespace engramd::server {

std::vector<mcp::Field> text_source_fields();
// Refuses none or several sources, and more than positions_max tokens (naming the option).
Result<std::vector<engine::TokenId>> encode_source(const mcp::json& arguments,
                                                   const engine::LocalEngine& engine,
                                                   std::int64_t positions_max);

// A token's text for one line of output: quoted, control characters escaped.
std::string quoted(const std::string& text);

}  // namespace engramd::server
