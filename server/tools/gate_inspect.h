// The `gate_inspect` tool: how strongly each Engram gate opened over a text, and what it changed.
#pragma once

#include "engine/inspect/gate_report.h"
#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

mcp::Tool make_gate_inspect_tool(const Services& services);

// Pieces, for the gates command and the tests.
std::vector<mcp::Field> gate_output_fields();
// n_top: N-grams in the ranking; matrix_positions_max: tokens in the structured matrix.
mcp::ToolResult to_tool_result(const engine::GateReport& report, std::int64_t n_top,
                               std::int64_t matrix_positions_max);
// Every N-gram of the result's ranking, a line each; not bounded, as the tool's text is.
std::string ranking_text(const mcp::json& structured);

}  // namespace engramd::server
