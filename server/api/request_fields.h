// RequestFields: typed reading of one JSON object of a request. null counts as absent, unknown
// fields are never looked at; the first field that is wrong is remembered, later reads then give
// nothing that matters. For one parse function, on its stack. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/api/api_error.h"

namespace engramd::server {

// Of one request, in every API.
inline constexpr std::size_t kMessagesMax = 4096;

class RequestFields {
 public:
  // `error` is shared by all objects of one request.
  RequestFields(const nlohmann::json& request, std::optional<ApiError>& error);
  // An object inside: `name` is its path from here ("messages[0]").
  RequestFields inside(const nlohmann::json& object, const std::string& name) const;

  // Present and not null.
  const nlohmann::json* find(const char* name) const;
  std::string path_of(const std::string& name) const;
  void refuse(const std::string& name, const std::string& message);
  void refuse_type(const std::string& name, const char* expected, const nlohmann::json& got);

  std::optional<std::string> text(const char* name);
  std::string required_text(const char* name);
  std::optional<bool> boolean(const char* name);
  std::optional<double> number(const char* name, double minimum, double maximum);
  std::optional<std::int64_t> integer(const char* name, std::int64_t minimum, std::int64_t maximum);
  const nlohmann::json* array(const char* name);
  const nlohmann::json* object(const char* name);

  bool failed() const { return error_->has_value(); }

 private:
  RequestFields(const nlohmann::json& object, std::string path, std::optional<ApiError>& error);

  const nlohmann::json* object_;
  std::string path_;
  std::optional<ApiError>* error_;
};

}  // namespace engramd::server
