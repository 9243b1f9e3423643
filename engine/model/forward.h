// Forward: one pass of a batch of tokens through the model. Owns the activations, nothing else;
// caches and rows come in as views. Used from the engine thread only.
// Not here: scheduling, sampling, where cache blocks come from (engine/runtime).
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/engram/prefetcher.h"
#include "engine/model/activation.h"
#include "engine/model/model.h"
#include "kernels/backend.h"

namespace engramd::engine {

struct ForwardBatch {
  std::span<const TokenId> tokens;                      // [n_tokens]
  std::span<const kernels::TokenSlot> slots;            // [n_tokens]
  std::span<const std::uint8_t> engram_enabled;         // [n_tokens]
  Prefetcher* engram_rows = nullptr;                    // its pass has begun
  std::span<const kernels::PagedCache> latent_caches;   // [num_hidden_layers]
  std::span<const kernels::PagedCache> conv_histories;  // [Engram layers]
  std::span<const std::int32_t> logits_of;  // indices into tokens whose logits are wanted
};

// What inspection and the golden tests look at; filled where the vectors are asked for.
struct ForwardTrace {
  bool want_hidden = false;
  bool want_experts = false;
  bool want_final = false;
  std::vector<std::vector<float>> hidden;          // per layer [n_tokens, n_streams, hidden_size]
  std::vector<std::vector<std::int32_t>> experts;  // per layer [n_tokens, num_experts_per_tok]
  std::vector<float> final_hidden;                 // [n_tokens, hidden_size], behind the last norm
  struct Engram {
    std::vector<float> gate, dot, residual_share;  // [n_tokens, n_streams]
    std::vector<float> value_norm;                 // [n_tokens]
  };
  std::vector<Engram> engram;  // per Engram layer
};

class Forward {
 public:
  Forward(const Model& model, kernels::Backend& backend);

  // Logits [logits_of.size(), vocab_size], valid until the next run; empty when `stop` was
  // requested between layers. Then, and after an error (a table row that cannot be read, a GPU that
  // failed), the caches hold entries that must not be relied on.
  Result<std::span<const float>> run(const ForwardBatch& batch, std::stop_token stop,
                                     ForwardTrace* trace = nullptr);

  std::int64_t activation_bytes() const;

 private:
  Result<std::span<const float>> compute(const ForwardBatch& batch, std::stop_token stop,
                                         ForwardTrace* trace);
  void reserve(std::int64_t n_tokens, std::int64_t n_logits);
  Result<void> engram(const ModelLayer& layer, const ForwardBatch& batch, ForwardTrace* trace);
  void attention(const ModelLayer& layer, const ForwardBatch& batch, std::size_t layer_index);
  void feed_forward(const ModelLayer& layer, const ForwardBatch& batch, std::size_t layer_index,
                    ForwardTrace* trace);
  void final_norm(std::int64_t n_tokens);  // of the first n_tokens streams, into normed_
  std::span<const float> logits(const ForwardBatch& batch);

  const Model* model_;
  kernels::Backend* backend_;
  Activation streams_{*backend_};                // [n_tokens, n_streams, hidden_size]
  Activation x_{*backend_}, normed_{*backend_};  // [n_tokens, hidden_size]
  Activation y_{*backend_};                      // [n_tokens, hidden_size]
  Activation post_{*backend_};                   // [n_tokens, n_streams]
  Activation comb_{*backend_};                   // [n_tokens, n_streams, n_streams]
  Activation query_{*backend_};                  // [n_tokens, heads * (qk_nope + qk_rope)]
  Activation latent_{*backend_};                 // [n_tokens, kv_lora_rank + qk_rope]
  Activation attended_{*backend_};               // [n_tokens, heads * v_head_dim]
  Activation rows_{*backend_};                   // [n_tokens, columns_width]
  Activation key_{*backend_};                    // [n_tokens, n_streams, hidden_size]
  Activation value_{*backend_};                  // [n_tokens, hidden_size]
  Activation logits_{*backend_};                 // [n_logits, vocab_size]
};

}  // namespace engramd::engine
