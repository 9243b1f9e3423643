// The operations that look along a text, backwards: attention and the Engram update.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_gradients.h"
#include "kernels/cpu/cpu_split.h"
#include "kernels/cpu/scalar_gradients.h"
#include "kernels/cpu/scalar_math.h"
#include "kernels/cpu/stream_projection.h"

namespace engramd::kernels {

void CpuGradients::latent_attention(const LatentAttention& attention, const float* query,
                                    const float* latent, TextStarts texts, const float* grad_out,
                                    float* grad_query, float* grad_latent) {
  for (std::size_t i = 0; i + 1 < texts.size(); ++i) {
    const std::int64_t begin = texts[i];
    attend_text_back(attention, query + begin * attention.query_width(),
                     latent + begin * attention.latent_width(), texts[i + 1] - begin,
                     grad_out + begin * attention.output_width(),
                     grad_query + begin * attention.query_width(),
                     grad_latent + begin * attention.latent_width());
  }
}

void CpuGradients::attend_text_back(const LatentAttention& attention, const float* query,
                                    const float* latent, std::int64_t n_tokens,
                                    const float* grad_out, float* grad_query, float* grad_latent) {
  const int rank = attention.kv_lora_rank;
  const int rope = attention.qk_rope_head_dim;
  const Linear kv_b{attention.kv_b_proj, nullptr};
  grow(normed_, n_tokens * rank);
  grow(key_rope_, n_tokens * rope);
  grow(expanded_, n_tokens * kv_b.out_features());
  const float* rotary =
      rotary_.rows(rope, attention.rope_theta, static_cast<std::int32_t>(n_tokens - 1));
  std::vector<float> factors(static_cast<std::size_t>(n_tokens));
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* row = latent + t * attention.latent_width();
    float& factor = factors[static_cast<std::size_t>(t)];
    factor = inverse_rms(*vector_, row, rank, attention.rms_norm_eps);
    vector_->scale_by(row, factor, attention.kv_a_layernorm, rank, normed_.data() + t * rank);
    std::copy_n(row + rank, rope, key_rope_.data() + t * rope);
    rotate(key_rope_.data() + t * rope, rope, rotary + t * rope);
  }
  matmul(kv_b, normed_.data(), nullptr, n_tokens, expanded_.data());
  zeroed(grad_expanded_, n_tokens * kv_b.out_features());
  zeroed(grad_key_rope_, n_tokens * rope);
  for (int head = 0; head < attention.num_attention_heads; ++head) {
    attend_head_back(attention, head, n_tokens, query, rotary, grad_out, grad_query);
  }
  matmul_back(kv_b, grad_expanded_.data(), n_tokens, nullptr,
              zeroed(grad_normed_, n_tokens * rank));
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    float* grad = grad_latent + t * attention.latent_width();
    std::fill_n(grad, rank, 0.0F);
    norm_back(latent + t * attention.latent_width(), factors[static_cast<std::size_t>(t)],
              attention.kv_a_layernorm, rank, grad_normed_.data() + t * rank, grad);
    std::copy_n(grad_key_rope_.data() + t * rope, rope, grad + rank);
    turn_back(grad + rank, rope, rotary + t * rope);
  }
}

void CpuGradients::attend_head_back(const LatentAttention& attention, int head,
                                    std::int64_t n_tokens, const float* query, const float* rotary,
                                    const float* grad_out, float* grad_query) {
  const int nope = attention.qk_nope_head_dim;
  const int rope = attention.qk_rope_head_dim;
  const int width = nope + rope;
  const int v_dim = attention.v_head_dim;
  const std::int64_t row = std::int64_t{attention.num_attention_heads} * (nope + v_dim);
  const std::int64_t at = std::int64_t{head} * (nope + v_dim);  // in a row of expanded_
  const float scale = 1.0F / std::sqrt(static_cast<float>(width));
  grow(keys_, n_tokens * width);
  grow(queries_, width);
  grow(scores_, n_tokens);
  grow(grad_scores_, n_tokens);
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    std::copy_n(expanded_.data() + t * row + at, nope, keys_.data() + t * width);
    std::copy_n(key_rope_.data() + t * rope, rope, keys_.data() + t * width + nope);
  }
  float* grad_keys = zeroed(grad_keys_, n_tokens * width);
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* q = query + t * attention.query_width() + head * width;
    const float* grad_head = grad_out + t * attention.output_width() + head * v_dim;
    vector_->add_scaled(q, scale, width, zeroed(queries_, width));
    rotate(queries_.data() + nope, rope, rotary + t * rope);
    for (std::int64_t s = 0; s <= t; ++s) {
      scores_[static_cast<std::size_t>(s)] =
          vector_->dot(queries_.data(), keys_.data() + s * width, width);
      grad_scores_[static_cast<std::size_t>(s)] =
          vector_->dot(grad_head, expanded_.data() + s * row + at + nope, v_dim);
    }
    const float largest = *std::max_element(scores_.begin(), scores_.begin() + t + 1);
    const float sum = vector_->exponentials(scores_.data(), largest, t + 1);
    const float along = vector_->dot(scores_.data(), grad_scores_.data(), t + 1) / sum;
    float* grad_q = grad_query + t * attention.query_width() + head * width;
    std::fill_n(grad_q, width, 0.0F);
    for (std::int64_t s = 0; s <= t; ++s) {
      const float p = scores_[static_cast<std::size_t>(s)] / sum;
      const float grad_score = p * (grad_scores_[static_cast<std::size_t>(s)] - along);
      vector_->add_scaled(grad_head, p, v_dim, grad_expanded_.data() + s * row + at + nope);
      vector_->add_scaled(keys_.data() + s * width, grad_score * scale, width, grad_q);
      vector_->add_scaled(queries_.data(), grad_score, width, grad_keys + s * width);
    }
    turn_back(grad_q + nope, rope, rotary + t * rope);
  }
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    std::copy_n(grad_keys + t * width, nope, grad_expanded_.data() + t * row + at);
    vector_->add(grad_keys + t * width + nope, rope, grad_key_rope_.data() + t * rope);
  }
}

struct CpuGradients::GatedStream {
  std::vector<float> update;       // [n_tokens, D] gate * value
  std::vector<float> normed;       // [n_tokens, D] what the convolution sees
  std::vector<float> grad_update;  // [n_tokens, D] first by the streams after, then by `update`
  std::vector<double> gate, dot;   // [n_tokens]
  std::vector<float> key_factor, query_factor, update_factor;
};

void CpuGradients::gate_stream(const EngramGate& gate, int stream, const float* key,
                               const float* value, const float* streams, std::int64_t n_tokens,
                               const float* grad_streams, GatedStream& s) const {
  const std::int64_t width = gate.hidden_size;
  const float* key_norm = gate.key_norm + stream * width;
  const float* query_norm = gate.query_norm + stream * width;
  s.update.assign(static_cast<std::size_t>(n_tokens * width), 0.0F);
  s.normed.resize(s.update.size());
  s.grad_update.resize(s.update.size());
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const std::int64_t at = (t * gate.n_streams + stream) * width;
    s.key_factor.push_back(inverse_rms(*vector_, key + at, width, gate.rms_norm_eps));
    s.query_factor.push_back(inverse_rms(*vector_, streams + at, width, gate.rms_norm_eps));
    const double dot =
        double{vector_->dot_weighted(key + at, key_norm, streams + at, query_norm, width)} *
        s.key_factor.back() * s.query_factor.back() / std::sqrt(static_cast<double>(width));
    s.dot.push_back(dot);
    s.gate.push_back(engram_gate(dot, gate.signed_zero));
    float* update = s.update.data() + t * width;
    vector_->add_scaled(value + t * width, static_cast<float>(s.gate.back()), width, update);
    s.update_factor.push_back(inverse_rms(*vector_, update, width, gate.conv_norm_eps));
    std::copy_n(grad_streams + at, width, s.grad_update.data() + t * width);
    if (gate.conv == nullptr) continue;
    vector_->scale_by(update, s.update_factor.back(), gate.conv_norm + stream * width, width,
                      s.normed.data() + t * width);
  }
}

void CpuGradients::convolution_back(const EngramGate& gate, int stream, GatedStream& s) {
  const std::int64_t width = gate.hidden_size;
  const int n_taps = gate.kernel_size;
  const auto n_tokens = static_cast<std::int64_t>(s.gate.size());
  const float* taps = gate.conv + stream * width * n_taps;  // [D, kernel_size], last: now
  std::vector<float> grad_normed(s.normed.size(), 0.0F);
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    for (std::int64_t c = 0; c < width; ++c) {
      float y = 0;
      for (int tap = 0; tap < n_taps && t >= tap * gate.dilation; ++tap) {
        y += taps[c * n_taps + n_taps - 1 - tap] *
             s.normed[static_cast<std::size_t>((t - tap * gate.dilation) * width + c)];
      }
      const float sigmoid = 1.0F / (1.0F + std::exp(-y));
      const float grad_y = s.grad_update[static_cast<std::size_t>(t * width + c)] * sigmoid *
                           (1.0F + y * (1.0F - sigmoid));
      for (int tap = 0; tap < n_taps && t >= tap * gate.dilation; ++tap) {
        grad_normed[static_cast<std::size_t>((t - tap * gate.dilation) * width + c)] +=
            taps[c * n_taps + n_taps - 1 - tap] * grad_y;
      }
    }
  }
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    norm_back(s.update.data() + t * width, s.update_factor[static_cast<std::size_t>(t)],
              gate.conv_norm + stream * width, width, grad_normed.data() + t * width,
              s.grad_update.data() + t * width);
  }
}

void CpuGradients::engram_update(const EngramGate& gate, const float* key, const float* value,
                                 const float* streams, TextStarts texts, float* grad_streams,
                                 float* grad_key, float* grad_value) {
  ENGRAMD_ASSERT(!gate.one_hidden_state);
  const std::int64_t n = gate.n_streams;
  const std::int64_t width = gate.hidden_size;
  std::fill_n(grad_value, texts.back() * width, 0.0F);
  std::vector<float> both(static_cast<std::size_t>(width));  // key_norm * query_norm
  for (std::size_t i = 0; i + 1 < texts.size(); ++i) {
    const std::int64_t begin = texts[i];
    for (int stream = 0; stream < n; ++stream) {
      GatedStream s;
      gate_stream(gate, stream, key + begin * n * width, value + begin * width,
                  streams + begin * n * width, texts[i + 1] - begin,
                  grad_streams + begin * n * width, s);
      if (gate.conv != nullptr) convolution_back(gate, stream, s);
      vector_->scale_by(gate.key_norm + stream * width, 1.0F, gate.query_norm + stream * width,
                        width, both.data());
      for (std::int64_t t = begin; t < texts[i + 1]; ++t) {
        const auto row = static_cast<std::size_t>(t - begin);
        const std::int64_t at = (t * n + stream) * width;
        const float* grad_update = s.grad_update.data() + (t - begin) * width;
        vector_->add_scaled(grad_update, static_cast<float>(s.gate[row]), width,
                            grad_value + t * width);
        const double grad_dot = vector_->dot(grad_update, value + t * width, width) *
                                engram_gate_gradient(s.dot[row], s.gate[row]);
        const double along = grad_dot * s.dot[row] / static_cast<double>(width);
        const double kf = s.key_factor[row];
        const double qf = s.query_factor[row];
        const auto cross =
            static_cast<float>(grad_dot * kf * qf / std::sqrt(static_cast<double>(width)));
        vector_->scale_by(streams + at, cross, both.data(), width, grad_key + at);
        vector_->add_scaled(key + at, static_cast<float>(-along * kf * kf), width, grad_key + at);
        grow(norm_scratch_, width);
        vector_->scale_by(key + at, cross, both.data(), width, norm_scratch_.data());
        vector_->add(norm_scratch_.data(), width, grad_streams + at);
        vector_->add_scaled(streams + at, static_cast<float>(-along * qf * qf), width,
                            grad_streams + at);
      }
    }
  }
}

}  // namespace engramd::kernels
