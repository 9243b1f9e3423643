// The `metrics` tool: what the daemon did and what it holds, since start and over the last minute.
#pragma once

#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

mcp::Tool make_metrics_tool(const Services& services);

// The tool's structured output, also the engramd://metrics resource.
mcp::json metrics_json(const Services& services);
std::vector<mcp::Field> metrics_output_fields();

}  // namespace engramd::server
