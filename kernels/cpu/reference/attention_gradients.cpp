// Multi-head latent attention, backwards, expanded: keys and values per head, whole score matrices.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/reference/reference_backend.h"
#include "kernels/cpu/reference/reference_gradients.h"
#include "kernels/cpu/scalar_math.h"
#include "kernels/number_formats.h"

namespace engramd::kernels {

namespace {

using Row = std::vector<double>;

// One text: what its tokens put into the cache, and the gradient by that.
struct TextAttention {
  std::vector<std::vector<float>> normed;  // [n_tokens][kv_lora_rank]
  std::vector<Row> key_rope;               // [n_tokens][qk_rope], rotated; shared by the heads
  std::vector<Row> grad_normed, grad_key_rope;
};

// Rotation by the negative angle undoes a rotation; its transpose is the same.
Row rotated(const double* x, int width, std::int64_t position, double theta) {
  Row out(x, x + width);
  for (int i = 0; i < width; i += 2) {
    const double angle =
        static_cast<double>(position) * std::pow(theta, -static_cast<double>(i) / width);
    const auto at = static_cast<std::size_t>(i);
    out[at] = x[i] * std::cos(angle) - x[i + 1] * std::sin(angle);
    out[at + 1] = x[i] * std::sin(angle) + x[i + 1] * std::cos(angle);
  }
  return out;
}

Row widened(const float* x, int n) {
  return {x, x + n};
}

double inner(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled_row(const Row& x, double factor, Row& out) {
  for (std::size_t i = 0; i < x.size(); ++i) out[i] += factor * x[i];
}

double kv_weight(const LatentAttention& attention, int head, int row, int i) {
  const int rows = attention.qk_nope_head_dim + attention.v_head_dim;
  const std::int64_t at = (std::int64_t{head} * rows + row) * attention.kv_lora_rank + i;
  return decode_bf16(attention.kv_b_proj.as<std::uint16_t>()[at]);
}

// Rows [begin, begin + n) of the head's projection of one normed latent.
Row expanded(const LatentAttention& attention, int head, int begin, int n,
             const std::vector<float>& normed) {
  Row out(static_cast<std::size_t>(n), 0.0);
  for (int row = 0; row < n; ++row) {
    for (int i = 0; i < attention.kv_lora_rank; ++i) {
      out[static_cast<std::size_t>(row)] +=
          kv_weight(attention, head, begin + row, i) * normed[static_cast<std::size_t>(i)];
    }
  }
  return out;
}

void expand_back(const LatentAttention& attention, int head, int begin, const Row& grad,
                 Row& grad_normed) {
  for (std::size_t row = 0; row < grad.size(); ++row) {
    for (int i = 0; i < attention.kv_lora_rank; ++i) {
      grad_normed[static_cast<std::size_t>(i)] +=
          kv_weight(attention, head, begin + static_cast<int>(row), i) * grad[row];
    }
  }
}

// One head of one text. query, grad_out, grad_query: of the text's first token, all heads.
void head_back(const LatentAttention& attention, int head, const float* query,
               const float* grad_out, TextAttention& text, float* grad_query) {
  const int nope = attention.qk_nope_head_dim;
  const int rope = attention.qk_rope_head_dim;
  const int v_dim = attention.v_head_dim;
  const double scale = 1.0 / std::sqrt(static_cast<double>(nope + rope));
  const std::size_t n = text.normed.size();
  std::vector<Row> key(n);
  std::vector<Row> value(n);
  std::vector<Row> grad_key(n, Row(static_cast<std::size_t>(nope), 0.0));
  std::vector<Row> grad_value(n, Row(static_cast<std::size_t>(v_dim), 0.0));
  for (std::size_t t = 0; t < n; ++t) {
    key[t] = expanded(attention, head, 0, nope, text.normed[t]);
    value[t] = expanded(attention, head, nope, v_dim, text.normed[t]);
  }
  for (std::size_t t = 0; t < n; ++t) {
    const std::size_t at = t * static_cast<std::size_t>(attention.query_width()) +
                           static_cast<std::size_t>(head * (nope + rope));
    const Row q_nope = widened(query + at, nope);
    const Row q_rope = rotated(widened(query + at + nope, rope).data(), rope,
                               static_cast<std::int64_t>(t), attention.rope_theta);
    const Row grad_head =
        widened(grad_out + t * static_cast<std::size_t>(attention.output_width()) +
                    static_cast<std::size_t>(head * v_dim),
                v_dim);
    Row p(t + 1);
    for (std::size_t s = 0; s <= t; ++s) {
      p[s] = (inner(q_nope, key[s]) + inner(q_rope, text.key_rope[s])) * scale;
    }
    const double largest = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& w : p) sum += w = std::exp(w - largest);
    for (double& w : p) w /= sum;
    Row grad_p(t + 1);
    for (std::size_t s = 0; s <= t; ++s) grad_p[s] = inner(grad_head, value[s]);
    const double along = inner(grad_p, p);
    Row grad_nope(q_nope.size(), 0.0);
    Row grad_rope(q_rope.size(), 0.0);
    for (std::size_t s = 0; s <= t; ++s) {
      add_scaled_row(grad_head, p[s], grad_value[s]);
      const double grad_score = p[s] * (grad_p[s] - along) * scale;
      add_scaled_row(key[s], grad_score, grad_nope);
      add_scaled_row(text.key_rope[s], grad_score, grad_rope);
      add_scaled_row(q_nope, grad_score, grad_key[s]);
      add_scaled_row(q_rope, grad_score, text.grad_key_rope[s]);
    }
    grad_rope =
        rotated(grad_rope.data(), rope, -static_cast<std::int64_t>(t), attention.rope_theta);
    std::copy(grad_nope.begin(), grad_nope.end(), grad_query + at);
    std::copy(grad_rope.begin(), grad_rope.end(), grad_query + at + nope);
  }
  for (std::size_t t = 0; t < n; ++t) {
    expand_back(attention, head, 0, grad_key[t], text.grad_normed[t]);
    expand_back(attention, head, nope, grad_value[t], text.grad_normed[t]);
  }
}

}  // namespace

void ReferenceGradients::latent_attention(const LatentAttention& attention, const float* query,
                                          const float* latent, TextStarts texts,
                                          const float* grad_out, float* grad_query,
                                          float* grad_latent) {
  const int rank = attention.kv_lora_rank;
  const int rope = attention.qk_rope_head_dim;
  for (std::size_t i = 0; i + 1 < texts.size(); ++i) {
    TextAttention text;
    for (std::int64_t t = texts[i]; t < texts[i + 1]; ++t) {
      const float* row = latent + t * attention.latent_width();
      auto& normed = text.normed.emplace_back(static_cast<std::size_t>(rank));
      ReferenceBackend().rms_norm(row, attention.kv_a_layernorm, attention.rms_norm_eps, 1, rank,
                                  normed.data());
      text.key_rope.push_back(
          rotated(widened(row + rank, rope).data(), rope, t - texts[i], attention.rope_theta));
    }
    text.grad_normed.assign(text.normed.size(), Row(static_cast<std::size_t>(rank), 0.0));
    text.grad_key_rope.assign(text.normed.size(), Row(static_cast<std::size_t>(rope), 0.0));
    for (int head = 0; head < attention.num_attention_heads; ++head) {
      head_back(attention, head, query + texts[i] * attention.query_width(),
                grad_out + texts[i] * attention.output_width(), text,
                grad_query + texts[i] * attention.query_width());
    }
    for (std::size_t t = 0; t < text.normed.size(); ++t) {
      const std::int64_t at = (texts[i] + static_cast<std::int64_t>(t)) * attention.latent_width();
      const std::vector<float> grad_normed(text.grad_normed[t].begin(), text.grad_normed[t].end());
      std::fill_n(grad_latent + at, rank, 0.0F);
      rms_norm(latent + at, attention.kv_a_layernorm, attention.rms_norm_eps, 1, rank,
               grad_normed.data(), grad_latent + at);
      const Row grad_rope = rotated(text.grad_key_rope[t].data(), rope,
                                    -static_cast<std::int64_t>(t), attention.rope_theta);
      std::copy(grad_rope.begin(), grad_rope.end(), grad_latent + at + rank);
    }
  }
}

}  // namespace engramd::kernels
