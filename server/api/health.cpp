#include "server/api/health.h"

#include <nlohmann/json.hpp>

#include "mcp/json_rpc.h"

namespace engramd::server {
namespace {

using nlohmann::json;

void respond(HttpExchange& exchange, int status, const json& body) {
  exchange.respond({.status = status,
                    .content_type = "application/json",
                    .body = mcp::serialise(body),
                    .headers = {{"Cache-Control", "no-store"}}});
}

}  // namespace

HttpHandler make_health() {
  return [](const std::shared_ptr<HttpExchange>& exchange) {
    respond(*exchange, 200, {{"status", "ok"}, {"version", ENGRAMD_VERSION}});
  };
}

HttpHandler make_ready(const ApiContext& context) {
  return [context](const std::shared_ptr<HttpExchange>& exchange) {
    const ModelLoader& loader = context.services.loader;
    const auto engine = loader.current();
    if (engine.has_value()) {
      return respond(*exchange, 200,
                     {{"status", "ready"}, {"model", engine.value()->facts().name}});
    }
    respond(
        *exchange, 503,
        {{"status", loader.loading() ? "loading" : "failed"}, {"reason", engine.error().message}});
  };
}

}  // namespace engramd::server
