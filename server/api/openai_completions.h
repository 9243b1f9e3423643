// POST /v1/completions: text goes on, without a chat template. On the io thread.
#pragma once

#include "server/api/api_context.h"
#include "server/transport/http_exchange.h"

namespace engramd::server {

HttpHandler make_openai_completions(const ApiContext& context);

}  // namespace engramd::server
