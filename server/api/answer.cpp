#include "server/api/answer.h"

#include <stop_token>
#include <utility>

#include <nlohmann/json.hpp>

#include "server/api/model_wait.h"
#include "server/tools/chat_run.h"

namespace engramd::server {
namespace {

class AnswerRun : public std::enable_shared_from_this<AnswerRun> {
 public:
  AnswerRun(const ApiContext& context, std::shared_ptr<HttpExchange> exchange, AnswerPlan plan,
            std::shared_ptr<AnswerWriter> writer)
      : context_(context),
        exchange_(std::move(exchange)),
        plan_(std::move(plan)),
        writer_(std::move(writer)) {}

  void start() {
    context_.services.metrics.tool_started(plan_.counted_as);
    exchange_->on_gone([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->client_gone();
    });
    writer_->waiting();
    const bool may_route =
        router() != nullptr && plan_.openai_request && plan_.route != engine::Route::kLocal;
    if (plan_.beyond_local && !may_route) return end(plan_.beyond_local);
    when_model_ready(context_, plan_.model,
                     [self = shared_from_this(), may_route](ApiResult<engine::LocalEngine*> model) {
                       if (!self->ended_) self->model_ready(std::move(model), may_route);
                     });
  }

 private:
  engine::ChatBackend* router() const { return context_.services.remote_router; }

  void model_ready(ApiResult<engine::LocalEngine*> model, bool may_route) {
    const bool wants_remote = may_route && plan_.route == engine::Route::kRemote;
    if (may_route && (wants_remote || model.has_error() || plan_.beyond_local)) {
      return ask_remote(model.has_value());
    }
    if (model.has_error()) return end(model.error());
    const engine::LocalEngine& engine = **model;
    facts_ = {engine.facts().name, &engine.tokenizer()};
    auto requests = plan_.requests(&engine);
    if (requests.has_error()) return end(requests.error());
    n_left_ = requests->size();
    // Whoever asks for several choices or probabilities means this model's.
    const bool by_router = may_route && !plan_.beyond_remote;
    for (std::size_t i = 0; i < requests->size(); ++i) {
      engine::ChatRequest& request = (*requests)[i];
      request.model.clear();  // the name was checked; the engine need not explain a fallback
      if (by_router) request.openai_request = plan_.openai_request();
      start_choice(by_router ? *router() : **model, i, std::move(request));
    }
    if (by_router) return;  // who answers is not known yet
    // The engine refuses inside start(), so every refusal was posted before this.
    context_.services.post([self = shared_from_this()] { self->accept(); });
  }

  void ask_remote(bool names_local) {
    if (plan_.beyond_remote) return end(plan_.beyond_remote);
    facts_.model = !names_local && !plan_.model.empty()
                       ? plan_.model
                       : context_.services.options.api.default_model;
    auto requests = plan_.requests(nullptr);
    if (requests.has_error()) return end(requests.error());
    n_left_ = 1;
    engine::ChatRequest request = std::move(requests->front());
    request.openai_request = plan_.openai_request();
    request.model = names_local ? "" : plan_.model;
    if (plan_.beyond_local) request.local_refusal = plan_.beyond_local->message;
    start_choice(*router(), 0, std::move(request));
  }

  void accept() {
    if (!ended_ && !std::exchange(accepted_, true)) writer_->accepted(facts_);
  }

  void start_choice(engine::ChatBackend& backend, std::size_t index, engine::ChatRequest request) {
    ChatEvents events;
    events.on_delta = [self = shared_from_this(), index](const engine::ChatDelta& delta) {
      self->accept();
      if (!self->ended_) self->writer_->delta(index, delta);
    };
    events.on_done = [self = shared_from_this(), index](Result<engine::ChatResult> result) {
      self->choice_done(index, std::move(result));
    };
    run_chat(backend, std::move(request), std::move(events), stop_.get_token(), context_.services);
  }

  void choice_done(std::size_t index, Result<engine::ChatResult> result) {
    if (ended_) return;
    if (result.has_error()) return end(to_api_error(result.error()));
    if (result->finish_reason == engine::FinishReason::kCancelled) {
      return end(to_api_error(cancelled("the engine is shutting down")));
    }
    accept();
    writer_->choice_done(index, *result);
    if (--n_left_ == 0) end({});
  }

  void client_gone() {
    if (std::exchange(ended_, true)) return;
    stop_.request_stop();
    context_.services.metrics.tool_finished(plan_.counted_as, "cancelled");
  }

  void end(const std::optional<ApiError>& error) {
    if (std::exchange(ended_, true)) return;
    stop_.request_stop();
    context_.services.metrics.tool_finished(plan_.counted_as, error ? "error" : "ok");
    error ? writer_->failed(*error) : writer_->done();
  }

  const ApiContext context_;
  const std::shared_ptr<HttpExchange> exchange_;
  const AnswerPlan plan_;
  const std::shared_ptr<AnswerWriter> writer_;
  AnswerFacts facts_;
  std::stop_source stop_;
  std::size_t n_left_ = 0;
  bool accepted_ = false;
  bool ended_ = false;
};

}  // namespace

nlohmann::json provenance_json(const engine::ChatResult& result) {
  nlohmann::json provenance = {
      {"served_by", result.served_by}, {"model", result.model}, {"attempts", result.attempts}};
  if (!result.fallback_reason.empty()) provenance["fallback_reason"] = result.fallback_reason;
  return provenance;
}

void run_answer(const ApiContext& context, std::shared_ptr<HttpExchange> exchange, AnswerPlan plan,
                std::shared_ptr<AnswerWriter> writer) {
  std::make_shared<AnswerRun>(context, std::move(exchange), std::move(plan), std::move(writer))
      ->start();
}

}  // namespace engramd::server
