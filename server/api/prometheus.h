// GET /metrics: the numbers of the `metrics` tool since start, as Prometheus reads them (text
// format 0.0.4). On the io thread.
#pragma once

#include <string>

#include "server/api/api_context.h"
#include "server/transport/http_exchange.h"

namespace engramd::server {

std::string prometheus_text(const Services& services);
HttpHandler make_prometheus(const ApiContext& context);

}  // namespace engramd::server
