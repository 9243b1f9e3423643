// Embedding, normalisation, linear products and the SwiGLU feed-forward.
#include <cmath>
#include <vector>

#include "kernels/cpu/reference/reference_backend.h"
#include "kernels/number_formats.h"

namespace engramd::kernels {

namespace {

double weight_at(const TensorView& weight, std::int64_t index) {
  return weight.dtype == DType::kF32 ? weight.as<float>()[index]
                                     : decode_bf16(weight.as<std::uint16_t>()[index]);
}

}  // namespace

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

void ReferenceBackend::embed(const TensorView& table, std::span<const std::int32_t> tokens,
                             int n_streams, float* streams) {
  const std::int64_t width = table.shape[1];
  for (const std::int32_t token : tokens) {
    for (int s = 0; s < n_streams; ++s) {
      for (std::int64_t i = 0; i < width; ++i) {
        *streams++ = static_cast<float>(weight_at(table, token * width + i));
      }
    }
  }
}

void ReferenceBackend::rms_norm(const float* x, const float* weight, float eps, std::int64_t n_rows,
                                std::int64_t width, float* out) {
  for (std::int64_t row = 0; row < n_rows; ++row, x += width, out += width) {
    double square = 0;
    for (std::int64_t i = 0; i < width; ++i) square += double{x[i]} * x[i];
    const double factor = 1.0 / std::sqrt(square / static_cast<double>(width) + eps);
    for (std::int64_t i = 0; i < width; ++i) {
      out[i] = static_cast<float>(x[i] * factor * weight[i]);
    }
  }
}

void ReferenceBackend::linear(const float* x, std::int64_t n_tokens,
                              std::span<const LinearTask> tasks) {
  for (const LinearTask& task : tasks) {
    const Linear& linear = *task.linear;
    const std::int64_t in = linear.in_features();
    const std::int64_t out = linear.out_features();
    for (std::int64_t t = 0; t < n_tokens; ++t) {
      for (std::int64_t row = 0; row < out; ++row) {
        double sum = linear.bias != nullptr ? linear.bias[row] : 0.0;
        for (std::int64_t i = 0; i < in; ++i) {
          sum += weight_at(linear.weight, row * in + i) * x[t * in + i];
        }
        task.out[t * out + row] = static_cast<float>(sum);
      }
    }
  }
}

void ReferenceBackend::feed_forward(const FeedForward& weights, const float* x,
                                    std::int64_t n_tokens, float* out) {
  const auto width = static_cast<std::size_t>(n_tokens * weights.gate_proj.out_features());
  std::vector<float> gate(width);
  std::vector<float> up(width);
  const LinearTask inputs[] = {{&weights.gate_proj, gate.data()}, {&weights.up_proj, up.data()}};
  linear(x, n_tokens, inputs);
  for (std::size_t i = 0; i < width; ++i) {
    const double g = gate[i];
    gate[i] = static_cast<float>(g / (1.0 + std::exp(-g)) * up[i]);
  }
  const LinearTask output[] = {{&weights.down_proj, out}};
  linear(gate.data(), n_tokens, output);
}

}  // namespace engramd::kernels
