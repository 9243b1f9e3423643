// The map of the HTTP port: which handler answers which path and method, and what is said where
// none does. On the io thread. Not here: HEAD and OPTIONS (transport), what an endpoint does.
#pragma once

#include <string>
#include <vector>

#include "server/api/api_context.h"
#include "server/transport/http_exchange.h"

namespace engramd::server {

struct Route {
  std::string method;
  std::string path;  // ends in '/': everything below it, but not the path without it
  HttpHandler handler;
};

// The APIs' endpoints, under each base path that users' scripts post to.
std::vector<Route> api_routes(const ApiContext& context);

// One handler of all: a 404 or 405 in JSON where no route fits. The first route that fits wins.
HttpHandler make_router(std::vector<Route> routes);

}  // namespace engramd::server
