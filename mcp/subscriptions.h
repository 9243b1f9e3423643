// Subscriptions: which changes a client wants to hear of. Legacy sessions hear of every list and of
// the resources that they subscribed to; each modern subscriptions/listen names its own. Plain
// values, on the dispatcher's thread. Not here: sending.
#pragma once

#include <set>
#include <string>

#include "mcp/dispatcher.h"

namespace engramd::mcp {

class Subscription {
 public:
  static constexpr std::size_t kResourcesMax = 256;

  // 2026-07-28 basic/patterns/subscriptions: the `notifications` of subscriptions/listen; what the
  // registry cannot announce is left out.
  static Result<Subscription> of_listen(const json& notifications, const Registry& registry);
  // A legacy session: every list that can change.
  static Subscription of_session();

  // In the words of subscriptions/listen: what is honoured.
  json to_json() const;

  Result<void> add_resource(const std::string& uri, const Registry& registry);
  void remove_resource(const std::string& uri) { resources_.erase(uri); }

  bool wants(const Change& change) const;

 private:
  bool tools_ = false;
  bool prompts_ = false;
  bool resource_list_ = false;
  std::set<std::string> resources_;
};

// The notification that tells of a change.
json change_notification(const Change& change);

}  // namespace engramd::mcp
