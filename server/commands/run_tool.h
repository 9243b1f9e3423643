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

// What --json prints.
std::string json_text(const mcp::json& value);

}  // namespace engramd::server
