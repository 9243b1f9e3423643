#include "server/api/anthropic_messages.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "server/api/answer.h"
#include "server/api/anthropic_request.h"
#include "server/api/anthropic_to_openai.h"
#include "server/api/event_stream.h"
#include "server/api/model_wait.h"
#include "server/upstream/remote_json.h"

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr char kPing[] = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

json usage_json(std::int64_t input_tokens, std::int64_t cached_tokens, std::int64_t output_tokens) {
  return {{"input_tokens", input_tokens - cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached_tokens},
          {"output_tokens", output_tokens}};
}

const char* stop_reason(const engine::ChatResult& result) {
  if (result.finish_reason == engine::FinishReason::kLength) return "max_tokens";
  if (result.finish_reason == engine::FinishReason::kToolCalls) return "tool_use";
  if (result.finish_reason == engine::FinishReason::kContentFilter) return "refusal";
  return result.stop_matched.empty() ? "end_turn" : "stop_sequence";
}

json stop_sequence(const engine::ChatResult& result) {
  return result.stop_matched.empty() ? json() : json(result.stop_matched);
}

json message_json(const std::string& id, const std::string& model) {
  return {{"id", id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", model},
          {"content", json::array()},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

json content_json(const engine::ChatResult& result) {
  json content = json::array();
  if (!result.reasoning.empty()) {
    content.push_back({{"type", "thinking"}, {"thinking", result.reasoning}, {"signature", ""}});
  }
  if (!result.text.empty()) content.push_back({{"type", "text"}, {"text", result.text}});
  for (const engine::ToolCall& call : result.tool_calls) {
    const json input = parse_remote_json(call.arguments);
    content.push_back({{"type", "tool_use"},
                       {"id", call.id},
                       {"name", call.name},
                       {"input", input.is_object() ? input : json::object()}});
  }
  return content;
}

class WholeMessage final : public AnswerWriter {
 public:
  explicit WholeMessage(ApiCall call) : call_(std::move(call)) {}

  void accepted(const AnswerFacts&) override {}
  void delta(std::size_t, const engine::ChatDelta&) override {}
  void choice_done(std::size_t, const engine::ChatResult& result) override {
    body_ = message_json(make_id("msg_"), result.model);
    body_["content"] = content_json(result);
    body_["engramd"] = provenance_json(result);
    body_["stop_reason"] = stop_reason(result);
    body_["stop_sequence"] = stop_sequence(result);
    body_["usage"] =
        usage_json(result.prompt_tokens, result.cached_prompt_tokens, result.completion_tokens);
  }
  void done() override { call_.respond(200, body_); }
  void failed(const ApiError& error) override { call_.fail(error); }

 private:
  const ApiCall call_;
  json body_;
};

class StreamedMessage final : public AnswerWriter {
 public:
  StreamedMessage(std::shared_ptr<EventStream> stream, std::shared_ptr<std::int64_t> prompt_tokens)
      : stream_(std::move(stream)), prompt_tokens_(std::move(prompt_tokens)) {}

  void waiting() override { stream_->watch(); }

  void accepted(const AnswerFacts& facts) override {
    json message = message_json(make_id("msg_"), facts.model);
    message["usage"] = usage_json(*prompt_tokens_, 0, 1);  // what is cached shows at the end
    send("message_start", {{"message", std::move(message)}});
  }

  void delta(std::size_t, const engine::ChatDelta& delta) override {
    if (!delta.reasoning.empty()) {
      open("thinking", {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      send_delta({{"type", "thinking_delta"}, {"thinking", delta.reasoning}});
    }
    if (!delta.text.empty()) {
      open("text", {{"type", "text"}, {"text", ""}});
      send_delta({{"type", "text_delta"}, {"text", delta.text}});
    }
    // The first call as it comes. Pieces of several may take turns, and blocks may not: the others
    // follow whole.
    for (const engine::ToolCallDelta& call : delta.tool_calls) {
      if (call.index == 0) send_call(call.piece);
    }
  }

  void choice_done(std::size_t, const engine::ChatResult& result) override {
    close();
    for (std::size_t i = 1; i < result.tool_calls.size(); ++i) {
      send_call(result.tool_calls[i]);
      close();
    }
    send("message_delta",
         {{"delta",
           {{"stop_reason", stop_reason(result)}, {"stop_sequence", stop_sequence(result)}}},
          {"usage",
           usage_json(result.prompt_tokens, result.cached_prompt_tokens, result.completion_tokens)},
          {"engramd", provenance_json(result)}});
  }

  void done() override {
    send("message_stop", json::object());
    stream_->end();
  }
  void failed(const ApiError& error) override { stream_->fail(error); }

 private:
  void send(const std::string& type, json event) {
    event["type"] = type;
    stream_->event(type, event);
  }

  // Blocks follow each other: one is open until another begins.
  void open(const std::string& which, json block) {
    if (which == open_) return;
    close();
    open_ = which;
    send("content_block_start", {{"index", n_blocks_}, {"content_block", std::move(block)}});
  }

  // A piece of the call that is open, or the first of another, which has an id.
  void send_call(const engine::ToolCall& piece) {
    if (!piece.id.empty()) {
      open("call " + piece.id, {{"type", "tool_use"},
                                {"id", piece.id},
                                {"name", piece.name},
                                {"input", json::object()}});
    }
    send_delta({{"type", "input_json_delta"}, {"partial_json", piece.arguments}});
  }

  void send_delta(json delta) {
    send("content_block_delta", {{"index", n_blocks_}, {"delta", std::move(delta)}});
  }

  void close() {
    if (open_.empty()) return;
    open_.clear();
    send("content_block_stop", {{"index", n_blocks_++}});
  }

  std::string open_;  // which block is; empty: none
  int n_blocks_ = 0;  // that are over
  const std::shared_ptr<EventStream> stream_;
  const std::shared_ptr<std::int64_t> prompt_tokens_;  // known when the request is made
};

// Clients recover from an overflow by these words.
ApiError prompt_error(const Error& error) {
  ApiError made = to_api_error(error);
  if (error.kind == ErrorKind::kLimitExceeded) made.message = "prompt is too long: " + made.message;
  return made;
}

// The writer of the stream reports the prompt's length first, before the engine counts it.
ApiResult<std::vector<engine::ChatRequest>> to_requests(const AnthropicRequest& request,
                                                        const engine::LocalEngine* engine,
                                                        std::int64_t& prompt_tokens) {
  if (engine == nullptr) return std::vector<engine::ChatRequest>{request.chat};
  const auto prompt = engine->encode_messages(request.chat.messages, request.chat.continue_last);
  if (prompt.has_error()) return prompt_error(prompt.error());
  if (auto fits = engine->check_prompt(prompt->size()); fits.has_error()) {
    return prompt_error(fits.error());
  }
  prompt_tokens = static_cast<std::int64_t>(prompt->size());
  engine::ChatRequest chat = request.chat;
  chat.prompt_tokens = *prompt;
  return std::vector<engine::ChatRequest>{std::move(chat)};
}

void answer(const ApiContext& context, std::shared_ptr<HttpExchange> exchange) {
  ApiCall call(exchange, ApiFamily::kAnthropic);
  auto parsed =
      parse_anthropic(call.request().body, context.services.options, AnthropicCall::kMessages);
  if (parsed.has_error()) return call.fail(parsed.error());
  const auto prompt_tokens = std::make_shared<std::int64_t>(0);
  std::shared_ptr<AnswerWriter> writer;
  if (parsed->stream) {
    auto stream = std::make_shared<EventStream>(call, context.later, kPing);
    writer = std::make_shared<StreamedMessage>(std::move(stream), prompt_tokens);
  } else {
    writer = std::make_shared<WholeMessage>(call);
  }
  AnswerPlan plan;
  plan.counted_as = "messages";
  plan.model = parsed->model;
  plan.route = parsed->chat.route;
  plan.openai_request = [exchange] { return anthropic_to_openai(exchange->request().body); };
  plan.beyond_local = parsed->beyond_local;
  plan.requests = [request = std::move(*parsed), prompt_tokens](const engine::LocalEngine* engine) {
    return to_requests(request, engine, *prompt_tokens);
  };
  run_answer(context, std::move(exchange), std::move(plan), std::move(writer));
}

void count_tokens(const ApiContext& context, std::shared_ptr<HttpExchange> exchange) {
  const ApiCall call(std::move(exchange), ApiFamily::kAnthropic);
  auto parsed =
      parse_anthropic(call.request().body, context.services.options, AnthropicCall::kCountTokens);
  if (parsed.has_error()) return call.fail(parsed.error());
  when_model_ready(context, parsed->model,
                   [call, request = std::move(*parsed)](ApiResult<engine::LocalEngine*> model) {
                     if (model.has_error()) return call.fail(model.error());
                     const auto prompt = (*model)->encode_messages(request.chat.messages,
                                                                   request.chat.continue_last);
                     if (prompt.has_error()) return call.fail(prompt_error(prompt.error()));
                     call.respond(200, {{"input_tokens", prompt->size()}});
                   });
}

}  // namespace

HttpHandler make_anthropic_messages(const ApiContext& context) {
  return
      [context](std::shared_ptr<HttpExchange> exchange) { answer(context, std::move(exchange)); };
}

HttpHandler make_anthropic_count_tokens(const ApiContext& context) {
  return [context](std::shared_ptr<HttpExchange> exchange) {
    count_tokens(context, std::move(exchange));
  };
}

}  // namespace engramd::server
