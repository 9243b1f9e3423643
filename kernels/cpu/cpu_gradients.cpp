// Normalisation, linear products, hyper-connections, feed-forward, experts and the loss, backwards.
#include "kernels/cpu/cpu_gradients.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_split.h"
#include "kernels/cpu/scalar_gradients.h"
#include "kernels/cpu/scalar_math.h"
#include "kernels/cpu/stream_projection.h"

namespace engramd::kernels {

std::unique_ptr<Gradients> make_cpu_gradients(const std::string& instruction_set) {
  const VectorKernels* vector = find_vector_kernels(instruction_set.c_str());
  if (vector == nullptr) return nullptr;
  return std::make_unique<CpuGradients>(*vector);
}

float* CpuGradients::zeroed(std::vector<float>& scratch, std::int64_t size) {
  grow(scratch, size);
  std::fill_n(scratch.begin(), size, 0.0F);
  return scratch.data();
}

void CpuGradients::matmul(const Linear& linear, const float* x, const std::int32_t* x_rows,
                          std::int64_t n_tokens, float* out) const {
  MatmulRows rows;
  rows.weight = linear.weight.data;
  rows.in_features = linear.in_features();
  rows.row_end = linear.out_features();
  rows.bias = linear.bias;
  rows.x = x;
  rows.x_rows = x_rows;
  rows.n_tokens = n_tokens;
  rows.out = out;
  rows.out_stride = linear.out_features();
  (linear.weight.dtype == DType::kF32 ? vector_->matmul_f32 : vector_->matmul_bf16)(rows);
}

void CpuGradients::matmul_back(const Linear& linear, const float* grad, std::int64_t n_tokens,
                               const std::int32_t* out_rows, float* out) const {
  MatmulBack back;
  back.weight = linear.weight.data;
  back.out_features = linear.out_features();
  back.in_features = linear.in_features();
  back.grad = grad;
  back.n_tokens = n_tokens;
  back.out_rows = out_rows;
  back.out = out;
  (linear.weight.dtype == DType::kF32 ? vector_->matmul_back_f32 : vector_->matmul_back_bf16)(back);
}

// factor: 1 / sqrt(mean(x^2) + eps).
void CpuGradients::norm_back(const float* x, float factor, const float* weight, std::int64_t width,
                             const float* grad_out, float* grad_x) {
  grow(norm_scratch_, width);
  vector_->scale_by(grad_out, factor, weight, width, norm_scratch_.data());
  const float along = vector_->dot(norm_scratch_.data(), x, width);
  vector_->add(norm_scratch_.data(), width, grad_x);
  vector_->add_scaled(x, -along * factor * factor / static_cast<float>(width), width, grad_x);
}

void CpuGradients::rms_norm(const float* x, const float* weight, float eps, std::int64_t n_rows,
                            std::int64_t width, const float* grad_out, float* grad_x) {
  for (std::int64_t row = 0; row < n_rows; ++row) {
    const float* in = x + row * width;
    const float factor = inverse_rms(*vector_, in, width, eps);
    norm_back(in, factor, weight, width, grad_out + row * width, grad_x + row * width);
  }
}

void CpuGradients::linear(const Linear& linear, const float* grad_out, std::int64_t n_tokens,
                          float* grad_x) {
  matmul_back(linear, grad_out, n_tokens, nullptr, grad_x);
}

void CpuGradients::project_streams_back(const HyperConnection& hc, const float* h, float factor,
                                        int n_rows, const double* mix, const double* grad_mix,
                                        float* grad_h) const {
  const std::int64_t width = std::int64_t{hc.n_streams} * hc.hidden_size;
  double along = 0;
  for (int row = 0; row < n_rows; ++row) {
    along += grad_mix[row] * mix[row];
    vector_->add_scaled(hc.fn + row * width, static_cast<float>(grad_mix[row]) * factor, width,
                        grad_h);
  }
  vector_->add_scaled(h, static_cast<float>(-along * factor * factor / static_cast<double>(width)),
                      width, grad_h);
}

void CpuGradients::hyper_read(const HyperConnection& hc, const float* streams,
                              std::int64_t n_tokens, const float* grad_x, const float* grad_post,
                              const float* grad_comb, float* grad_streams) {
  const int n = hc.n_streams;
  const int n_rows = (2 + n) * n;
  const std::int64_t width = hc.hidden_size;
  double mix[kHyperRowsMax], grad_mix[kHyperRowsMax];
  float pre[kStreamsMax], post[kStreamsMax], comb[kStreamsMax * kStreamsMax];
  double by_pre[kStreamsMax], by_post[kStreamsMax], by_comb[kStreamsMax * kStreamsMax];
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* h = streams + t * n * width;
    float* grad_h = grad_streams + t * n * width;
    const float factor = project_streams(*vector_, hc, h, n_rows, mix);
    hyper_coefficients(hc, mix, pre, post, comb);
    for (int s = 0; s < n; ++s) {
      by_pre[s] = vector_->dot(grad_x + t * width, h + s * width, width);
      vector_->add_scaled(grad_x + t * width, pre[s], width, grad_h + s * width);
    }
    std::copy_n(grad_post + t * n, n, by_post);
    std::copy_n(grad_comb + t * n * n, n * n, by_comb);
    hyper_coefficients_gradient(hc, mix, by_pre, by_post, by_comb, grad_mix);
    project_streams_back(hc, h, factor, n_rows, mix, grad_mix, grad_h);
  }
}

void CpuGradients::hyper_write(const HyperConnection& hc, const float* streams, const float* y,
                               const float* post, const float* comb, std::int64_t n_tokens,
                               float* grad_streams, float* grad_y, float* grad_post,
                               float* grad_comb) {
  const int n = hc.n_streams;
  const std::int64_t width = hc.hidden_size;
  float transposed[kStreamsMax * kStreamsMax];
  grow(norm_scratch_, n * width);
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* h = streams + t * n * width;
    float* grad_h = grad_streams + t * n * width;
    for (int dst = 0; dst < n; ++dst) {
      const float* grad = grad_h + dst * width;
      grad_post[t * n + dst] = vector_->dot(grad, y + t * width, width);
      for (int src = 0; src < n; ++src) {
        grad_comb[(t * n + dst) * n + src] = vector_->dot(grad, h + src * width, width);
        transposed[src * n + dst] = comb[(t * n + dst) * n + src];
      }
    }
    vector_->weighted_sum(grad_h, post + t * n, n, width, grad_y + t * width);
    for (int src = 0; src < n; ++src) {
      vector_->weighted_sum(grad_h, transposed + src * n, n, width,
                            norm_scratch_.data() + src * width);
    }
    std::copy_n(norm_scratch_.begin(), n * width, grad_h);
  }
}

void CpuGradients::hyper_head(const HyperConnection& hc, const float* streams,
                              std::int64_t n_tokens, const float* grad_x, float* grad_streams) {
  const int n = hc.n_streams;
  const std::int64_t width = hc.hidden_size;
  double mix[kHyperRowsMax], grad_mix[kHyperRowsMax];
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* h = streams + t * n * width;
    float* grad_h = grad_streams + t * n * width;
    const float factor = project_streams(*vector_, hc, h, n, mix);
    for (int s = 0; s < n; ++s) {
      const double sigmoid = 1.0 / (1.0 + std::exp(-(mix[s] * hc.scale[0] + hc.base[s])));
      const float weight = static_cast<float>(sigmoid + hc.hc_eps);
      grad_mix[s] = vector_->dot(grad_x + t * width, h + s * width, width) * sigmoid *
                    (1 - sigmoid) * hc.scale[0];
      vector_->add_scaled(grad_x + t * width, weight, width, grad_h + s * width);
    }
    project_streams_back(hc, h, factor, n, mix, grad_mix, grad_h);
  }
}

void CpuGradients::expert_back(const FeedForward& weights, const float* x, const float* grad_out,
                               const Share& share, float* grad_x, float* by_factor) {
  const auto n = static_cast<std::int64_t>(share.tokens.size());
  if (n == 0) return;
  const std::int64_t width = weights.gate_proj.out_features();
  const std::int64_t hidden_size = weights.down_proj.out_features();
  grow(hidden_, n * width);
  grow(up_, n * width);
  grow(picked_, n * hidden_size);
  matmul(weights.gate_proj, x, share.tokens.data(), n, hidden_.data());
  matmul(weights.up_proj, x, share.tokens.data(), n, up_.data());
  for (std::int64_t i = 0; i < n; ++i) {
    std::copy_n(grad_out + share.tokens[static_cast<std::size_t>(i)] * hidden_size, hidden_size,
                picked_.data() + i * hidden_size);
  }
  float* grad_hidden = zeroed(grad_hidden_, n * width);
  matmul_back(weights.down_proj, picked_.data(), n, nullptr, grad_hidden);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const float by = vector_->silu_multiply_back(hidden_.data() + i * width, up_.data() + i * width,
                                                 grad_hidden + i * width, share.factors[at], width);
    if (by_factor != nullptr) by_factor[share.cells[at]] = by;
  }
  matmul_back(weights.gate_proj, hidden_.data(), n, share.tokens.data(), grad_x);
  matmul_back(weights.up_proj, up_.data(), n, share.tokens.data(), grad_x);
}

void CpuGradients::feed_forward(const FeedForward& weights, const float* x, std::int64_t n_tokens,
                                const float* grad_out, float* grad_x) {
  Share all;
  for (std::int32_t t = 0; t < n_tokens; ++t) all.tokens.push_back(t);
  all.factors.assign(all.tokens.size(), 1.0F);
  expert_back(weights, x, grad_out, all, grad_x, nullptr);
}

void CpuGradients::mixture_of_experts(const MixtureOfExperts& weights, const float* x,
                                      std::int64_t n_tokens, const float* grad_out, float* grad_x) {
  const auto n_experts = static_cast<std::int64_t>(weights.experts.size());
  const int k = weights.num_experts_per_tok;
  const std::int64_t width = weights.gate.in_features();
  grow(hidden_, n_tokens * n_experts);
  matmul(weights.gate, x, nullptr, n_tokens, hidden_.data());
  logits_.assign(hidden_.begin(), hidden_.begin() + n_tokens * n_experts);
  chosen_.resize(static_cast<std::size_t>(n_tokens * k));
  grow(by_factor_, n_tokens * k);
  shares_.assign(weights.experts.size(), {});
  float factors[kExpertsMax];
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    std::int32_t* chosen = chosen_.data() + t * k;
    route(weights, logits_.data() + t * n_experts, chosen, factors);
    for (int slot = 0; slot < k; ++slot) {
      Share& share = shares_[static_cast<std::size_t>(chosen[slot])];
      share.tokens.push_back(static_cast<std::int32_t>(t));
      share.cells.push_back(static_cast<std::int32_t>(t * k + slot));
      share.factors.push_back(factors[slot]);
    }
  }
  if (weights.shared != nullptr) feed_forward(*weights.shared, x, n_tokens, grad_out, grad_x);
  for (std::size_t e = 0; e < shares_.size(); ++e) {
    expert_back(weights.experts[e], x, grad_out, shares_[e], grad_x, by_factor_.data());
  }
  double grad_weights[kExpertsMax], grad_logits[kExpertsMax];
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    std::copy_n(by_factor_.data() + t * k, k, grad_weights);
    route_gradient(weights, logits_.data() + t * n_experts, chosen_.data() + t * k, grad_weights,
                   grad_logits);
    for (int slot = 0; slot < k; ++slot) {
      vector_->add_scaled(
          weights.gate.weight.as<float>() + chosen_[static_cast<std::size_t>(t * k + slot)] * width,
          static_cast<float>(grad_logits[slot]), width, grad_x + t * width);
    }
  }
}

void CpuGradients::cross_entropy(float* logits, std::int64_t n_rows, std::int64_t vocab_size,
                                 const std::int32_t* targets, const float* weights, float* losses) {
  for (std::int64_t row = 0; row < n_rows; ++row, logits += vocab_size) {
    const float largest = *std::max_element(logits, logits + vocab_size);
    const float target = logits[targets[row]];
    // Without the target: its gradient is minus the others' share, which "probability - 1" would
    // lose where the probability is nearly 1.
    logits[targets[row]] = -INFINITY;
    const float others = vector_->exponentials(logits, largest, vocab_size);
    const float sum = others + std::exp(target - largest);
    losses[row] = target == largest ? std::log1p(others) : std::log(sum) + largest - target;
    const float factor = weights[row] / sum;
    for (std::int64_t i = 0; i < vocab_size; ++i) logits[i] *= factor;
    logits[targets[row]] = -others * factor;
  }
}

}  // namespace engramd::kernels
