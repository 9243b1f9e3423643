#include "server/api/api_call.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>

#include <nlohmann/json.hpp>

#include "mcp/json_rpc.h"
#include "server/transport/http_error.h"

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr int kRetryAfterSecondsMax = 59;  // Claude Code ends a run that is told 61
constexpr int kOverloaded = 529;           // Anthropic's own status

const char* anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case kOverloaded:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

int status_for(ApiFamily family, const ApiError& error) {
  return family == ApiFamily::kAnthropic && error.status == 429 ? kOverloaded : error.status;
}

}  // namespace

std::string make_id(const std::string& prefix) {
  std::random_device random;
  std::string id = prefix;
  for (int i = 0; i < 4; ++i) {
    char hex[9];
    std::snprintf(hex, sizeof hex, "%08x", random());
    id += hex;
  }
  return id;
}

ApiCall::ApiCall(std::shared_ptr<HttpExchange> exchange, ApiFamily family)
    : exchange_(std::move(exchange)), family_(family) {}

HttpHeaders ApiCall::headers() const {
  if (family_ == ApiFamily::kOpenAi) return {};
  return {{"request-id", request().id}};
}

void ApiCall::respond(int status, const json& body) const {
  exchange_->respond({.status = status,
                      .content_type = "application/json",
                      .body = mcp::serialise(body),
                      .headers = headers()});
}

void ApiCall::fail(const ApiError& error) const {
  HttpHeaders head = headers();
  if (error.retry_after_ms) {
    const int seconds = std::clamp((*error.retry_after_ms + 999) / 1000, 1, kRetryAfterSecondsMax);
    head.emplace_back("Retry-After", std::to_string(seconds));
    head.emplace_back("retry-after-ms", std::to_string(*error.retry_after_ms));
  } else {
    head.emplace_back("x-should-retry", "false");  // the official clients obey
  }
  exchange_->respond({.status = status_for(family_, error),
                      .content_type = "application/json",
                      .body = mcp::serialise(error_json(error)),
                      .headers = std::move(head)});
}

json ApiCall::error_json(const ApiError& error) const {
  if (family_ == ApiFamily::kAnthropic) {
    return {{"type", "error"},
            {"error",
             {{"type", anthropic_type(status_for(family_, error))}, {"message", error.message}}},
            {"request_id", request().id}};
  }
  return server::error_json(error.type, error.message, error.code, error.param);
}

ApiFamily family_of(const HttpRequest& request) {
  return request.path.find("/messages") != std::string::npos ? ApiFamily::kAnthropic
                                                             : ApiFamily::kOpenAi;
}

}  // namespace engramd::server
