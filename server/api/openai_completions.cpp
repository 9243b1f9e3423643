#include "server/api/openai_completions.h"

#include <ctime>
#include <utility>

#include <nlohmann/json.hpp>

#include "server/api/answer.h"
#include "server/api/event_stream.h"
#include "server/api/openai_completions_request.h"
#include "server/api/openai_logprobs.h"
#include "server/api/openai_usage.h"
#include "server/api/text_tokens.h"

namespace engramd::server {
namespace {

using nlohmann::json;

// What the two kinds of answer share: the envelope, and what stands in front of each choice.
class CompletionWriter : public AnswerWriter {
 public:
  CompletionWriter(std::vector<TextOrTokens> prompts, const GenerationRequest& request, bool echo)
      : prompts_(std::move(prompts)),
        n_per_prompt_(static_cast<std::size_t>(request.n_choices)),
        echo_(echo),
        logprobs_(request.chat.logprobs),
        text_offsets_(prompts_.size() * n_per_prompt_) {}

  void accepted(const AnswerFacts& facts) override { facts_ = facts; }

 protected:
  std::size_t n_choices() const { return text_offsets_.size(); }

  json envelope(json choices) const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", facts_.model},
            {"choices", std::move(choices)}};
  }

  json choice_json(std::size_t choice, std::string text,
                   const std::vector<engine::SampledToken>& tokens, json finish_reason) {
    json logprobs;
    if (logprobs_) {
      logprobs = completion_logprobs(tokens, *facts_.tokenizer, text_offsets_[choice]);
    }
    return {{"index", choice},
            {"text", std::move(text)},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", std::move(finish_reason)}};
  }

  std::string echoed(std::size_t choice) const {
    if (!echo_) return "";
    const TextOrTokens& prompt = prompts_[choice / n_per_prompt_];
    if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
    auto decoded = facts_.tokenizer->decode(std::get<1>(prompt));  // the engine checked the ids
    return decoded.has_value() ? std::move(*decoded) : std::string();
  }

  void count(std::size_t choice, const engine::ChatResult& result) {
    usage_.add(result, choice % n_per_prompt_ != 0);
  }

  UsageCounter usage_;

 private:
  const std::vector<TextOrTokens> prompts_;
  const std::size_t n_per_prompt_;
  const bool echo_;
  const bool logprobs_;
  const std::string id_ = make_id("cmpl-");
  const std::int64_t created_ = std::time(nullptr);
  AnswerFacts facts_;
  std::vector<std::int64_t> text_offsets_;  // per choice, in characters
};

class WholeCompletion final : public CompletionWriter {
 public:
  WholeCompletion(ApiCall call, const CompletionRequest& request)
      : CompletionWriter(request.prompts, request.generation, request.echo),
        call_(std::move(call)),
        choices_(n_choices()) {}

  void delta(std::size_t, const engine::ChatDelta&) override {}
  void choice_done(std::size_t choice, const engine::ChatResult& result) override {
    count(choice, result);
    choices_[choice] = choice_json(choice, echoed(choice) + result.text, tokens_of(result),
                                   name_of(result.finish_reason));
  }
  void done() override {
    json body = envelope(std::move(choices_));
    body["usage"] = usage_.to_json();
    call_.respond(200, body);
  }
  void failed(const ApiError& error) override { call_.fail(error); }

 private:
  const ApiCall call_;
  json::array_t choices_;
};

class StreamedCompletion final : public CompletionWriter {
 public:
  StreamedCompletion(std::shared_ptr<EventStream> stream, const CompletionRequest& request)
      : CompletionWriter(request.prompts, request.generation, request.echo),
        stream_(std::move(stream)),
        include_usage_(request.generation.include_usage),
        tokens_(n_choices()) {}

  void waiting() override { stream_->watch(); }

  void accepted(const AnswerFacts& facts) override {
    CompletionWriter::accepted(facts);
    stream_->begin();
    for (std::size_t choice = 0; choice < tokens_.size(); ++choice) {
      std::string text = echoed(choice);
      if (!text.empty()) send(choice, std::move(text), {}, nullptr);
    }
  }
  void delta(std::size_t choice, const engine::ChatDelta& delta) override {
    const auto tokens = tokens_[choice].push(delta);
    if (!delta.text.empty() || !tokens.empty()) send(choice, delta.text, tokens, nullptr);
  }
  void choice_done(std::size_t choice, const engine::ChatResult& result) override {
    count(choice, result);
    send(choice, "", tokens_[choice].rest(), name_of(result.finish_reason));
  }
  void done() override {
    if (include_usage_) {
      json chunk = envelope(json::array());
      chunk["usage"] = usage_.to_json();
      stream_->data(chunk);
    }
    stream_->write("data: [DONE]\n\n");
    stream_->end();
  }
  void failed(const ApiError& error) override { stream_->fail(error); }

 private:
  void send(std::size_t choice, std::string text, const std::vector<engine::SampledToken>& tokens,
            json finish_reason) {
    json chunk = envelope(
        json::array({choice_json(choice, std::move(text), tokens, std::move(finish_reason))}));
    if (include_usage_) chunk["usage"] = nullptr;
    stream_->data(chunk);
  }

  const std::shared_ptr<EventStream> stream_;
  const bool include_usage_;
  std::vector<TextTokens> tokens_;  // per choice
};

std::vector<engine::ChatRequest> to_requests(const CompletionRequest& request) {
  std::vector<engine::ChatRequest> requests;
  for (const TextOrTokens& prompt : request.prompts) {
    for (int i = 0; i < request.generation.n_choices; ++i) {
      engine::ChatRequest one = request.generation.choice(static_cast<int>(requests.size()));
      if (const auto* text = std::get_if<std::string>(&prompt)) {
        one.completion = *text;
      } else {
        one.prompt_tokens = std::get<1>(prompt);
      }
      requests.push_back(std::move(one));
    }
  }
  return requests;
}

void answer_completion(const ApiContext& context, std::shared_ptr<HttpExchange> exchange) {
  ApiCall call(exchange, ApiFamily::kOpenAi);
  auto parsed = parse_openai_completion(call.request().body, context.services.options);
  if (parsed.has_error()) return call.fail(parsed.error());
  std::shared_ptr<AnswerWriter> writer;
  if (parsed->generation.stream) {
    auto stream = std::make_shared<EventStream>(call, context.later, ": waiting\n\n");
    writer = std::make_shared<StreamedCompletion>(std::move(stream), *parsed);
  } else {
    writer = std::make_shared<WholeCompletion>(call, *parsed);
  }
  AnswerPlan plan;
  plan.counted_as = "completions";
  plan.model = parsed->generation.model;
  plan.requests = [request = std::move(*parsed)](
                      const engine::LocalEngine*) -> ApiResult<std::vector<engine::ChatRequest>> {
    return to_requests(request);
  };
  run_answer(context, std::move(exchange), std::move(plan), std::move(writer));
}

}  // namespace

HttpHandler make_openai_completions(const ApiContext& context) {
  return [context](std::shared_ptr<HttpExchange> exchange) {
    answer_completion(context, std::move(exchange));
  };
}

}  // namespace engramd::server
