// LegacySession: the era of `initialize` (2024-11-05 to 2025-11-25). Holds what one connection
// negotiated, its log level and its subscriptions, and answers the requests that exist in this era
// alone.
// Deletable with its tests when the last legacy client is gone. On the dispatcher's thread.
#pragma once

#include "mcp/features.h"
#include "mcp/subscriptions.h"

namespace engramd::mcp {

class LegacySession {
 public:
  // Scripts that skip the handshake are served as if they had asked for the newest legacy revision.
  Revision revision() const { return negotiated_.value_or(kLegacyNewest); }
  bool accepts_batches() const { return negotiated_ == Revision::k2025_03_26; }
  // Up to 2025-06-18 an error without a readable id carries `"id": null`, later none.
  bool writes_null_ids() const { return revision() < Revision::k2025_11_25; }

  const json& client_capabilities() const { return client_capabilities_; }
  const std::string& log_level() const { return log_level_; }
  // Nobody hears of changes before the handshake.
  bool wants(const Change& change) const { return negotiated_ && subscription_.wants(change); }

  // Every request of this era but tools/call.
  Outcome answer(const Registry& registry, const std::string& method, const json& params);

 private:
  Outcome initialize(const Registry& registry, const json& params);
  Outcome set_log_level(const json& params);
  Outcome subscribe(const Registry& registry, const json& params, bool subscribe);

  std::optional<Revision> negotiated_;
  json client_capabilities_ = json::object();
  std::string log_level_ = "info";  // until the client says otherwise
  Subscription subscription_ = Subscription::of_session();
};

}  // namespace engramd::mcp
