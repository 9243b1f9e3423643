// What MCP clients can read: the open model, its table, the metrics; and by template a layer of the
// table, a snapshot of its edits, a model.
#pragma once

#include <vector>

#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

// Announced as updated once the model is there; the table's also when it was edited.
inline constexpr char kModelResource[] = "engramd://model";
inline constexpr char kTableResource[] = "engramd://table";

std::vector<mcp::Resource> make_resources(const Services& services);
std::vector<mcp::ResourceTemplate> make_resource_templates(const Services& services);

}  // namespace engramd::server
