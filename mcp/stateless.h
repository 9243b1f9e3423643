// Stateless: the era of per-request _meta (2026-07-28). Decides which requests belong to it, checks
// their _meta, answers the requests that exist in this era alone and dresses every result. Nothing
// is remembered between requests. On the dispatcher's thread.
#pragma once

#include "mcp/features.h"

namespace engramd::mcp::stateless {

// The presence of one of the required keys makes a request modern, whatever its value or what the
// connection did before; so do the methods that only this era has.
bool is_modern(const std::string& method, const json& params);

// The required keys, then the version, then the optional keys; nothing when all is well.
std::optional<RpcError> check_meta(const json& params);

// Every request of this era but tools/call and subscriptions/listen.
Outcome answer(const Registry& registry, const std::string& method, const json& params);

// Adds what every modern result carries: resultType (complete, unless it says otherwise) and
// serverInfo.
json complete(json result, const Registry& registry);

}  // namespace engramd::mcp::stateless
