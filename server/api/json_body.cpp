#include "server/api/json_body.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace engramd::server {
namespace {

using nlohmann::json;

ApiError not_json(std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.code = "invalid_json";
  return error;
}

}  // namespace

ApiResult<json> parse_json_body(std::string_view body, std::int64_t depth_max) {
  bool too_deep = false;
  // Depth 0 is the value itself. What is too deep is dropped while it is read: only a shallow tree
  // is ever built, because copying and writing a deep one recurse.
  const auto keep = [&](int depth, json::parse_event_t event, json&) {
    const bool opens =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens && depth >= depth_max) too_deep = true;
    return !too_deep;
  };
  json value = json::parse(body, keep, /*allow_exceptions=*/false);
  if (too_deep) {
    return not_json("the body nests deeper than the limit of " + std::to_string(depth_max) +
                    " (limits.json_depth_max)");
  }
  if (value.is_discarded()) return not_json("the body is not valid JSON in UTF-8");
  if (!value.is_object()) {
    return not_json(std::string("the body must be a JSON object, got ") + value.type_name());
  }
  return ApiResult<json>(boost::system::in_place_value, std::move(value));
}

std::string value_in_order(std::string_view body, const std::vector<std::string>& path) {
  using nlohmann::ordered_json;
  // Only what lies on the path is built: the rest of the body may be large.
  const auto keep = [&](int depth, ordered_json::parse_event_t event, ordered_json& parsed) {
    const auto level = static_cast<std::size_t>(depth) - 1;
    return event != ordered_json::parse_event_t::key || level >= path.size() ||
           parsed.get_ref<const std::string&>() == path[level];
  };
  const ordered_json value = ordered_json::parse(body, keep, /*allow_exceptions=*/false);
  const ordered_json* at = &value;
  for (const std::string& member : path) {
    const auto found = at->find(member);
    if (found == at->end()) return "null";
    at = &*found;
  }
  return at->dump();
}

}  // namespace engramd::server
