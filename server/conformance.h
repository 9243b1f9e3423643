// Conformance: the tools, resources and prompts that the public MCP conformance suite expects of a
// server under test (github.com/modelcontextprotocol/conformance, src/scenarios/server). Only
// behind `engramd serve --conformance`; users never see them. On the io thread.
#pragma once

#include <functional>

#include "mcp/dispatcher.h"
#include "mcp/registry.h"
#include "server/later.h"

namespace engramd::server {

void add_conformance_fixtures(mcp::Registry& registry, Later later,
                              std::function<void(mcp::Change)> announce);

}  // namespace engramd::server
