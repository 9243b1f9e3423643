// Embedding: texts to vectors in short turns on the engine thread: the mean, over the tokens of
// each, of the final hidden states. Has a cache and activations of its own, so chats keep theirs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "engine/runtime/step.h"

namespace engramd::engine {

struct EmbeddingJob {
  std::vector<std::vector<TokenId>> inputs;                              // checked, none empty
  std::function<void(Result<std::vector<std::vector<float>>>)> on_done;  // [n_inputs, hidden_size]
  std::stop_token stop;
};

class Embedding {
 public:
  // Sees the tables as `view` shows them, whatever is edited meanwhile.
  Embedding(EmbeddingJob job, const Model& model, TableView view, kernels::Backend& backend,
            std::stop_token engine_stop);

  // A turn; true when on_done has been called. Shorter when chats run beside it.
  bool advance(bool chats_run);

 private:
  Result<void> prepare();
  Result<void> compute(std::int64_t n_tokens);
  bool done(Result<std::vector<std::vector<float>>> result);

  EmbeddingJob job_;
  const Model* model_;
  TableView view_;
  kernels::Backend* backend_;
  std::stop_token engine_stop_;
  std::optional<KvCache> cache_;
  std::unique_ptr<Step> step_;
  std::unique_ptr<Sequence> sequence_;       // of the input at work
  std::vector<double> sum_;                  // [hidden_size], over its tokens so far
  std::vector<std::vector<float>> vectors_;  // [inputs done, hidden_size]
};

}  // namespace engramd::engine
