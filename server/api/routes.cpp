#include "server/api/routes.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "mcp/json_rpc.h"
#include "server/api/anthropic_messages.h"
#include "server/api/api_call.h"
#include "server/api/health.h"
#include "server/api/models.h"
#include "server/api/openai_chat.h"
#include "server/api/openai_completions.h"
#include "server/api/openai_embeddings.h"
#include "server/api/prometheus.h"

namespace engramd::server {
namespace {

// What stands before an endpoint in a client's base URL.
constexpr const char* kBasePaths[] = {"/v1", "", "/api", "/api/v1"};

bool fits(const Route& route, const std::string& path) {
  if (route.path != "/" && route.path.ends_with('/')) {
    return path.size() > route.path.size() && path.starts_with(route.path);
  }
  return path == route.path;
}

ApiError unknown_path(const HttpRequest& request) {
  ApiError error;
  error.status = 404;
  error.code = "unknown_url";
  error.message = "no such endpoint: " + request.method + " " + request.path +
                  "; expected one of /v1/chat/completions, /v1/completions, /v1/embeddings, "
                  "/v1/models, /v1/messages, /mcp";
  return error;
}

// Without one slash at the end, which some base URLs leave behind.
std::string normal_path(const std::string& path) {
  return path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
}

void refuse_method(const std::shared_ptr<HttpExchange>& exchange, const std::string& allowed) {
  const ApiCall call(exchange, family_of(exchange->request()));
  ApiError error;
  error.status = 405;
  error.code = "method_not_allowed";
  error.message =
      exchange->request().path + " takes " + allowed + ", got " + exchange->request().method;
  HttpHeaders headers = call.headers();
  headers.emplace_back("Allow", allowed);
  headers.emplace_back("x-should-retry", "false");
  exchange->respond({.status = 405,
                     .content_type = "application/json",
                     .body = mcp::serialise(call.error_json(error)),
                     .headers = std::move(headers)});
}

void dispatch(const std::vector<Route>& routes, const std::shared_ptr<HttpExchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const std::string path = normal_path(request.path);
  std::string allowed;
  for (const Route& route : routes) {
    if (!fits(route, path)) continue;
    if (route.method == request.method) return route.handler(exchange);
    if (allowed.find(route.method) == std::string::npos) {
      allowed += (allowed.empty() ? "" : ", ") + route.method;
    }
  }
  if (!allowed.empty()) return refuse_method(exchange, allowed);
  ApiCall(exchange, family_of(request)).fail(unknown_path(request));
}

void greet(const std::shared_ptr<HttpExchange>& exchange) {
  exchange->respond({.status = 200,
                     .content_type = "application/json",
                     .body = R"({"name":"engramd","version":")" ENGRAMD_VERSION "\"}",
                     .headers = {}});
}

}  // namespace

std::vector<Route> api_routes(const ApiContext& context) {
  const std::vector<Route> endpoints = {
      {"GET", "/models", make_models_list(context)},
      {"GET", "/models/", make_models_get(context)},
      {"POST", "/chat/completions", make_openai_chat(context)},
      {"POST", "/completions", make_openai_completions(context)},
      {"POST", "/embeddings", make_openai_embeddings(context)},
      {"POST", "/messages", make_anthropic_messages(context)},
      {"POST", "/messages/count_tokens", make_anthropic_count_tokens(context)}};
  std::vector<Route> routes = {{"GET", "/", greet},
                               {"GET", "/health", make_health()},
                               {"GET", "/ready", make_ready(context)},
                               {"GET", "/metrics", make_prometheus(context)}};
  for (const char* base : kBasePaths) {
    for (const Route& endpoint : endpoints) {
      routes.push_back({endpoint.method, base + endpoint.path, endpoint.handler});
    }
  }
  return routes;
}

HttpHandler make_router(std::vector<Route> routes) {
  return [routes = std::move(routes)](const std::shared_ptr<HttpExchange>& exchange) {
    dispatch(routes, exchange);
  };
}

}  // namespace engramd::server
