// POST /v1/messages and /v1/messages/count_tokens, as Anthropic's clients expect them. On the io
// thread.
#pragma once

#include "server/api/api_context.h"
#include "server/transport/http_exchange.h"

namespace engramd::server {

HttpHandler make_anthropic_messages(const ApiContext& context);
HttpHandler make_anthropic_count_tokens(const ApiContext& context);

}  // namespace engramd::server
