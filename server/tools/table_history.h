// The MCP tools table_history (what was edited, snapshots, differences) and table_rollback (undo,
// return to a snapshot, name one).
#pragma once

#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

mcp::Tool make_table_history_tool(const Services& services);
mcp::Tool make_table_rollback_tool(const Services& services);

}  // namespace engramd::server
