// ServingCheck: what the serving forward pass says under given tables: the check of taught values
// after they were rounded. It is the pass that chats run, on a cache of its own; since no result
// depends on the batch or on chunks, "every token is the likeliest one" is what greedy decoding
// will do.
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/runtime/kv_cache.h"
#include "engine/runtime/sequence.h"
#include "engine/runtime/step.h"
#include "engine/teach/teaching_plan.h"

namespace engramd::engine {

class ServingCheck {
 public:
  // Room for texts of up to `n_tokens_max` tokens. model and backend outlive this.
  static Result<std::unique_ptr<ServingCheck>> make(const Model& model, kernels::Backend& backend,
                                                    kernels::DType kv_cache_dtype,
                                                    std::int64_t n_tokens_max);

  // Whether greedy decoding answers the prompt with exactly this answer.
  Result<bool> says(const TaughtText& text, const TableView& view);
  // The greedy answer, without end-of-sentence; at most n_tokens_max tokens with the prompt.
  Result<std::vector<TokenId>> answer(const std::vector<TokenId>& prompt, int answer_tokens_max,
                                      const TableView& view);

 private:
  ServingCheck(const Model& model, kernels::Backend& backend, KvCache cache);

  const Model* model_;
  KvCache cache_;
  Step step_;
};

}  // namespace engramd::engine
