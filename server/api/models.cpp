#include "server/api/models.h"

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
      call.respond(200, {{"object", "list"},
                         {"data", std::move(data)},
                         {"has_more", false},
                         {"first_id", names.front()},
                         {"last_id", names.back()}});
    });
  };
}

HttpHandler make_models_get(const ApiContext& context) {
  return [context, started = std::time(nullptr)](std::shared_ptr<HttpExchange> exchange) {
    const ApiCall call(std::move(exchange), ApiFamily::kOpenAi);
    const std::string& path = call.request().path;
    const std::string id = path.substr(path.find(kModels) + kModels.size());
    when_model_ready(context, id, [call, id, started](ApiResult<engine::LocalEngine*> model) {
      if (model.has_error()) return call.fail(model.error());
      call.respond(200, model_json(id, (*model)->facts(), started));
    });
  };
}

}  // namespace engramd::server
