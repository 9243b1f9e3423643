// Everything that engramd offers over MCP: tools, resources and prompts, in a fixed order.
#pragma once

#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

mcp::Registry make_registry(const Services& services);

}  // namespace engramd::server
