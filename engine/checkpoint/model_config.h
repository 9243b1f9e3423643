// ModelConfig: config.json as typed, validated hyper-parameters, in the names that the public
// config files use. Pure parsing, no weights. Untrusted input: every size is bounded, heads divide,
// the Engram layout is derived and compared with what the file stores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/engram/layout.h"

namespace engramd::engine {

struct EngramConfig {
  EngramLayoutConfig layout;
  int kernel_size = 4;  // taps of the short convolution
  int dilation = 3;     // tokens between taps
};

struct ModelConfig {
  std::string model_type;  // "engram_moe"
  std::int64_t vocab_size = 0;
  int hidden_size = 0;
  int num_hidden_layers = 0;
  int num_attention_heads = 0;
  int qk_nope_head_dim = 0;
  int qk_rope_head_dim = 0;
  int v_head_dim = 0;
  int kv_lora_rank = 0;
  double rope_theta = 10000.0;
  int max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = true;
  int first_k_dense_replace = 0;
  int intermediate_size = 0;
  int moe_intermediate_size = 0;
  int n_routed_experts = 0;
  int num_experts_per_tok = 0;
  int n_shared_experts = 0;
  bool norm_topk_prob = true;
  double routed_scaling_factor = 1.0;
  int hc_mult = 1;
  int hc_sinkhorn_iters = 1;
  double hc_eps = 1e-6;
  std::int64_t bos_token_id = -1;
  std::vector<std::int64_t> eos_token_ids;
  std::int64_t pad_token_id = -1;
  std::optional<EngramConfig> engram;
};

// Errors name the key, what was expected and what stands there.
Result<ModelConfig> parse_model_config(std::string_view json);
// FOLDER/config.json, bounded; errors name the file.
Result<ModelConfig> read_model_config(const std::string& folder);
// What a model is called: the last part of its folder's path.
std::string model_name_of(const std::string& folder);

// generation_config.json: sampling defaults that a model ships.
struct GenerationConfig {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int> top_k;
  std::optional<int> max_new_tokens;
  bool do_sample = false;
};
Result<GenerationConfig> parse_generation_config(std::string_view json);

// tokenizer_config.json: the chat template and the tokens it names.
struct TokenizerConfig {
  std::string chat_template;  // empty: the model has none
  std::string bos_token, eos_token, pad_token;
};
Result<TokenizerConfig> parse_tokenizer_config(std::string_view json);

}  // namespace engramd::engine
