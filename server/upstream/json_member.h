// Reading members of JSON that a stranger sent, where each may be missing, null or of another type.
// Pure.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace engramd::server {

// Null: `object` is none, or the member is missing or null.
inline const nlohmann::json* member(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// Empty: no text.
inline std::string text_of(const nlohmann::json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

}  // namespace engramd::server
