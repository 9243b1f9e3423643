// POST /v1/embeddings: texts to vectors, the mean of the model's final hidden states, scaled to
// length 1 as OpenAI's are. On the io thread.
#pragma once

#include "server/api/api_context.h"
#include "server/transport/http_exchange.h"

namespace engramd::server {

HttpHandler make_openai_embeddings(const ApiContext& context);

}  // namespace engramd::server
