#include "mcp/legacy_session.h"

#include <algorithm>

#include "mcp/text.h"

namespace engramd::mcp {
namespace {

// The level only filters log notifications, and there are none to filter: engramd logs to stderr.
Outcome set_log_level(const json& params) {
  const json level = params.value("level", json());
  if (level.is_string() && std::find(kLogLevels.begin(), kLogLevels.end(),
                                     level.get<std::string>()) != kLogLevels.end()) {
    return Outcome::success(json::object());
  }
  return Outcome::failure(kInvalidParams,
                          "level must be debug, info, notice, warning, error, critical, alert or "
                          "emergency");
}

}  // namespace

Outcome LegacySession::answer(const Registry& registry, const std::string& method,
                              const json& params) {
  if (method == kInitialize) return initialize(registry, params);
  if (method == kPing) return Outcome::success(json::object());
  if (method == kLoggingSetLevel) return set_log_level(params);
  if (const Feature* feature = find_feature(method)) {
    return feature->answer(registry, params, revision());
  }
  return Outcome::failure(kMethodNotFound, "unknown method " + quote(method));
}

// A second initialize negotiates again: a client that restarts over a kept pipe has lost nothing.
Outcome LegacySession::initialize(const Registry& registry, const json& params) {
  const auto requested = params.find("protocolVersion");
  if (requested == params.end() || !requested->is_string()) {
    return Outcome::failure(kInvalidParams, "protocolVersion must be a string");
  }
  const auto known = parse_revision(requested->get_ref<const std::string&>());
  negotiated_ = known && *known <= kLegacyNewest ? *known : kLegacyNewest;
  json result = {{"protocolVersion", to_string(*negotiated_)},
                 {"capabilities", server_capabilities(*negotiated_)},
                 {"serverInfo", server_info(registry, *negotiated_)}};
  if (!registry.instructions.empty()) result["instructions"] = registry.instructions;
  return Outcome::success(std::move(result));
}

}  // namespace engramd::mcp
