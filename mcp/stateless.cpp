#include "mcp/stateless.h"

#include <algorithm>
#include <utility>

#include "mcp/text.h"

namespace engramd::mcp::stateless {
namespace {

// Lists are the same for everyone and hardly ever change; five minutes bound how long a client that
// does not listen can miss a change. Resource contents (metrics) are stale at once.
constexpr int kListTtlMs = 5 * 60 * 1000;

void set_caching(json& result, Caching caching) {
  if (caching == Caching::kNone) return;
  result["ttlMs"] = caching == Caching::kList ? kListTtlMs : 0;
  result["cacheScope"] = caching == Caching::kList ? "public" : "private";
}

json discover(const Registry& registry) {
  json result = {{"supportedVersions", {to_string(kModern)}},
                 {"capabilities", server_capabilities(registry, kModern)}};
  if (!registry.instructions.empty()) result["instructions"] = registry.instructions;
  set_caching(result, Caching::kList);
  return result;
}

}  // namespace

bool is_modern(const std::string& method, const json& params) {
  if (method == kServerDiscover || method == kSubscriptionsListen) return true;
  const json* meta = params.is_object() && params.contains(kMeta) ? &params[kMeta] : nullptr;
  return meta && meta->is_object() &&
         (meta->contains(kMetaProtocolVersion) || meta->contains(kMetaClientCapabilities));
}

std::optional<RpcError> check_meta(const json& params) {
  const json meta = params.value(kMeta, json());
  if (!meta.is_object() || !meta.value(kMetaProtocolVersion, json()).is_string()) {
    return RpcError{kInvalidParams,
                    std::string("_meta must carry the string ") + kMetaProtocolVersion, nullptr};
  }
  if (!meta.value(kMetaClientCapabilities, json()).is_object()) {
    return RpcError{kInvalidParams,
                    std::string("_meta must carry the object ") + kMetaClientCapabilities, nullptr};
  }
  const json& requested = meta[kMetaProtocolVersion];
  if (requested != to_string(kModern)) {
    return RpcError{kUnsupportedProtocolVersion,
                    "unsupported protocol version",
                    {{"supported", {to_string(kModern)}}, {"requested", requested}}};
  }
  if (!meta.contains(kMetaLogLevel)) return std::nullopt;
  const json& level = meta[kMetaLogLevel];
  if (std::find(kLogLevels.begin(), kLogLevels.end(), level) == kLogLevels.end()) {
    return RpcError{kInvalidParams, std::string(kMetaLogLevel) + " is no log level", nullptr};
  }
  return std::nullopt;
}

Outcome answer(const Registry& registry, const std::string& method, const json& params) {
  Outcome outcome;
  if (method == kServerDiscover) {
    outcome = Outcome::success(discover(registry));
  } else if (const Feature* feature = find_feature(method)) {
    outcome = feature->answer(registry, params, kModern);
    if (!outcome.error) set_caching(outcome.result, feature->caching);
  } else {
    return Outcome::failure(kMethodNotFound, "unknown method " + quote(method));
  }
  if (!outcome.error) outcome.result = complete(std::move(outcome.result), registry);
  return outcome;
}

json complete(json result, const Registry& registry) {
  if (!result.contains("resultType")) result["resultType"] = "complete";
  result[kMeta][kMetaServerInfo] = server_info(registry, kModern);
  return result;
}

}  // namespace engramd::mcp::stateless
