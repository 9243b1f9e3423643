// The `doctor` tool: the checks of `engramd doctor` on what serves, and what an error message
// means.
#pragma once

#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

mcp::Tool make_doctor_tool(const Services& services);

}  // namespace engramd::server
