#include "mcp/legacy_session.h"

#include <algorithm>

#include "mcp/text.h"

namespace engramd::mcp {
Outcome LegacySession::answer(const Registry& registry, const std::string& method,
                              const json& params) {
  if (method == kInitialize) return initialize(registry, params);
  if (method == kPing) return Outcome::success(json::object());
  if (method == kLoggingSetLevel) return set_log_level(params);
  if (method == kResourcesSubscribe) return subscribe(registry, params, true);
  if (method == kResourcesUnsubscribe) return subscribe(registry, params, false);
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
  const json capabilities = params.value("capabilities", json());
  client_capabilities_ = capabilities.is_object() ? capabilities : json::object();
  subscription_ = Subscription::of_session();
  json result = {{"protocolVersion", to_string(*negotiated_)},
                 {"capabilities", server_capabilities(registry, *negotiated_)},
                 {"serverInfo", server_info(registry, *negotiated_)}};
  if (!registry.instructions.empty()) result["instructions"] = registry.instructions;
  return Outcome::success(std::move(result));
}

Outcome LegacySession::set_log_level(const json& params) {
  const json level = params.value("level", json());
  if (std::find(kLogLevels.begin(), kLogLevels.end(), level) == kLogLevels.end()) {
    return Outcome::failure(kInvalidParams,
                            "level must be debug, info, notice, warning, error, critical, alert or "
                            "emergency");
  }
  log_level_ = level.get<std::string>();
  return Outcome::success(json::object());
}

Outcome LegacySession::subscribe(const Registry& registry, const json& params, bool subscribe) {
  const auto uri = params.find("uri");
  if (uri == params.end() || !uri->is_string()) {
    return Outcome::failure(kInvalidParams, "uri must be a string");
  }
  if (!subscribe) {
    subscription_.remove_resource(uri->get<std::string>());
    return Outcome::success(json::object());
  }
  const auto added = subscription_.add_resource(uri->get<std::string>(), registry);
  if (added.has_value()) return Outcome::success(json::object());
  const bool unknown = added.error().kind == ErrorKind::kNotFound;
  return Outcome::failure(unknown ? kResourceNotFound : kInvalidParams, added.error().message,
                          {{"uri", *uri}});
}

}  // namespace engramd::mcp
