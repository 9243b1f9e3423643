// A chat completions request, parsed and checked: JSON ends here. Pure.
#pragma once

#include <string_view>

#include "config/options.h"
#include "server/api/generation_request.h"

namespace engramd::server {

ApiResult<GenerationRequest> parse_openai_chat(std::string_view body,
                                               const config::Options& options);

}  // namespace engramd::server
