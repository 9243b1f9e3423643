// POST /v1/chat/completions, as one answer or as a stream of chunks. On the io thread.
#pragma once

#include "server/api/api_context.h"
#include "server/transport/http_exchange.h"

namespace engramd::server {

HttpHandler make_openai_chat(const ApiContext& context);

}  // namespace engramd::server
