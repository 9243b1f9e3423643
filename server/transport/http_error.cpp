#include "server/transport/http_error.h"

#include <nlohmann/json.hpp>

#include "mcp/json_rpc.h"

namespace engramd::server {
namespace {

nlohmann::json text_or_null(std::string_view text) {
  if (text.empty()) return nullptr;
  return std::string(text);
}

}  // namespace

// Anthropic's names, which are also read by OpenAI's SDKs (those look at the status alone).
std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

nlohmann::json error_json(std::string_view type, std::string_view message, std::string_view code,
                          std::string_view param) {
  return {{"error",
           {{"message", std::string(message)},
            {"type", std::string(type)},
            {"param", text_or_null(param)},
            {"code", text_or_null(code)}}}};
}

HttpResponse error_response(int status, std::string_view message, std::string_view code,
                            std::string_view param) {
  return {.status = status,
          .content_type = "application/json",
          .body = mcp::serialise(error_json(error_type(status), message, code, param))};
}

}  // namespace engramd::server
