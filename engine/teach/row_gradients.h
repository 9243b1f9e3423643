// RowGradients: how far texts are from what they should say, and how that changes with the Engram
// rows they read. A forward pass over whole texts that keeps the residual streams at each layer's
// input, then a backward pass that computes each layer again: memory is that of one layer and the
// streams. The model is frozen; the gradient stops at the lowest Engram layer.
// Threads: one at a time, with a Backend and Gradients of its own. Owns its activations.
// Not here: which rows may change and how (taught_entries, fact_problem).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/gradients.h"

namespace engramd::engine {

inline constexpr std::int32_t kAnyToken = -1;  // as a target: whatever follows is right

// Whole texts one after the other.
struct TextPack {
  std::vector<TokenId> tokens;          // [n_tokens]
  std::vector<std::int32_t> targets;    // [n_tokens] the token that should follow, or kAnyToken
  std::vector<std::int64_t> starts{0};  // [n_texts + 1]

  // `text` and then `answer`, whose every token is a target.
  void append(std::span<const TokenId> text, std::span<const TokenId> answer);
  std::int64_t n_texts() const { return static_cast<std::int64_t>(starts.size()) - 1; }
  std::int64_t n_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
};

// Of one target.
struct TargetScore {
  std::int64_t position = 0;  // in the pack
  float loss = 0;             // -log of its probability
  float margin = 0;           // its logit above the best other's: above 0, greedy decoding says it
};

class RowGradients {
 public:
  // All outlive this. The model has Engram layers.
  RowGradients(const Model& model, kernels::Backend& backend, kernels::Gradients& gradients);

  // rows: per Engram layer [n_tokens, columns_width]. The scores are valid until the next run.
  std::span<const TargetScore> forward(const TextPack& pack,
                                       std::span<const std::vector<float>> rows);
  // After forward() of the same pack and rows: the gradient of sum_i weights[i] * loss_i by the
  // rows, same shapes. weights: one per score.
  void backward(const TextPack& pack, std::span<const std::vector<float>> rows,
                std::span<const float> weights, std::span<std::vector<float>> grad_rows);

  // Logits of the last forward(), [n_targets, vocab_size]; backward() takes them.
  std::span<const float> logits() const { return logits_; }

 private:
  struct Sublayer {                 // one of the two, as the forward pass left it
    std::vector<float> streams;     // [n_tokens, n_streams, D] that it read
    std::vector<float> x, normed;   // [n_tokens, D]
    std::vector<float> post, comb;  // [n_tokens, n], [n_tokens, n, n]
    std::vector<float> y;           // [n_tokens, D]
  };

  void lay_out(const TextPack& pack);
  void read(const kernels::HyperConnection& hc, const float* norm, Sublayer& sublayer);
  void engram(const ModelLayer& layer, std::span<const std::vector<float>> rows);
  void attention(const ModelLayer& layer);
  void feed_forward(const ModelLayer& layer);
  void score(const TextPack& pack);
  void head_back(std::span<const float> weights);
  void layer_back(const ModelLayer& layer, const TextPack& pack,
                  std::span<const std::vector<float>> rows,
                  std::span<std::vector<float>> grad_rows);
  void write_back(const kernels::HyperConnection& hc, const Sublayer& sublayer);
  void read_back(const kernels::HyperConnection& hc, const float* norm, const Sublayer& sublayer);
  void attention_back(const ModelLayer& layer, const TextPack& pack);
  void engram_back(const ModelLayer& layer, const TextPack& pack, std::vector<float>& grad_rows);

  const Model* model_;
  kernels::Backend* backend_;
  kernels::Gradients* gradients_;
  std::size_t first_layer_ = 0;  // the lowest with Engram

  std::int64_t n_tokens_ = 0;
  std::vector<kernels::TokenSlot> slots_;
  std::vector<std::int32_t> blocks_;                // of all texts, one after the other
  std::vector<const std::int32_t*> block_tables_;   // [n_texts]
  std::vector<float> latent_cache_, conv_history_;  // of the layer that is being computed
  std::vector<std::uint8_t> enabled_;

  std::vector<float> streams_;                   // [n_tokens, n_streams, D]
  std::vector<std::vector<float>> checkpoints_;  // streams at each layer's input, from first_layer_
  std::vector<float> before_engram_;             // streams_ of the layer before its update
  std::vector<float> key_, value_, query_, unrotated_query_, latent_, attended_;
  Sublayer attention_, feed_forward_;

  std::vector<TargetScore> scores_;
  std::vector<std::int32_t> targets_;  // [n_targets]
  std::vector<float> target_streams_;  // [n_targets, n_streams, D]
  std::vector<float> head_x_, head_normed_, logits_, losses_;

  std::vector<float> grad_streams_;
  std::vector<float> grad_x_, grad_normed_, grad_y_, grad_post_, grad_comb_;
  std::vector<float> grad_query_, grad_latent_, grad_attended_, grad_key_, grad_value_;
};

}  // namespace engramd::engine
