#include "engine/teach/row_gradients.h"

#include <algorithm>

namespace engramd::engine {

namespace {

void size_to(std::vector<float>& buffer, std::int64_t size) {
  buffer.resize(static_cast<std::size_t>(size));
}

float* zeros(std::vector<float>& buffer, std::int64_t size) {
  buffer.assign(static_cast<std::size_t>(size), 0.0F);
  return buffer.data();
}

float eps_of(const Model& model) {
  return static_cast<float>(model.config.rms_norm_eps);
}

}  // namespace

void TextPack::append(std::span<const TokenId> text, std::span<const TokenId> answer) {
  ENGRAMD_ASSERT(!text.empty());
  tokens.insert(tokens.end(), text.begin(), text.end());
  targets.insert(targets.end(), text.size() - 1, kAnyToken);
  if (answer.empty()) {
    targets.push_back(kAnyToken);
  } else {  // the last token of the answer has nothing to predict
    tokens.insert(tokens.end(), answer.begin(), answer.end() - 1);
    targets.insert(targets.end(), answer.begin(), answer.end());
  }
  starts.push_back(n_tokens());
}

RowGradients::RowGradients(const Model& model, kernels::Backend& backend,
                           kernels::Gradients& gradients)
    : model_(&model), backend_(&backend), gradients_(&gradients) {
  ENGRAMD_ASSERT(!model.layout.layers.empty());
  while (!model.layers[first_layer_].engram) ++first_layer_;
  checkpoints_.resize(model.layers.size());
}

void RowGradients::lay_out(const TextPack& pack) {
  n_tokens_ = pack.n_tokens();
  slots_.clear();
  blocks_.clear();
  std::vector<std::size_t> first_blocks;
  for (std::size_t text = 0; text + 1 < pack.starts.size(); ++text) {
    const std::int64_t length = pack.starts[text + 1] - pack.starts[text];
    first_blocks.push_back(blocks_.size());
    for (std::int64_t p = 0; p < length; ++p) {
      slots_.push_back({static_cast<std::int32_t>(text), static_cast<std::int32_t>(p)});
      if (p % kernels::kBlockTokens == 0) {
        blocks_.push_back(static_cast<std::int32_t>(blocks_.size()));
      }
    }
  }
  block_tables_.clear();
  for (const std::size_t first : first_blocks) block_tables_.push_back(blocks_.data() + first);
  enabled_.assign(pack.tokens.size(), 1);
  const std::int64_t n = model_->config.hc_mult;
  const std::int64_t hidden_size = model_->config.hidden_size;
  const kernels::LatentAttention& attention = model_->layers.front().attention;
  const auto entries = static_cast<std::int64_t>(blocks_.size()) * kernels::kBlockTokens;
  size_to(latent_cache_, entries * attention.latent_width());
  size_to(conv_history_, entries * n * hidden_size);
  size_to(streams_, n_tokens_ * n * hidden_size);
  for (Sublayer* sublayer : {&attention_, &feed_forward_}) {
    for (auto* buffer : {&sublayer->x, &sublayer->normed, &sublayer->y}) {
      size_to(*buffer, n_tokens_ * hidden_size);
    }
    size_to(sublayer->post, n_tokens_ * n);
    size_to(sublayer->comb, n_tokens_ * n * n);
  }
  size_to(key_, n_tokens_ * n * hidden_size);
  size_to(value_, n_tokens_ * hidden_size);
  size_to(query_, n_tokens_ * attention.query_width());
  size_to(latent_, n_tokens_ * attention.latent_width());
  size_to(attended_, n_tokens_ * attention.output_width());
}

std::span<const TargetScore> RowGradients::forward(const TextPack& pack,
                                                   std::span<const std::vector<float>> rows) {
  ENGRAMD_ASSERT(rows.size() == model_->layout.layers.size());
  lay_out(pack);
  backend_->embed(model_->embed_tokens, pack.tokens, model_->config.hc_mult, streams_.data());
  for (std::size_t i = 0; i < model_->layers.size(); ++i) {
    const ModelLayer& layer = model_->layers[i];
    if (i >= first_layer_) checkpoints_[i] = streams_;
    if (layer.engram) engram(layer, rows);
    attention(layer);
    feed_forward(layer);
  }
  score(pack);
  return scores_;
}

void RowGradients::read(const kernels::HyperConnection& hc, const float* norm, Sublayer& sublayer) {
  sublayer.streams = streams_;
  backend_->hyper_read(hc, streams_.data(), n_tokens_, sublayer.x.data(), sublayer.post.data(),
                       sublayer.comb.data());
  backend_->rms_norm(sublayer.x.data(), norm, eps_of(*model_), n_tokens_,
                     model_->config.hidden_size, sublayer.normed.data());
}

void RowGradients::engram(const ModelLayer& layer, std::span<const std::vector<float>> rows) {
  const EngramBlock& block = *layer.engram;
  before_engram_ = streams_;
  const kernels::LinearTask tasks[] = {{&block.key_proj, key_.data()},
                                       {&block.value_proj, value_.data()}};
  backend_->linear(rows[static_cast<std::size_t>(block.index)].data(), n_tokens_, tasks);
  kernels::PagedCache history;
  history.data = conv_history_.data();
  history.width = model_->config.hc_mult * model_->config.hidden_size;
  history.block_tables = block_tables_.data();
  backend_->engram_update(block.gate, key_.data(), value_.data(), slots_, history, enabled_.data(),
                          streams_.data(), {});
}

void RowGradients::attention(const ModelLayer& layer) {
  read(layer.hc_attn, layer.input_layernorm, attention_);
  const kernels::LinearTask inputs[] = {{&layer.q_proj, query_.data()},
                                        {&layer.kv_a_proj_with_mqa, latent_.data()}};
  backend_->linear(attention_.normed.data(), n_tokens_, inputs);
  unrotated_query_ = query_;
  kernels::PagedCache cache;
  cache.data = latent_cache_.data();
  cache.width = layer.attention.latent_width();
  cache.block_tables = block_tables_.data();
  backend_->latent_attention(layer.attention, query_.data(), latent_.data(), slots_, cache,
                             attended_.data());
  const kernels::LinearTask output[] = {{&layer.o_proj, attention_.y.data()}};
  backend_->linear(attended_.data(), n_tokens_, output);
  backend_->hyper_write(layer.hc_attn, attention_.y.data(), attention_.post.data(),
                        attention_.comb.data(), n_tokens_, streams_.data());
}

void RowGradients::feed_forward(const ModelLayer& layer) {
  read(layer.hc_ffn, layer.post_attention_layernorm, feed_forward_);
  if (layer.dense) {
    backend_->feed_forward(*layer.dense, feed_forward_.normed.data(), n_tokens_,
                           feed_forward_.y.data());
  } else {
    backend_->mixture_of_experts(layer.mixture, feed_forward_.normed.data(), n_tokens_,
                                 feed_forward_.y.data(), nullptr);
  }
  backend_->hyper_write(layer.hc_ffn, feed_forward_.y.data(), feed_forward_.post.data(),
                        feed_forward_.comb.data(), n_tokens_, streams_.data());
}

void RowGradients::score(const TextPack& pack) {
  scores_.clear();
  targets_.clear();
  target_streams_.clear();
  const std::int64_t width = std::int64_t{model_->config.hc_mult} * model_->config.hidden_size;
  for (std::int64_t t = 0; t < n_tokens_; ++t) {
    const std::int32_t target = pack.targets[static_cast<std::size_t>(t)];
    if (target == kAnyToken) continue;
    scores_.push_back({t, 0, 0});
    targets_.push_back(target);
    target_streams_.insert(target_streams_.end(), streams_.begin() + t * width,
                           streams_.begin() + (t + 1) * width);
  }
  const auto n_targets = static_cast<std::int64_t>(targets_.size());
  const std::int64_t vocab_size = model_->config.vocab_size;
  size_to(head_x_, n_targets * model_->config.hidden_size);
  size_to(head_normed_, n_targets * model_->config.hidden_size);
  size_to(logits_, n_targets * vocab_size);
  backend_->hyper_head(model_->hc_head, target_streams_.data(), n_targets, head_x_.data());
  backend_->rms_norm(head_x_.data(), model_->norm, eps_of(*model_), n_targets,
                     model_->config.hidden_size, head_normed_.data());
  const kernels::LinearTask output[] = {{&model_->head, logits_.data()}};
  backend_->linear(head_normed_.data(), n_targets, output);
  for (std::int64_t i = 0; i < n_targets; ++i) {
    float* logits = logits_.data() + i * vocab_size;
    const std::int32_t target = targets_[static_cast<std::size_t>(i)];
    const float best = std::max(
        target == 0 ? logits[1] : *std::max_element(logits, logits + target),
        target + 1 == vocab_size ? logits[0]
                                 : *std::max_element(logits + target + 1, logits + vocab_size));
    scores_[static_cast<std::size_t>(i)].margin = logits[target] - best;
  }
}

void RowGradients::backward(const TextPack& pack, std::span<const std::vector<float>> rows,
                            std::span<const float> weights,
                            std::span<std::vector<float>> grad_rows) {
  ENGRAMD_ASSERT(weights.size() == scores_.size() && pack.n_tokens() == n_tokens_);
  head_back(weights);
  for (std::size_t i = model_->layers.size(); i-- > first_layer_;) {
    streams_ = checkpoints_[i];
    const ModelLayer& layer = model_->layers[i];
    if (layer.engram) engram(layer, rows);
    attention(layer);
    feed_forward(layer);
    layer_back(layer, pack, rows, grad_rows);
  }
}

void RowGradients::head_back(std::span<const float> weights) {
  const std::int64_t hidden_size = model_->config.hidden_size;
  const std::int64_t width = model_->config.hc_mult * hidden_size;
  const auto n_targets = static_cast<std::int64_t>(targets_.size());
  losses_.resize(targets_.size());
  gradients_->cross_entropy(logits_.data(), n_targets, model_->config.vocab_size, targets_.data(),
                            weights.data(), losses_.data());
  for (std::size_t i = 0; i < losses_.size(); ++i) scores_[i].loss = losses_[i];
  gradients_->linear(model_->head, logits_.data(), n_targets,
                     zeros(grad_normed_, n_targets * hidden_size));
  gradients_->rms_norm(head_x_.data(), model_->norm, eps_of(*model_), n_targets, hidden_size,
                       grad_normed_.data(), zeros(grad_x_, n_targets * hidden_size));
  std::vector<float> by_streams(target_streams_.size(), 0.0F);
  gradients_->hyper_head(model_->hc_head, target_streams_.data(), n_targets, grad_x_.data(),
                         by_streams.data());
  zeros(grad_streams_, n_tokens_ * width);
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    std::copy_n(by_streams.begin() + static_cast<std::int64_t>(i) * width, width,
                grad_streams_.begin() + scores_[i].position * width);
  }
}

void RowGradients::layer_back(const ModelLayer& layer, const TextPack& pack,
                              std::span<const std::vector<float>> rows,
                              std::span<std::vector<float>> grad_rows) {
  const std::int64_t size = n_tokens_ * model_->config.hidden_size;
  write_back(layer.hc_ffn, feed_forward_);
  zeros(grad_normed_, size);
  if (layer.dense) {
    gradients_->feed_forward(*layer.dense, feed_forward_.normed.data(), n_tokens_, grad_y_.data(),
                             grad_normed_.data());
  } else {
    gradients_->mixture_of_experts(layer.mixture, feed_forward_.normed.data(), n_tokens_,
                                   grad_y_.data(), grad_normed_.data());
  }
  read_back(layer.hc_ffn, layer.post_attention_layernorm, feed_forward_);
  write_back(layer.hc_attn, attention_);
  attention_back(layer, pack);
  read_back(layer.hc_attn, layer.input_layernorm, attention_);
  if (!layer.engram) return;
  const auto index = static_cast<std::size_t>(layer.engram->index);
  zeros(grad_rows[index], static_cast<std::int64_t>(rows[index].size()));
  engram_back(layer, pack, grad_rows[index]);
}

void RowGradients::write_back(const kernels::HyperConnection& hc, const Sublayer& sublayer) {
  size_to(grad_y_, n_tokens_ * hc.hidden_size);
  size_to(grad_post_, n_tokens_ * hc.n_streams);
  size_to(grad_comb_, n_tokens_ * hc.n_streams * hc.n_streams);
  gradients_->hyper_write(hc, sublayer.streams.data(), sublayer.y.data(), sublayer.post.data(),
                          sublayer.comb.data(), n_tokens_, grad_streams_.data(), grad_y_.data(),
                          grad_post_.data(), grad_comb_.data());
}

void RowGradients::read_back(const kernels::HyperConnection& hc, const float* norm,
                             const Sublayer& sublayer) {
  gradients_->rms_norm(sublayer.x.data(), norm, eps_of(*model_), n_tokens_, hc.hidden_size,
                       grad_normed_.data(), zeros(grad_x_, n_tokens_ * hc.hidden_size));
  gradients_->hyper_read(hc, sublayer.streams.data(), n_tokens_, grad_x_.data(), grad_post_.data(),
                         grad_comb_.data(), grad_streams_.data());
}

void RowGradients::attention_back(const ModelLayer& layer, const TextPack& pack) {
  gradients_->linear(layer.o_proj, grad_y_.data(), n_tokens_,
                     zeros(grad_attended_, static_cast<std::int64_t>(attended_.size())));
  grad_query_.resize(query_.size());
  grad_latent_.resize(latent_.size());
  gradients_->latent_attention(layer.attention, unrotated_query_.data(), latent_.data(),
                               pack.starts, grad_attended_.data(), grad_query_.data(),
                               grad_latent_.data());
  zeros(grad_normed_, n_tokens_ * model_->config.hidden_size);
  gradients_->linear(layer.q_proj, grad_query_.data(), n_tokens_, grad_normed_.data());
  gradients_->linear(layer.kv_a_proj_with_mqa, grad_latent_.data(), n_tokens_, grad_normed_.data());
}

void RowGradients::engram_back(const ModelLayer& layer, const TextPack& pack,
                               std::vector<float>& grad_rows) {
  const EngramBlock& block = *layer.engram;
  grad_key_.resize(key_.size());
  grad_value_.resize(value_.size());
  gradients_->engram_update(block.gate, key_.data(), value_.data(), before_engram_.data(),
                            pack.starts, grad_streams_.data(), grad_key_.data(),
                            grad_value_.data());
  gradients_->linear(block.key_proj, grad_key_.data(), n_tokens_, grad_rows.data());
  gradients_->linear(block.value_proj, grad_value_.data(), n_tokens_, grad_rows.data());
}

}  // namespace engramd::engine
