// The MCP tool table_fold: fold the edits in effect into a new row file and serve that, without a
// pause for chats.
#pragma once

#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

mcp::Tool make_table_fold_tool(const Services& services);

}  // namespace engramd::server
