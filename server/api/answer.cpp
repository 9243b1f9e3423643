#include "server/api/answer.h"

#include <stop_token>
#include <utility>

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
    when_model_ready(context_, plan_.model,
                     [self = shared_from_this()](ApiResult<engine::LocalEngine*> model) {
                       if (!self->ended_) self->model_ready(std::move(model));
                     });
  }

 private:
  void model_ready(ApiResult<engine::LocalEngine*> model) {
    if (model.has_error()) return end(model.error());
    const engine::LocalEngine& engine = **model;
    facts_ = {engine.facts().name, &engine.tokenizer()};
    auto requests = plan_.requests(engine);
    if (requests.has_error()) return end(requests.error());
    n_left_ = requests->size();
    for (std::size_t i = 0; i < requests->size(); ++i) {
      start_choice(**model, i, std::move((*requests)[i]));
    }
    // The engine refuses inside start(), so every refusal was posted before this.
    context_.services.post([self = shared_from_this()] { self->accept(); });
  }

  void accept() {
    if (!ended_ && !std::exchange(accepted_, true)) writer_->accepted(facts_);
  }

  void start_choice(engine::ChatBackend& backend, std::size_t index, engine::ChatRequest request) {
    request.model.clear();  // the name was checked; the engine need not explain a fallback
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

void run_answer(const ApiContext& context, std::shared_ptr<HttpExchange> exchange, AnswerPlan plan,
                std::shared_ptr<AnswerWriter> writer) {
  std::make_shared<AnswerRun>(context, std::move(exchange), std::move(plan), std::move(writer))
      ->start();
}

}  // namespace engramd::server
