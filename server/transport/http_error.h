// The error body that every client of our APIs reads: {"error":{"message","type","param","code"}},
// as OpenAI's and Anthropic's SDKs expect it. Pure.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "server/transport/http_exchange.h"

namespace engramd::server {

// An empty code or param becomes null.
nlohmann::json error_json(std::string_view type, std::string_view message, std::string_view code,
                          std::string_view param);

// `type` follows from the status. The message may hold anything: bytes that are not UTF-8 are
// replaced.
HttpResponse error_response(int status, std::string_view message, std::string_view code = {},
                            std::string_view param = {});

// "invalid_request_error", "authentication_error", ...
std::string_view error_type(int status);

}  // namespace engramd::server
