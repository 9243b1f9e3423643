// ApiError: a refusal or failure of an HTTP API, before a family of clients gives it its shape.
// Plain value. Not here: the shapes (api_call).
#pragma once

#include <optional>
#include <string>

#include "config/result.h"

namespace engramd::server {

struct ApiError {
  int status = 400;
  std::string type = "invalid_request_error";  // OpenAI's word; Anthropic's follows from the status
  std::string message;
  std::string param;                       // the field that is wrong: "messages[0].role"
  std::string code;                        // for programs: "model_not_found"
  std::optional<int> retry_after_ms = {};  // none: the same request fails again
};

[[noreturn]] inline void throw_exception_from_error(const ApiError& error,
                                                    const boost::source_location& location) {
  assertion_failed(error.message.c_str(), location.file_name(), static_cast<int>(location.line()));
}

template <class T>
using ApiResult = boost::system::result<T, ApiError>;

ApiError bad_field(std::string param, std::string message);  // 400
ApiError to_api_error(const Error& error);

}  // namespace engramd::server
