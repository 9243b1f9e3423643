// Features: what both eras answer in the same way from the registry (lists, resources, prompts,
// completion), and how a tool's result looks on the wire. Each takes the revision it answers for
// and leaves out the fields that this revision does not know. Stateless, on the dispatcher's
// thread. Not here: tools/call itself, which takes time and lives in the dispatcher.
#pragma once

#include "mcp/json_rpc.h"
#include "mcp/protocol.h"
#include "mcp/registry.h"

namespace engramd::mcp {

// May a client keep a result (2026-07-28 server/utilities/caching)?
enum class Caching { kNone, kList, kContents };

struct Feature {
  std::string_view method;
  Caching caching;
  Outcome (*answer)(const Registry& registry, const json& params, Revision revision);
};

// Null for a method that is no shared feature.
const Feature* find_feature(std::string_view method);

json server_info(const Registry& registry, Revision revision);
json server_capabilities(const Registry& registry, Revision revision);

// A resource of that URI or a template that it fits.
bool has_resource(const Registry& registry, const std::string& uri);

// The `content`, `structuredContent` and `isError` of a tools/call result.
json tool_result(ToolResult result, Revision revision);

}  // namespace engramd::mcp
