// run_answer(): the way of one request for generated text, the same for every family: wait for the
// model, start one chat per choice, hand over what they say, end once, and stop everything when the
// client goes. How an answer is worded is its AnswerWriter's business.
// On the io thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/local_engine.h"
#include "server/api/api_call.h"
#include "server/api/api_context.h"

namespace engramd::server {

// The name in the answer, the tokens' texts, and sizes that a family reports before the first
// token.
struct AnswerFacts {
  std::string model;
  const engine::Tokenizer* tokenizer = nullptr;  // lives as long as the daemon
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
  // One per choice. Called when the model is there.
  std::function<ApiResult<std::vector<engine::ChatRequest>>(const engine::LocalEngine&)> requests;
};

void run_answer(const ApiContext& context, std::shared_ptr<HttpExchange> exchange, AnswerPlan plan,
                std::shared_ptr<AnswerWriter> writer);

}  // namespace engramd::server
