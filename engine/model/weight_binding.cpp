#include "engine/model/weight_binding.h"

#include <string>
#include <utility>

namespace engramd::engine {

namespace {

using kernels::DType;
using kernels::FeedForward;
using kernels::HyperConnection;
using kernels::Linear;
using Shape = std::vector<std::int64_t>;

// Collects the first error, so that binding reads as the list of tensors it is.
class Binder {
 public:
  explicit Binder(const Checkpoint& checkpoint) : checkpoint_(&checkpoint) {}

  kernels::TensorView tensor(const std::string& name, DType dtype, const Shape& shape) {
    if (error_) return {};
    auto view = checkpoint_->tensor(name, dtype, shape);
    if (view.has_value()) return *view;
    error_ = view.error();
    return {};
  }
  const float* floats(const std::string& name, const Shape& shape) {
    return static_cast<const float*>(tensor(name, DType::kF32, shape).data);
  }
  Linear linear(const std::string& name, std::int64_t out, std::int64_t in) {
    return {tensor(name, DType::kBF16, {out, in}), nullptr};
  }
  FeedForward feed_forward(const std::string& prefix, std::int64_t hidden_size,
                           std::int64_t width) {
    return {linear(prefix + "gate_proj.weight", width, hidden_size),
            linear(prefix + "up_proj.weight", width, hidden_size),
            linear(prefix + "down_proj.weight", hidden_size, width)};
  }
  HyperConnection hyper_connection(const std::string& prefix, const ModelConfig& config) {
    const std::int64_t n = config.hc_mult;
    HyperConnection hc = hyper_shape(config);
    hc.fn = floats(prefix + ".fn", {(2 + n) * n, n * config.hidden_size});
    hc.base = floats(prefix + ".base", {(2 + n) * n});
    hc.scale = floats(prefix + ".scale", {3});
    return hc;
  }
  HyperConnection hyper_head(const ModelConfig& config) {
    const std::int64_t n = config.hc_mult;
    HyperConnection hc = hyper_shape(config);
    hc.fn = floats("model.hc_head.fn", {n, n * config.hidden_size});
    hc.base = floats("model.hc_head.base", {n});
    hc.scale = floats("model.hc_head.scale", {1});
    return hc;
  }
  CheckpointRows rows(const std::string& prefix, std::int64_t n_rows, int head_dim) {
    if (error_) return {};
    auto rows = CheckpointRows::bind(*checkpoint_, prefix, n_rows, head_dim);
    if (rows.has_value()) return *rows;
    error_ = rows.error();
    return {};
  }
  Result<void> result() const {
    if (error_) return *error_;
    return {};
  }

 private:
  static HyperConnection hyper_shape(const ModelConfig& config) {
    HyperConnection hc;
    hc.n_streams = config.hc_mult;
    hc.hidden_size = config.hidden_size;
    hc.sinkhorn_iterations = config.hc_sinkhorn_iters;
    hc.hc_eps = static_cast<float>(config.hc_eps);
    hc.rms_norm_eps = static_cast<float>(config.rms_norm_eps);
    return hc;
  }

  const Checkpoint* checkpoint_;
  std::optional<Error> error_;
};

void bind_attention(Binder& bind, const ModelConfig& config, const std::string& prefix,
                    ModelLayer& layer) {
  const std::int64_t heads = config.num_attention_heads;
  const std::int64_t query = config.qk_nope_head_dim + config.qk_rope_head_dim;
  const std::int64_t latent = config.kv_lora_rank + config.qk_rope_head_dim;
  const std::int64_t hidden_size = config.hidden_size;
  layer.q_proj = bind.linear(prefix + "q_proj.weight", heads * query, hidden_size);
  layer.kv_a_proj_with_mqa = bind.linear(prefix + "kv_a_proj_with_mqa.weight", latent, hidden_size);
  layer.o_proj = bind.linear(prefix + "o_proj.weight", hidden_size, heads * config.v_head_dim);
  kernels::LatentAttention& attention = layer.attention;
  attention.num_attention_heads = config.num_attention_heads;
  attention.qk_nope_head_dim = config.qk_nope_head_dim;
  attention.qk_rope_head_dim = config.qk_rope_head_dim;
  attention.v_head_dim = config.v_head_dim;
  attention.kv_lora_rank = config.kv_lora_rank;
  attention.rms_norm_eps = static_cast<float>(config.rms_norm_eps);
  attention.rope_theta = config.rope_theta;
  attention.kv_a_layernorm = bind.floats(prefix + "kv_a_layernorm.weight", {config.kv_lora_rank});
  attention.kv_b_proj =
      bind.tensor(prefix + "kv_b_proj.weight", DType::kBF16,
                  {heads * (config.qk_nope_head_dim + config.v_head_dim), config.kv_lora_rank});
}

void bind_mixture(Binder& bind, const ModelConfig& config, const std::string& prefix,
                  ModelLayer& layer) {
  const std::int64_t hidden_size = config.hidden_size;
  const std::int64_t width = config.moe_intermediate_size;
  for (int e = 0; e < config.n_routed_experts; ++e) {
    layer.experts.push_back(
        bind.feed_forward(prefix + "experts." + std::to_string(e) + ".", hidden_size, width));
  }
  if (config.n_shared_experts > 0) {
    layer.shared_experts =
        bind.feed_forward(prefix + "shared_experts.", hidden_size, width * config.n_shared_experts);
  }
  kernels::MixtureOfExperts& mixture = layer.mixture;
  mixture.num_experts_per_tok = config.num_experts_per_tok;
  mixture.norm_topk_prob = config.norm_topk_prob;
  mixture.routed_scaling_factor = static_cast<float>(config.routed_scaling_factor);
  mixture.gate.weight =
      bind.tensor(prefix + "gate.weight", DType::kF32, {config.n_routed_experts, hidden_size});
  mixture.e_score_correction_bias =
      bind.floats(prefix + "gate.e_score_correction_bias", {config.n_routed_experts});
}

EngramBlock bind_engram(Binder& bind, const Model& model, const std::string& prefix, int index) {
  const ModelConfig& config = model.config;
  const std::int64_t n_rows = model.layout.layers[static_cast<std::size_t>(index)].n_rows;
  const std::int64_t n = config.hc_mult;
  const std::int64_t hidden_size = config.hidden_size;
  const std::int64_t width = model.layout.columns_width();
  EngramBlock block;
  block.index = index;
  block.rows = bind.rows(prefix + "embed", n_rows, model.layout.config.head_dim);
  kernels::TensorView keys =
      bind.tensor(prefix + "key_proj.weight", DType::kBF16, {n, hidden_size, width});
  keys.n_dimensions = 2;  // the streams' projections one below the other
  keys.shape = {n * hidden_size, width};
  block.key_proj = {keys, bind.floats(prefix + "key_proj.bias", {n, hidden_size})};
  block.value_proj = bind.linear(prefix + "value_proj.weight", hidden_size, width);
  block.value_proj.bias = bind.floats(prefix + "value_proj.bias", {hidden_size});
  kernels::EngramGate& gate = block.gate;
  gate.n_streams = config.hc_mult;
  gate.hidden_size = config.hidden_size;
  gate.rms_norm_eps = static_cast<float>(config.rms_norm_eps);
  gate.kernel_size = config.engram->kernel_size;
  gate.dilation = config.engram->dilation;
  gate.key_norm = bind.floats(prefix + "key_norm.weight", {n, hidden_size});
  gate.query_norm = bind.floats(prefix + "query_norm.weight", {n, hidden_size});
  gate.conv_norm = bind.floats(prefix + "conv_norm.weight", {n, hidden_size});
  gate.conv = bind.floats(prefix + "conv.weight", {n, hidden_size, gate.kernel_size});
  return block;
}

}  // namespace

Result<void> bind_weights(Model& model) {
  const ModelConfig& config = model.config;
  Binder bind(model.checkpoint);
  const std::int64_t hidden_size = config.hidden_size;
  model.embed_tokens =
      bind.tensor("model.embed_tokens.weight", DType::kBF16, {config.vocab_size, hidden_size});
  model.head.weight = model.embed_tokens;
  model.norm = bind.floats("model.norm.weight", {hidden_size});
  model.hc_head = bind.hyper_head(config);
  model.layers.resize(static_cast<std::size_t>(config.num_hidden_layers));
  for (int i = 0; i < config.num_hidden_layers; ++i) {
    ModelLayer& layer = model.layers[static_cast<std::size_t>(i)];
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    layer.hc_attn = bind.hyper_connection(prefix + "hc_attn", config);
    layer.hc_ffn = bind.hyper_connection(prefix + "hc_ffn", config);
    layer.input_layernorm = bind.floats(prefix + "input_layernorm.weight", {hidden_size});
    layer.post_attention_layernorm =
        bind.floats(prefix + "post_attention_layernorm.weight", {hidden_size});
    bind_attention(bind, config, prefix + "self_attn.", layer);
    if (i < config.first_k_dense_replace) {
      layer.dense = bind.feed_forward(prefix + "mlp.", hidden_size, config.intermediate_size);
    } else {
      bind_mixture(bind, config, prefix + "mlp.", layer);
    }
  }
  for (std::size_t index = 0; index < model.layout.layers.size(); ++index) {
    const std::int64_t layer = model.layout.layers[index].layer_id;
    model.layers[static_cast<std::size_t>(layer)].engram = bind_engram(
        bind, model, "model.layers." + std::to_string(layer) + ".engram.", static_cast<int>(index));
  }
  for (ModelLayer& layer : model.layers) {  // the vectors have their final place now
    layer.mixture.experts = layer.experts;
    layer.mixture.shared = layer.shared_experts ? &*layer.shared_experts : nullptr;
  }
  return bind.result();
}

}  // namespace engramd::engine
