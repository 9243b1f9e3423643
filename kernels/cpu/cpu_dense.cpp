// Embedding, normalisation, linear products, SwiGLU and hyper-connections of the CPU backend.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/scalar_math.h"
#include "kernels/number_formats.h"

namespace engramd::kernels {

std::unique_ptr<Backend> make_cpu_backend(const CpuBackendOptions& options) {
  const VectorKernels* vector = find_vector_kernels(options.instruction_set.c_str());
  if (vector == nullptr) return nullptr;
  return std::make_unique<CpuBackend>(*vector, options.threads, options.bfloat16_activations);
}

CpuBackend::CpuBackend(const VectorKernels& vector, int threads, bool bfloat16_activations)
    : vector_(&vector), pool_(threads), bfloat16_activations_(bfloat16_activations) {}

const float* CpuBackend::rounded(const float* x, std::int64_t n) {
  if (!bfloat16_activations_) return x;
  if (static_cast<std::int64_t>(rounded_.size()) < n) rounded_.resize(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    rounded_[static_cast<std::size_t>(i)] = decode_bf16(encode_bf16(x[i]));
  }
  return rounded_.data();
}

void CpuBackend::matmul(const Linear& linear, MatmulRows rows) const {
  rows.weight = linear.weight.data;
  rows.in_features = linear.in_features();
  rows.bias = linear.bias;
  (linear.weight.dtype == DType::kF32 ? vector_->matmul_f32 : vector_->matmul_bf16)(rows);
}

void CpuBackend::embed(const TensorView& table, std::span<const std::int32_t> tokens, int n_streams,
                       float* streams) {
  const std::int64_t width = table.shape[1];
  for (const std::int32_t token : tokens) {
    for (int s = 0; s < n_streams; ++s, streams += width) {
      vector_->widen_bf16(table.as<std::uint16_t>() + token * width, width, streams);
    }
  }
}

void CpuBackend::rms_norm(const float* x, const float* weight, float eps, std::int64_t n_rows,
                          std::int64_t width, float* out) {
  for_each_token(n_rows, [&](std::int64_t row) {
    const float* in = x + row * width;
    vector_->scale_by(in, inverse_rms(*vector_, in, width, eps), weight, width, out + row * width);
  });
}

void CpuBackend::linear(const float* x, std::int64_t n_tokens, std::span<const LinearTask> tasks) {
  if (tasks.empty()) return;
  x = rounded(x, n_tokens * tasks.front().linear->in_features());
  const std::int64_t rows_per_item = rows_per_work_item(n_tokens);
  std::int64_t n_items = 0;
  for (const LinearTask& task : tasks) {
    n_items += n_chunks(task.linear->out_features(), rows_per_item);
  }
  pool_.parallel(n_items, [&](std::int64_t item) {
    const LinearTask* task = tasks.data();
    for (; item >= n_chunks(task->linear->out_features(), rows_per_item); ++task) {
      item -= n_chunks(task->linear->out_features(), rows_per_item);
    }
    const std::int64_t out_features = task->linear->out_features();
    MatmulRows rows;
    rows.row_begin = item * rows_per_item;
    rows.row_end = std::min(out_features, rows.row_begin + rows_per_item);
    rows.x = x;
    rows.n_tokens = n_tokens;
    rows.out = task->out;
    rows.out_stride = out_features;
    matmul(*task->linear, rows);
  });
}

void CpuBackend::feed_forward(const FeedForward& weights, const float* x, std::int64_t n_tokens,
                              float* out) {
  const std::int64_t n = n_tokens * weights.gate_proj.out_features();
  grow(hidden_, n);
  grow(up_, n);
  const LinearTask inputs[] = {{&weights.gate_proj, hidden_.data()},
                               {&weights.up_proj, up_.data()}};
  linear(x, n_tokens, inputs);
  vector_->silu_multiply(hidden_.data(), up_.data(), n);
  const LinearTask output[] = {{&weights.down_proj, out}};
  linear(hidden_.data(), n_tokens, output);
}

void CpuBackend::hyper_read(const HyperConnection& hc, const float* streams, std::int64_t n_tokens,
                            float* x, float* post, float* comb) {
  const int n = hc.n_streams;
  for_each_token(n_tokens, [&](std::int64_t t) {
    const float* h = streams + t * n * hc.hidden_size;
    double mix[kHyperRowsMax];
    float pre[kHyperRowsMax];
    project_streams(*vector_, hc, h, (2 + n) * n, mix);
    hyper_coefficients(hc, mix, pre, post + t * n, comb + t * n * n);
    vector_->weighted_sum(h, pre, n, hc.hidden_size, x + t * hc.hidden_size);
  });
}

void CpuBackend::hyper_write(const HyperConnection& hc, const float* y, const float* post,
                             const float* comb, std::int64_t n_tokens, float* streams) {
  const int n = hc.n_streams;
  for_each_token(n_tokens, [&](std::int64_t t) {
    vector_->mix_streams(y + t * hc.hidden_size, post + t * n, comb + t * n * n, n, hc.hidden_size,
                         streams + t * n * hc.hidden_size);
  });
}

void CpuBackend::hyper_head(const HyperConnection& hc, const float* streams, std::int64_t n_tokens,
                            float* x) {
  const int n = hc.n_streams;
  for_each_token(n_tokens, [&](std::int64_t t) {
    const float* h = streams + t * n * hc.hidden_size;
    double mix[kHyperRowsMax];
    float weights[kHyperRowsMax];
    project_streams(*vector_, hc, h, n, mix);
    for (int s = 0; s < n; ++s) {
      const double logit = mix[s] * hc.scale[0] + hc.base[s];
      weights[s] = static_cast<float>(1.0 / (1.0 + std::exp(-logit)) + hc.hc_eps);
    }
    vector_->weighted_sum(h, weights, n, hc.hidden_size, x + t * hc.hidden_size);
  });
}

}  // namespace engramd::kernels
