// JSON that a stranger sent: bounded, and with members that may be missing, null or of another
// type. Pure.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "mcp/json_rpc.h"

namespace engramd::server {

// As deep as a request may be; writing and copying a deeper tree would recurse too far.
inline constexpr int kRemoteDepthMax = 64;

// Discarded: not JSON, or too deep.
inline nlohmann::json parse_remote_json(std::string_view text) {
  return mcp::parse_bounded(text, kRemoteDepthMax);
}

// Null: `object` is none, or the member is missing or null. Json: nlohmann's, ordered or not.
template <class Json>
const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// Empty: no text.
template <class Json>
std::string text_of(const Json* value) {
  return value != nullptr && value->is_string() ? value->template get<std::string>()
                                                : std::string();
}

}  // namespace engramd::server
