// GET /health (the process answers) and /ready (the model does). On the io thread.
#pragma once

#include "server/api/api_context.h"
#include "server/transport/http_exchange.h"

namespace engramd::server {

HttpHandler make_health();
HttpHandler make_ready(const ApiContext& context);

}  // namespace engramd::server
