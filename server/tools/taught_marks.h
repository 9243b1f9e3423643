// Which taught facts stand behind edited rows: what engram_lookup and gate_inspect add to their
// results.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "engine/runtime/local_engine.h"
#include "mcp/registry.h"

namespace engramd::server {

// An output's field: the facts of the transactions that its rows name in edited_by.
mcp::Field taught_marks_field();
// Adds the field, and a line per fact to the text. Transactions without a fact are left out.
void add_taught_marks(const std::set<std::int64_t>& transactions, engine::LocalEngine& engine,
                      mcp::ToolResult& result);

}  // namespace engramd::server
