// The MCP tool table_get: what the rows that an N-gram reads hold now, edits included.
#pragma once

#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

mcp::Tool make_table_get_tool(const Services& services);

}  // namespace engramd::server
