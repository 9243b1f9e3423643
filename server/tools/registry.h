// Everything that engramd offers over MCP: tools, resources and prompts, in a fixed order.
#pragma once

#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

// Read anew once the model is there, or a table was edited.
inline constexpr char kModelResource[] = "engramd://model";
inline constexpr char kTableResource[] = "engramd://table";

mcp::Registry make_registry(const Services& services);

}  // namespace engramd::server
