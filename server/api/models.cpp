#include "server/api/models.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "server/api/api_call.h"
#include "server/api/model_wait.h"

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr std::string_view kModels = "/models/";

std::string utc(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

json model_json(const std::string& id, const engine::ModelFacts& facts, std::time_t started) {
  return {{"id", id},
          {"object", "model"},
          {"created", started},
          {"owned_by", "engramd"},
          {"type", "model"},
          {"display_name", id == facts.name ? id : id + " (" + facts.name + ")"},
          {"created_at", utc(started)},
          {"context_length", facts.context_length}};
}

// That the configuration names; what else the remote has is not asked for.
std::vector<std::string> remote_models(const ApiContext& context) {
  std::vector<std::string> names;
  if (context.services.remote_router == nullptr) return names;
  const config::ApiOptions& api = context.services.options.api;
  for (const std::string& name : {api.default_model, api.fallback_model}) {
    if (!name.empty() && (names.empty() || names.front() != name)) names.push_back(name);
  }
  return names;
}

json remote_model_json(const std::string& id, std::time_t started) {
  return {{"id", id},
          {"object", "model"},
          {"created", started},
          {"owned_by", "remote"},
          {"type", "model"},
          {"display_name", id + " (remote)"},
          {"created_at", utc(started)}};
}

}  // namespace

HttpHandler make_models_list(const ApiContext& context) {
  return [context, started = std::time(nullptr)](std::shared_ptr<HttpExchange> exchange) {
    const ApiCall call(std::move(exchange), ApiFamily::kOpenAi);
    when_model_ready(context, "", [context, call, started](ApiResult<engine::LocalEngine*> model) {
      if (model.has_error()) return call.fail(model.error());
      const engine::ModelFacts& facts = (*model)->facts();
      const auto names = model_names(facts.name, context.aliases);
      json data = json::array();
      for (const std::string& name : names) data.push_back(model_json(name, facts, started));
      for (const std::string& name : remote_models(context)) {
        data.push_back(remote_model_json(name, started));
      }
      const std::string data_last = data.back().at("id");
      call.respond(200, {{"object", "list"},
                         {"data", std::move(data)},
                         {"has_more", false},
                         {"first_id", names.front()},
                         {"last_id", data_last}});
    });
  };
}

HttpHandler make_models_get(const ApiContext& context) {
  return [context, started = std::time(nullptr)](std::shared_ptr<HttpExchange> exchange) {
    const ApiCall call(std::move(exchange), ApiFamily::kOpenAi);
    const std::string& path = call.request().path;
    const std::string id = path.substr(path.find(kModels) + kModels.size());
    const auto remote = remote_models(context);
    if (std::find(remote.begin(), remote.end(), id) != remote.end()) {
      return call.respond(200, remote_model_json(id, started));
    }
    when_model_ready(context, id, [call, id, started](ApiResult<engine::LocalEngine*> model) {
      if (model.has_error()) return call.fail(model.error());
      call.respond(200, model_json(id, (*model)->facts(), started));
    });
  };
}

}  // namespace engramd::server
