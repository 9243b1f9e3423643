// The MCP tool table_update: change table rows while the model serves, in one transaction.
#pragma once

#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

mcp::Tool make_table_update_tool(const Services& services);

}  // namespace engramd::server
