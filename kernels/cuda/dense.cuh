// Embedding rows, RMS normalisation and the element-wise steps between products.
#pragma once

#include <cmath>

#include "kernels/cuda/execution.h"
#include "kernels/cuda/reductions.cuh"
#include "kernels/number_formats.h"

namespace engramd::kernels::cuda {

struct NoShared {};

// One block per token: its row of the table into every stream.
struct EmbedKernel {
  using Shared = NoShared;
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "embed";

  DeviceSpan<const std::uint16_t> table;  // [vocab_size, hidden_size], bf16
  DeviceSpan<const std::int32_t> tokens;  // [n_tokens]
  DeviceSpan<float> streams;              // [n_tokens, n_streams, hidden_size]
  int n_streams = 1, hidden_size = 0;

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared&) const {
    const std::int64_t token = thread.block_x();
    const std::int64_t row = std::int64_t{tokens[token]} * hidden_size;
    for (const int i : thread.strided(hidden_size)) {
      const float value = decode_bf16(table[row + i]);
      for (int s = 0; s < n_streams; ++s) {
        streams[(token * n_streams + s) * hidden_size + i] = value;
      }
    }
  }
};

// One block per row: out = x / sqrt(mean(x^2) + eps) * weight.
struct RmsNormKernel {
  using Shared = BlockScratch;
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "rms_norm";

  DeviceSpan<const float> x;       // [n_rows, width]
  DeviceSpan<const float> weight;  // [width]
  DeviceSpan<float> out;           // [n_rows, width]
  int width = 0;
  float eps = 0;

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const {
    const std::int64_t row = thread.block_x() * width;
    float square = 0;
    for (const int i : thread.strided(width)) square += x[row + i] * x[row + i];
    square = block_sum(thread, shared, square);
    const float factor = 1.0F / std::sqrt(square / static_cast<float>(width) + eps);
    for (const int i : thread.strided(width)) out[row + i] = x[row + i] * factor * weight[i];
  }
};

// gate = silu(gate) * up, element by element.
struct SiluMultiplyKernel {
  using Shared = NoShared;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "silu_multiply";

  DeviceSpan<float> gate;      // [n]
  DeviceSpan<const float> up;  // [n]
  std::int64_t n = 0;

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared&) const {
    const std::int64_t first = thread.block_x() * kThreads;
    const auto n_here = static_cast<int>(n - first < kThreads ? n - first : kThreads);
    for (const int i : thread.strided(n_here)) {
      const float g = gate[first + i];
      gate[first + i] = g * device_sigmoid(g) * up[first + i];
    }
  }
};

// One block per row: out[i] = x[rows[i]].
struct GatherRowsKernel {
  using Shared = NoShared;
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "gather_rows";

  DeviceSpan<const float> x;            // [.., width]
  DeviceSpan<const std::int32_t> rows;  // [n_rows]
  DeviceSpan<float> out;                // [n_rows, width]
  int width = 0;

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared&) const {
    const std::int64_t to = thread.block_x() * width;
    const std::int64_t from = std::int64_t{rows[thread.block_x()]} * width;
    for (const int i : thread.strided(width)) out[to + i] = x[from + i];
  }
};

// x to the nearest bf16 or fp16 value, in place.
struct RoundKernel {
  using Shared = NoShared;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "round";

  DeviceSpan<float> x;  // [n]
  std::int64_t n = 0;
  bool to_f16 = false;  // or bf16

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared&) const {
    const std::int64_t first = thread.block_x() * kThreads;
    const auto n_here = static_cast<int>(n - first < kThreads ? n - first : kThreads);
    for (const int i : thread.strided(n_here)) {
      const float value = x[first + i];
      x[first + i] = to_f16 ? decode_f16(encode_f16(value)) : decode_bf16(encode_bf16(value));
    }
  }
};

}  // namespace engramd::kernels::cuda
