// The `engram_lookup` tool: which N-grams a text looks up and what lies in their rows.
#pragma once

#include "engine/inspect/lookup_report.h"
#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

mcp::Tool make_engram_lookup_tool(const Services& services);

// Pieces, for the lookup command (layout files without a model) and the tests.
std::vector<mcp::Field> lookup_output_fields();
// with_rows: row addresses and facts too, not just the N-grams.
mcp::ToolResult to_tool_result(const engine::LookupReport& report, bool with_rows);

}  // namespace engramd::server
