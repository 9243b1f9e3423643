// Model: hyper-parameters, the Engram layout and token map, and every weight bound and validated
// once. Read-only after open_model: any thread may read. Owns the mapping its weights point into.
// Not here: computing with it (forward), sequences and caches (engine/runtime).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/model_config.h"
#include "engine/checkpoint/shard_index.h"
#include "engine/engram/addresser.h"
#include "engine/engram/checkpoint_tables.h"
#include "engine/engram/token_map.h"
#include "kernels/backend.h"

namespace engramd::engine {

struct EngramBlock {
  int index = 0;               // into EngramLayout::layers
  CheckpointRows rows;         // the table as the checkpoint has it
  kernels::Linear key_proj;    // [n_streams * hidden_size, columns_width], with bias
  kernels::Linear value_proj;  // [hidden_size, columns_width], with bias
  kernels::EngramGate gate;
};

struct ModelLayer {
  std::optional<EngramBlock> engram;
  kernels::HyperConnection hc_attn, hc_ffn;
  const float* input_layernorm = nullptr;           // [hidden_size]
  const float* post_attention_layernorm = nullptr;  // [hidden_size]
  kernels::Linear q_proj;                           // [heads * (qk_nope + qk_rope), hidden_size]
  kernels::Linear kv_a_proj_with_mqa;               // [kv_lora_rank + qk_rope, hidden_size]
  kernels::Linear o_proj;                           // [hidden_size, heads * v_head_dim]
  kernels::LatentAttention attention;
  std::optional<kernels::FeedForward> dense;  // either this
  std::vector<kernels::FeedForward> experts;  // or these: [n_routed_experts]
  std::optional<kernels::FeedForward> shared_experts;
  kernels::MixtureOfExperts mixture;
};

struct Model {
  ModelConfig config;
  EngramLayout layout;  // empty layers when the model has no Engram
  TokenMap token_map;
  kernels::TensorView embed_tokens;  // [vocab_size, hidden_size], bf16; also the output head
  kernels::Linear head;              // the same tensor
  const float* norm = nullptr;       // [hidden_size]
  kernels::HyperConnection hc_head;
  std::vector<ModelLayer> layers;
  Checkpoint checkpoint;

  const EngramBlock& engram_block(std::size_t index) const;  // index into layout.layers
  std::vector<CheckpointRows> engram_rows() const;           // per Engram layer
  std::int32_t pad_class() const;                            // 0 without Engram
};

struct OpenModelOptions {
  bool populate = false;      // fault all pages in now
  int experts_per_token = 0;  // 0: the model's own
};

// Reads config.json and the safetensors of `folder`. Errors name the tensor or key, what was
// expected and what stands there. Heap-allocated: layers point into themselves.
Result<std::unique_ptr<const Model>> open_model(const std::string& folder,
                                                const OpenModelOptions& options = {});

}  // namespace engramd::engine
