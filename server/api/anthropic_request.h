// An Anthropic messages request, parsed and checked; also what count_tokens gets. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/options.h"
#include "engine/runtime/chat_backend.h"
#include "server/api/api_error.h"

namespace engramd::server {

struct AnthropicRequest {
  std::string model;
  bool stream = false;
  std::optional<ApiError> beyond_local;  // why the local engine cannot serve it
  engine::ChatRequest chat;
};

enum class AnthropicCall { kMessages, kCountTokens };  // max_tokens is required of the first

ApiResult<AnthropicRequest> parse_anthropic(std::string_view body, const config::Options& options,
                                            AnthropicCall call);

}  // namespace engramd::server
