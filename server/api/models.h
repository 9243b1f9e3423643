// GET /v1/models and /v1/models/{id}: the open model under each of its names, in a shape that the
// clients of both OpenAI and Anthropic read. On the io thread.
#pragma once

#include "server/api/api_context.h"
#include "server/transport/http_exchange.h"

namespace engramd::server {

HttpHandler make_models_list(const ApiContext& context);
// The id is what follows "/models/" in the path; it may have '/' and ':' in it.
HttpHandler make_models_get(const ApiContext& context);

}  // namespace engramd::server
