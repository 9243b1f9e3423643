// The tools table_teach, table_taught and table_forget: facts in words, into the tables of the
// model that serves.
#pragma once

#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

mcp::Tool make_table_teach_tool(const Services& services);
mcp::Tool make_table_taught_tool(const Services& services);
mcp::Tool make_table_forget_tool(const Services& services);

}  // namespace engramd::server
