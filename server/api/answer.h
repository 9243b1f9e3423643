// run_answer(): the way of one request for generated text, the same for every family: wait for the
// model, start one chat per choice, hand over what they say, end once, and stop everything when the
// client goes. Where a remote may be asked, the router decides who answers. How an answer is worded
// is its AnswerWriter's business. On the io thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/runtime/local_engine.h"
#include "server/api/api_call.h"
#include "server/api/api_context.h"

namespace engramd::server {

// The name in the answer, the tokens' texts, and sizes that a family reports before the first
// token.
struct AnswerFacts {
  std::string model;
  const engine::Tokenizer* tokenizer = nullptr;  // lives as long as the daemon; null: a remote's
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual void waiting() {}  // the first call: signs of life from here on
  // Nothing was refused; what follows comes from the model.
  virtual void accepted(const AnswerFacts& facts) = 0;
  virtual void delta(std::size_t choice, const engine::ChatDelta& delta) = 0;
  virtual void choice_done(std::size_t choice, const engine::ChatResult& result) = 0;
  // One of the two ends it, and is last.
  virtual void done() = 0;
  virtual void failed(const ApiError& error) = 0;
};

struct AnswerPlan {
  std::string counted_as;  // the name in the metrics
  std::string model;       // as asked for; empty: whichever is open
  // One per choice. Called when the model is there, or with null when only a remote is asked.
  std::function<ApiResult<std::vector<engine::ChatRequest>>(const engine::LocalEngine*)> requests;
  engine::Route route = engine::Route::kAuto;
  // The request in OpenAI's words, made when a remote may be asked; null: nobody but the local
  // engine can answer.
  std::function<std::string()> openai_request;
  std::optional<ApiError> beyond_local;   // why the local engine cannot
  std::optional<ApiError> beyond_remote;  // why a remote cannot
};

// "engramd" in an answer: served_by, model, attempts, and fallback_reason where there is one.
nlohmann::json provenance_json(const engine::ChatResult& result);

void run_answer(const ApiContext& context, std::shared_ptr<HttpExchange> exchange, AnswerPlan plan,
                std::shared_ptr<AnswerWriter> writer);

}  // namespace engramd::server
