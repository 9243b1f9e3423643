// Engram counters as JSON, with the fields that describe them: the same shape in `chat` and
// `metrics`. Pure.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/runtime/chat_backend.h"
#include "mcp/schema.h"

namespace engramd::server {

std::vector<mcp::Field> engram_counts_fields();
nlohmann::json to_json(const engine::EngramCounts& counts);

}  // namespace engramd::server
