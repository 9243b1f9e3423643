#include "server/api/openai_embeddings.h"

#include <cmath>
#include <stop_token>
#include <utility>

#include <nlohmann/json.hpp>

#include "mcp/base64.h"
#include "server/api/api_call.h"
#include "server/api/json_body.h"
#include "server/api/model_wait.h"
#include "server/api/openai_completions_request.h"

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr std::size_t kInputsMax = 2048;  // OpenAI's limit
constexpr char kCountedAs[] = "embeddings";

struct EmbeddingsRequest {
  std::string model;
  std::vector<TextOrTokens> inputs;
  bool base64 = false;
};

ApiResult<EmbeddingsRequest> parse(std::string_view body, const config::Options& options) {
  const auto parsed = parse_json_body(body, options.limits.json_depth_max);
  if (parsed.has_error()) return parsed.error();
  RequestProblems problems;
  RequestFields fields(*parsed, problems);
  EmbeddingsRequest request;
  request.model = fields.text("model").value_or("");
  request.inputs = read_texts(fields, "input", kInputsMax);
  const std::string format = fields.text("encoding_format").value_or("float");
  request.base64 = format == "base64";
  if (!request.base64 && format != "float") {
    fields.refuse("encoding_format", "expected float or base64, got \"" + format + "\"");
  }
  if (fields.find("dimensions") != nullptr) {
    fields.refuse("dimensions", "the length of this model's vectors is fixed; leave it out");
  }
  if (problems.wrong) return *problems.wrong;
  return request;
}

// Little-endian float32, as this program's processors keep them.
std::string_view bytes_of(const std::vector<float>& vector) {
  return {reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)};
}

void scale_to_length_1(std::vector<float>& vector) {
  double sum = 0;
  for (const float value : vector) sum += static_cast<double>(value) * static_cast<double>(value);
  if (sum <= 0) return;
  for (float& value : vector)
    value = static_cast<float>(static_cast<double>(value) / std::sqrt(sum));
}

json to_json(std::vector<std::vector<float>> vectors, bool as_base64, const std::string& model,
             std::int64_t n_tokens) {
  json data = json::array();
  for (std::vector<float>& vector : vectors) {
    scale_to_length_1(vector);
    data.push_back(
        {{"object", "embedding"},
         {"index", data.size()},
         {"embedding", as_base64 ? json(mcp::to_base64(bytes_of(vector))) : json(vector)}});
  }
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", model},
          {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}};
}

ApiResult<std::vector<std::vector<engine::TokenId>>> encode(const engine::LocalEngine& engine,
                                                            const EmbeddingsRequest& request) {
  std::vector<std::vector<engine::TokenId>> inputs;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    if (const auto* tokens = std::get_if<std::vector<engine::TokenId>>(&request.inputs[i])) {
      inputs.push_back(*tokens);
    } else {
      auto encoded = engine.encode_text(std::get<std::string>(request.inputs[i]));
      if (encoded.has_error()) return to_api_error(encoded.error());
      inputs.push_back(std::move(*encoded));
    }
  }
  return inputs;
}

void embed(const ApiContext& context, const ApiCall& call, const EmbeddingsRequest& request,
           engine::LocalEngine& engine, const std::stop_source& stop) {
  Metrics& metrics = context.services.metrics;
  const auto inputs = encode(engine, request);
  if (inputs.has_error()) {
    metrics.tool_finished(kCountedAs, "error");
    return call.fail(inputs.error());
  }
  std::int64_t n_tokens = 0;
  for (const auto& input : *inputs) n_tokens += static_cast<std::int64_t>(input.size());
  const auto on_done =
      [call, &metrics, post = context.services.post, n_tokens, as_base64 = request.base64,
       model = engine.facts().name](Result<std::vector<std::vector<float>>> vectors) {
        post([call, &metrics, n_tokens, as_base64, model, vectors = std::move(vectors)] {
          metrics.tool_finished(kCountedAs, vectors.has_error() ? "error" : "ok");
          if (vectors.has_error()) return call.fail(to_api_error(vectors.error()));
          call.respond(200, to_json(*vectors, as_base64, model, n_tokens));
        });
      };
  engine.embed(*inputs, on_done, stop.get_token());
}

void answer(const ApiContext& context, std::shared_ptr<HttpExchange> exchange) {
  const ApiCall call(exchange, ApiFamily::kOpenAi);
  auto parsed = parse(call.request().body, context.services.options);
  if (parsed.has_error()) return call.fail(parsed.error());
  const std::stop_source stop;
  exchange->on_gone([stop]() mutable { stop.request_stop(); });
  context.services.metrics.tool_started(kCountedAs);
  const std::string name = parsed->model;
  when_model_ready(
      context, name,
      [context, call, stop, request = std::move(*parsed)](ApiResult<engine::LocalEngine*> model) {
        if (model.has_value()) {
          return embed(context, call, request, **model, stop);
        }
        context.services.metrics.tool_finished(kCountedAs, "error");
        call.fail(model.error());
      });
}

}  // namespace

HttpHandler make_openai_embeddings(const ApiContext& context) {
  return
      [context](std::shared_ptr<HttpExchange> exchange) { answer(context, std::move(exchange)); };
}

}  // namespace engramd::server
