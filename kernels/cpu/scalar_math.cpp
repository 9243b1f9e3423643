#include "kernels/cpu/scalar_math.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/limits.h"
#include "kernels/number_formats.h"

namespace engramd::kernels {

namespace {

void normalize_columns(double (*c)[kStreamsMax], int n, double eps) {
  for (int src = 0; src < n; ++src) {
    double sum = eps;
    for (int dst = 0; dst < n; ++dst) sum += c[dst][src];
    for (int dst = 0; dst < n; ++dst) c[dst][src] /= sum;
  }
}

void normalize_rows(double (*c)[kStreamsMax], int n, double eps) {
  for (int dst = 0; dst < n; ++dst) {
    double sum = eps;
    for (int src = 0; src < n; ++src) sum += c[dst][src];
    for (int src = 0; src < n; ++src) c[dst][src] /= sum;
  }
}

}  // namespace

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

double engram_gate(double dot, bool signed_zero) {
  if (dot == 0 && !signed_zero) return 0.5;
  return sigmoid(std::copysign(std::sqrt(std::max(std::fabs(dot), kGateRootFloor)), dot));
}

void hyper_coefficients(const HyperConnection& hc, const double* mix, float* pre, float* post,
                        float* comb) {
  const int n = hc.n_streams;
  ENGRAMD_ASSERT(n <= kStreamsMax);
  const double eps = hc.hc_eps;
  for (int s = 0; s < n; ++s) {
    pre[s] = static_cast<float>(sigmoid(mix[s] * hc.scale[0] + hc.base[s]) + eps);
    post[s] = static_cast<float>(2 * sigmoid(mix[n + s] * hc.scale[1] + hc.base[n + s]));
  }
  double c[kStreamsMax][kStreamsMax];
  for (int dst = 0; dst < n; ++dst) {
    double largest = -INFINITY;
    for (int src = 0; src < n; ++src) {
      const int i = 2 * n + dst * n + src;
      c[dst][src] = mix[i] * hc.scale[2] + hc.base[i];
      largest = std::max(largest, c[dst][src]);
    }
    double sum = 0;
    for (int src = 0; src < n; ++src) sum += c[dst][src] = std::exp(c[dst][src] - largest);
    for (int src = 0; src < n; ++src) c[dst][src] = c[dst][src] / sum + eps;
  }
  normalize_columns(c, n, eps);
  for (int i = 1; i < hc.sinkhorn_iterations; ++i) {
    normalize_rows(c, n, eps);
    normalize_columns(c, n, eps);
  }
  for (int dst = 0; dst < n; ++dst) {
    for (int src = 0; src < n; ++src) comb[dst * n + src] = static_cast<float>(c[dst][src]);
  }
}

void route(const MixtureOfExperts& weights, const double* logits, std::int32_t* experts,
           float* expert_weights) {
  const auto n_experts = static_cast<int>(weights.experts.size());
  const int k = weights.num_experts_per_tok;
  ENGRAMD_ASSERT(n_experts <= kExpertsMax && k <= n_experts);
  double score[kExpertsMax];
  double biased[kExpertsMax];
  for (int e = 0; e < n_experts; ++e) {
    score[e] = sigmoid(logits[e]);
    biased[e] = score[e] + weights.e_score_correction_bias[e];
  }
  for (int i = 0; i < k; ++i) {
    const auto best =
        static_cast<std::int32_t>(std::max_element(biased, biased + n_experts) - biased);
    experts[i] = best;
    biased[best] = -INFINITY;
  }
  std::sort(experts, experts + k);
  double sum = 0;
  for (int i = 0; i < k; ++i) sum += score[experts[i]];
  const double denominator = weights.norm_topk_prob ? sum + 1e-20 : 1.0;
  for (int i = 0; i < k; ++i) {
    expert_weights[i] =
        static_cast<float>(score[experts[i]] / denominator * weights.routed_scaling_factor);
  }
}

void rotate_pairs(float* x, int width, std::int32_t position, double theta) {
  for (int i = 0; i < width; i += 2) {
    const double angle = position * std::pow(theta, -static_cast<double>(i) / width);
    const double cosine = std::cos(angle);
    const double sine = std::sin(angle);
    const double a = x[i];
    const double b = x[i + 1];
    x[i] = static_cast<float>(a * cosine - b * sine);
    x[i + 1] = static_cast<float>(a * sine + b * cosine);
  }
}

void store_entry(const PagedCache& cache, std::int64_t entry, const float* values) {
  const auto width = static_cast<std::size_t>(cache.width);
  const std::size_t first = static_cast<std::size_t>(entry) * width;
  if (cache.dtype == DType::kF32) {
    std::memcpy(static_cast<float*>(cache.data) + first, values, width * sizeof(float));
  } else if (cache.dtype == DType::kBF16) {
    auto* out = static_cast<std::uint16_t*>(cache.data) + first;
    for (std::size_t i = 0; i < width; ++i) out[i] = encode_bf16(values[i]);
  } else {
    ENGRAMD_ASSERT(cache.dtype == DType::kF8E4M3);
    auto* out = static_cast<std::uint8_t*>(cache.data) + first;
    float largest = 0;
    for (std::size_t i = 0; i < width; ++i) largest = std::max(largest, std::fabs(values[i]));
    const float scale = largest > 0 ? largest / kE4m3Max : 1.0F;
    cache.scales[entry] = scale;
    for (std::size_t i = 0; i < width; ++i) out[i] = encode_e4m3(values[i] / scale);
  }
}

void load_entry(const PagedCache& cache, std::int64_t entry, float* values) {
  const auto width = static_cast<std::size_t>(cache.width);
  const std::size_t first = static_cast<std::size_t>(entry) * width;
  if (cache.dtype == DType::kF32) {
    std::memcpy(values, static_cast<const float*>(cache.data) + first, width * sizeof(float));
  } else if (cache.dtype == DType::kBF16) {
    const auto* in = static_cast<const std::uint16_t*>(cache.data) + first;
    for (std::size_t i = 0; i < width; ++i) values[i] = decode_bf16(in[i]);
  } else {
    const auto* in = static_cast<const std::uint8_t*>(cache.data) + first;
    const float scale = cache.scales[entry];
    for (std::size_t i = 0; i < width; ++i) values[i] = decode_e4m3(in[i]) * scale;
  }
}

}  // namespace engramd::kernels
