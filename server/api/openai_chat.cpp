#include "server/api/openai_chat.h"

#include <ctime>
#include <utility>

#include <nlohmann/json.hpp>

#include "server/api/answer.h"
#include "server/api/event_stream.h"
#include "server/api/openai_chat_request.h"
#include "server/api/openai_logprobs.h"
#include "server/api/openai_usage.h"
#include "server/api/text_tokens.h"

namespace engramd::server {
namespace {

using nlohmann::json;

// The members that an answer and all chunks of a stream share.
class Envelope {
 public:
  explicit Envelope(const char* object)
      : object_(object), id_(make_id("chatcmpl-")), created_(std::time(nullptr)) {}
  json with(const std::string& model, json choices) const {
    return {{"id", id_},
            {"object", object_},
            {"created", created_},
            {"model", model},
            {"choices", std::move(choices)},
            {"system_fingerprint", "engramd-" ENGRAMD_VERSION}};
  }

 private:
  const char* object_;
  const std::string id_;
  const std::int64_t created_;
};

json call_json(const engine::ToolCall& call) {
  json function = {{"arguments", call.arguments}};
  if (!call.name.empty()) function["name"] = call.name;
  json entry = {{"function", std::move(function)}};
  if (!call.id.empty()) {
    entry["id"] = call.id;
    entry["type"] = "function";
  }
  return entry;
}

json message_json(const engine::ChatResult& result) {
  json message = {{"role", "assistant"}, {"content", result.text}, {"refusal", nullptr}};
  if (!result.reasoning.empty()) message["reasoning_content"] = result.reasoning;
  if (result.tool_calls.empty()) return message;
  if (result.text.empty()) message["content"] = nullptr;
  for (const engine::ToolCall& call : result.tool_calls) {
    message["tool_calls"].push_back(call_json(call));
  }
  return message;
}

json delta_json(const engine::ChatDelta& delta) {
  json entry = json::object();
  if (!delta.reasoning.empty()) entry["reasoning_content"] = delta.reasoning;
  for (const engine::ToolCallDelta& call : delta.tool_calls) {
    json piece = call_json(call.piece);
    piece["index"] = call.index;
    entry["tool_calls"].push_back(std::move(piece));
  }
  if (entry.empty() || !delta.text.empty()) entry["content"] = delta.text;
  return entry;
}

class WholeAnswer final : public AnswerWriter {
 public:
  WholeAnswer(ApiCall call, int n_choices, bool logprobs)
      : call_(std::move(call)),
        choices_(static_cast<std::size_t>(n_choices)),
        logprobs_(logprobs) {}

  void accepted(const AnswerFacts& facts) override { facts_ = facts; }
  void delta(std::size_t, const engine::ChatDelta&) override {}

  void choice_done(std::size_t choice, const engine::ChatResult& result) override {
    usage_.add(result, counted_++ > 0);
    facts_.model = result.model;
    provenance_ = provenance_json(result);
    choices_[choice] = {
        {"index", choice},
        {"message", message_json(result)},
        {"logprobs", logprobs_ ? chat_logprobs(tokens_of(result), *facts_.tokenizer) : json()},
        {"finish_reason", name_of(result.finish_reason)}};
  }

  void done() override {
    json body = envelope_.with(facts_.model, std::move(choices_));
    body["usage"] = usage_.to_json();
    body["engramd"] = provenance_;
    call_.respond(200, body);
  }
  void failed(const ApiError& error) override { call_.fail(error); }

 private:
  const ApiCall call_;
  const Envelope envelope_{"chat.completion"};
  AnswerFacts facts_;
  json::array_t choices_;
  json provenance_;
  const bool logprobs_;
  UsageCounter usage_;
  int counted_ = 0;
};

class StreamedAnswer final : public AnswerWriter {
 public:
  StreamedAnswer(std::shared_ptr<EventStream> stream, const GenerationRequest& request)
      : stream_(std::move(stream)),
        logprobs_(request.chat.logprobs),
        include_usage_(request.include_usage),
        tokens_(static_cast<std::size_t>(request.n_choices)) {}

  void waiting() override { stream_->watch(); }

  void accepted(const AnswerFacts& facts) override {
    facts_ = facts;
    for (std::size_t choice = 0; choice < tokens_.size(); ++choice) {
      // openai-node fails on a first delta without a role.
      send(choice, {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}, {}, nullptr);
    }
  }

  void delta(std::size_t choice, const engine::ChatDelta& delta) override {
    const auto tokens = logprobs_ ? tokens_[choice].push(delta) : no_tokens();
    const bool says = !delta.text.empty() || !delta.reasoning.empty() || !delta.tool_calls.empty();
    if (says || !tokens.empty()) send(choice, delta_json(delta), tokens, nullptr);
  }

  void choice_done(std::size_t choice, const engine::ChatResult& result) override {
    usage_.add(result, counted_++ > 0);
    const auto rest = tokens_[choice].rest();
    if (!rest.empty()) send(choice, {{"content", ""}}, rest, nullptr);
    provenance_ = provenance_json(result);
    send(choice, json::object(), {}, name_of(result.finish_reason));
  }

  void done() override {
    if (include_usage_) {
      json chunk = envelope_.with(facts_.model, json::array());
      chunk["usage"] = usage_.to_json();
      stream_->data(chunk);
    }
    stream_->write("data: [DONE]\n\n");
    stream_->end();
  }
  void failed(const ApiError& error) override { stream_->fail(error); }

 private:
  static std::vector<engine::SampledToken> no_tokens() { return {}; }

  void send(std::size_t choice, json delta, const std::vector<engine::SampledToken>& tokens,
            const char* finish_reason) {
    json entry = {{"index", choice},
                  {"delta", std::move(delta)},
                  {"logprobs", tokens.empty() ? json() : chat_logprobs(tokens, *facts_.tokenizer)},
                  {"finish_reason", finish_reason == nullptr ? json() : json(finish_reason)}};
    json chunk = envelope_.with(facts_.model, json::array({std::move(entry)}));
    if (include_usage_) chunk["usage"] = nullptr;
    if (finish_reason != nullptr) chunk["engramd"] = provenance_;
    stream_->data(chunk);
  }

  const std::shared_ptr<EventStream> stream_;
  const Envelope envelope_{"chat.completion.chunk"};
  const bool logprobs_;
  const bool include_usage_;
  AnswerFacts facts_;
  std::vector<TextTokens> tokens_;  // per choice
  json provenance_;
  UsageCounter usage_;
  int counted_ = 0;
};

std::optional<ApiError> beyond_remote(const GenerationRequest& request) {
  if (request.n_choices > 1) {
    return bad_field("n", "n: a remote answers once; more choices are the local model's");
  }
  if (request.chat.logprobs) {
    return bad_field("logprobs", "logprobs: of the local model only");
  }
  return std::nullopt;
}

void answer_chat(const ApiContext& context, std::shared_ptr<HttpExchange> exchange) {
  ApiCall call(exchange, ApiFamily::kOpenAi);
  auto parsed = parse_openai_chat(call.request().body, context.services.options);
  if (parsed.has_error()) return call.fail(parsed.error());
  std::shared_ptr<AnswerWriter> writer;
  if (parsed->stream) {
    auto stream = std::make_shared<EventStream>(call, context.later, ": waiting\n\n");
    writer = std::make_shared<StreamedAnswer>(std::move(stream), *parsed);
  } else {
    writer = std::make_shared<WholeAnswer>(call, parsed->n_choices, parsed->chat.logprobs);
  }
  AnswerPlan plan;
  plan.counted_as = "chat.completions";
  plan.model = parsed->model;
  plan.route = parsed->chat.route;
  plan.openai_request = [exchange] { return exchange->request().body; };
  plan.beyond_local = parsed->beyond_local;
  plan.beyond_remote = beyond_remote(*parsed);
  plan.requests = [request = std::move(*parsed)](
                      const engine::LocalEngine*) -> ApiResult<std::vector<engine::ChatRequest>> {
    std::vector<engine::ChatRequest> requests;
    for (int i = 0; i < request.n_choices; ++i) requests.push_back(request.choice(i));
    return requests;
  };
  run_answer(context, std::move(exchange), std::move(plan), std::move(writer));
}

}  // namespace

HttpHandler make_openai_chat(const ApiContext& context) {
  return [context](std::shared_ptr<HttpExchange> exchange) {
    answer_chat(context, std::move(exchange));
  };
}

}  // namespace engramd::server
