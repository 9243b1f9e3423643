// Runs one MCP tool in this process, for the commands that are tools from a shell: the same fields,
// the same handler, the same result. Ctrl-C cancels it.
#pragma once

#include <string>

#include "mcp/registry.h"
#include "server/daemon.h"

namespace engramd::server {

// A failed tool (is_error) is an Error here; an unknown `tool` is a programmer error.
Result<mcp::ToolResult> run_tool(Daemon& daemon, const std::string& tool,
                                 const mcp::json& arguments);

// For a signal that comes while the model loads: the program ends here, as interrupted. Loading
// only reads and may take long, so nothing waits for it.
[[noreturn]] void end_while_loading();

// What --json prints.
std::string json_text(const mcp::json& value);

}  // namespace engramd::server
