#include "engine/model/forward.h"

#include <algorithm>
#include <utility>

#include "kernels/device_error.h"

namespace engramd::engine {

Forward::Forward(const Model& model, kernels::Backend& backend)
    : model_(&model), backend_(&backend) {}

void Forward::reserve(std::int64_t n_tokens, std::int64_t n_logits) {
  const ModelConfig& c = model_->config;
  const std::int64_t n = c.hc_mult;
  const kernels::LatentAttention& attention = model_->layers.front().attention;
  streams_.grow(n_tokens * n * c.hidden_size);
  for (auto* buffer : {&x_, &normed_, &y_}) buffer->grow(n_tokens * c.hidden_size);
  post_.grow(n_tokens * n);
  comb_.grow(n_tokens * n * n);
  query_.grow(n_tokens * attention.query_width());
  latent_.grow(n_tokens * attention.latent_width());
  attended_.grow(n_tokens * attention.output_width());
  logits_.grow(n_logits * c.vocab_size);
  if (model_->layout.layers.empty()) return;
  rows_.grow(n_tokens * model_->layout.columns_width());
  key_.grow(n_tokens * n * c.hidden_size);
  value_.grow(n_tokens * c.hidden_size);
}

std::int64_t Forward::activation_bytes() const {
  std::int64_t n = 0;
  for (const auto* buffer : {&streams_, &x_, &normed_, &y_, &post_, &comb_, &query_, &latent_,
                             &attended_, &rows_, &key_, &value_, &logits_}) {
    n += buffer->capacity();
  }
  return n * static_cast<std::int64_t>(sizeof(float));
}

// The one place where a device's failure becomes an error.
Result<std::span<const float>> Forward::run(const ForwardBatch& batch, std::stop_token stop,
                                            ForwardTrace* trace) {
  try {
    return compute(batch, std::move(stop), trace);
  } catch (const kernels::DeviceError& error) {
    return unavailable(error.what());
  }
}

Result<std::span<const float>> Forward::compute(const ForwardBatch& batch, std::stop_token stop,
                                                ForwardTrace* trace) {
  const auto n_tokens = static_cast<std::int64_t>(batch.tokens.size());
  ENGRAMD_ASSERT(batch.slots.size() == batch.tokens.size());
  reserve(n_tokens, static_cast<std::int64_t>(batch.logits_of.size()));
  if (trace != nullptr) trace->engram.resize(model_->layout.layers.size());
  backend_->embed(model_->embed_tokens, batch.tokens, model_->config.hc_mult, streams_.data());
  for (std::size_t i = 0; i < model_->layers.size(); ++i) {
    if (stop.stop_requested()) return std::span<const float>();
    const ModelLayer& layer = model_->layers[i];
    if (layer.engram) {
      if (const auto done = engram(layer, batch, trace); !done) return done.error();
    }
    attention(layer, batch, i);
    feed_forward(layer, batch, i, trace);
    if (trace != nullptr && trace->want_hidden) {
      const std::int64_t size = n_tokens * model_->config.hc_mult * model_->config.hidden_size;
      trace->hidden.push_back(streams_.copy(size));
    }
  }
  if (trace != nullptr && trace->want_final) {
    final_norm(n_tokens);
    trace->final_hidden = normed_.copy(n_tokens * model_->config.hidden_size);
  }
  return logits(batch);
}

Result<void> Forward::engram(const ModelLayer& layer, const ForwardBatch& batch,
                             ForwardTrace* trace) {
  const bool any = std::any_of(batch.engram_enabled.begin(), batch.engram_enabled.end(),
                               [](std::uint8_t on) { return on != 0; });
  if (!any && trace == nullptr) return {};
  const EngramBlock& block = *layer.engram;
  const auto n_tokens = static_cast<std::int64_t>(batch.tokens.size());
  const auto index = static_cast<std::size_t>(block.index);
  const auto rows = batch.engram_rows->wait(block.index);
  if (!rows) return rows.error();
  backend_->engram_gather(batch.engram_rows->format(block.index), rows->data(), n_tokens,
                          model_->layout.n_columns(), rows_.data());
  // To what engram.lookup_dtype names. The bundled codec's values are exact in all three.
  if (const kernels::DType dtype = batch.engram_rows->row_dtype(); dtype != kernels::DType::kF32) {
    backend_->round_values(dtype, n_tokens * model_->layout.columns_width(), rows_.data());
  }
  const kernels::LinearTask tasks[] = {{&block.key_proj, key_.data()},
                                       {&block.value_proj, value_.data()}};
  backend_->linear(rows_.data(), n_tokens, tasks);
  kernels::EngramGateTrace gate_trace;
  if (trace != nullptr) {
    ForwardTrace::Engram& seen = trace->engram[index];
    const std::size_t cells = batch.tokens.size() * static_cast<std::size_t>(block.gate.n_streams);
    for (auto* values : {&seen.gate, &seen.dot, &seen.residual_share}) values->resize(cells);
    seen.value_norm.resize(batch.tokens.size());
    gate_trace = {seen.gate.data(), seen.dot.data(), seen.value_norm.data(),
                  seen.residual_share.data()};
  }
  backend_->engram_update(block.gate, key_.data(), value_.data(), batch.slots,
                          batch.conv_histories[index], batch.engram_enabled.data(), streams_.data(),
                          gate_trace);
  return {};
}

void Forward::attention(const ModelLayer& layer, const ForwardBatch& batch,
                        std::size_t layer_index) {
  const ModelConfig& c = model_->config;
  const auto n_tokens = static_cast<std::int64_t>(batch.tokens.size());
  backend_->hyper_read(layer.hc_attn, streams_.data(), n_tokens, x_.data(), post_.data(),
                       comb_.data());
  backend_->rms_norm(x_.data(), layer.input_layernorm, static_cast<float>(c.rms_norm_eps), n_tokens,
                     c.hidden_size, normed_.data());
  const kernels::LinearTask inputs[] = {{&layer.q_proj, query_.data()},
                                        {&layer.kv_a_proj_with_mqa, latent_.data()}};
  backend_->linear(normed_.data(), n_tokens, inputs);
  backend_->latent_attention(layer.attention, query_.data(), latent_.data(), batch.slots,
                             batch.latent_caches[layer_index], attended_.data());
  const kernels::LinearTask output[] = {{&layer.o_proj, y_.data()}};
  backend_->linear(attended_.data(), n_tokens, output);
  backend_->hyper_write(layer.hc_attn, y_.data(), post_.data(), comb_.data(), n_tokens,
                        streams_.data());
}

void Forward::feed_forward(const ModelLayer& layer, const ForwardBatch& batch,
                           std::size_t layer_index, ForwardTrace* trace) {
  const ModelConfig& c = model_->config;
  const auto n_tokens = static_cast<std::int64_t>(batch.tokens.size());
  backend_->hyper_read(layer.hc_ffn, streams_.data(), n_tokens, x_.data(), post_.data(),
                       comb_.data());
  backend_->rms_norm(x_.data(), layer.post_attention_layernorm, static_cast<float>(c.rms_norm_eps),
                     n_tokens, c.hidden_size, normed_.data());
  if (layer.dense) {
    backend_->feed_forward(*layer.dense, normed_.data(), n_tokens, y_.data());
  } else {
    std::int32_t* chosen = nullptr;
    if (trace != nullptr && trace->want_experts) {
      trace->experts.resize(model_->layers.size());
      auto& experts = trace->experts[layer_index];
      experts.resize(batch.tokens.size() * static_cast<std::size_t>(c.num_experts_per_tok));
      chosen = experts.data();
    }
    backend_->mixture_of_experts(layer.mixture, normed_.data(), n_tokens, y_.data(), chosen);
  }
  backend_->hyper_write(layer.hc_ffn, y_.data(), post_.data(), comb_.data(), n_tokens,
                        streams_.data());
}

void Forward::final_norm(std::int64_t n_tokens) {
  const ModelConfig& c = model_->config;
  backend_->hyper_head(model_->hc_head, streams_.data(), n_tokens, x_.data());
  backend_->rms_norm(x_.data(), model_->norm, static_cast<float>(c.rms_norm_eps), n_tokens,
                     c.hidden_size, normed_.data());
}

std::span<const float> Forward::logits(const ForwardBatch& batch) {
  const ModelConfig& c = model_->config;
  const auto n_logits = static_cast<std::int64_t>(batch.logits_of.size());
  const std::int64_t width = std::int64_t{c.hc_mult} * c.hidden_size;
  backend_->gather_rows(streams_.data(), batch.logits_of, width, streams_.data());
  final_norm(n_logits);
  const kernels::LinearTask output[] = {{&model_->head, logits_.data()}};
  backend_->linear(normed_.data(), n_logits, output);
  return logits_.view(n_logits * c.vocab_size);
}

}  // namespace engramd::engine
