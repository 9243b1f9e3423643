#include "mcp/subscriptions.h"

#include <algorithm>

#include "mcp/features.h"
#include "mcp/text.h"

namespace engramd::mcp {
namespace {

bool is_true(const json& object, const char* key) {
  const auto member = object.find(key);
  return member != object.end() && member->is_boolean() && member->get<bool>();
}

}  // namespace

Result<Subscription> Subscription::of_listen(const json& notifications, const Registry& registry) {
  Subscription wanted;
  wanted.tools_ = registry.changing.tools && is_true(notifications, "toolsListChanged");
  wanted.prompts_ = registry.changing.prompts && is_true(notifications, "promptsListChanged");
  wanted.resource_list_ =
      registry.changing.resources && is_true(notifications, "resourcesListChanged");
  const json uris = notifications.value("resourceSubscriptions", json::array());
  if (!uris.is_array()) return invalid_argument("resourceSubscriptions must be an array of URIs");
  for (const json& uri : uris) {
    if (!uri.is_string()) return invalid_argument("resourceSubscriptions must be an array of URIs");
    // An unknown one is left out of what is honoured.
    const auto added = wanted.add_resource(uri.get<std::string>(), registry);
    if (added.has_error() && added.error().kind != ErrorKind::kNotFound) return added.error();
  }
  return wanted;
}

Subscription Subscription::of_session() {
  Subscription all;
  all.tools_ = all.prompts_ = all.resource_list_ = true;
  return all;
}

json Subscription::to_json() const {
  json honoured = json::object();
  if (tools_) honoured["toolsListChanged"] = true;
  if (prompts_) honoured["promptsListChanged"] = true;
  if (resource_list_) honoured["resourcesListChanged"] = true;
  if (!resources_.empty()) honoured["resourceSubscriptions"] = resources_;
  return honoured;
}

Result<void> Subscription::add_resource(const std::string& uri, const Registry& registry) {
  if (!has_resource(registry, uri)) {
    return not_found("resource not found: " + quote(uri) + "; see resources/list");
  }
  if (resources_.size() >= kResourcesMax && resources_.count(uri) == 0) {
    return limit_exceeded("a client subscribes to at most " + std::to_string(kResourcesMax) +
                          " resources; unsubscribe from one first");
  }
  resources_.insert(uri);
  return {};
}

bool Subscription::wants(const Change& change) const {
  switch (change.what) {
    case Change::What::kTools:
      return tools_;
    case Change::What::kPrompts:
      return prompts_;
    case Change::What::kResources:
      return resource_list_;
    case Change::What::kResource:
      return resources_.count(change.uri) > 0;
  }
  return false;
}

json change_notification(const Change& change) {
  switch (change.what) {
    case Change::What::kTools:
      return make_notification(kToolsListChanged, json::object());
    case Change::What::kPrompts:
      return make_notification(kPromptsListChanged, json::object());
    case Change::What::kResources:
      return make_notification(kResourcesListChanged, json::object());
    case Change::What::kResource:
      break;
  }
  return make_notification(kResourcesUpdated, {{"uri", change.uri}});
}

}  // namespace engramd::mcp
