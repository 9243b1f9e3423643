// What a sublayer's mixing is computed from: fn applied to the normed streams of one token, for the
// forward pass and its gradients. Pure functions over vector kernels. Private to kernels/cpu.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_split.h"
#include "kernels/cpu/vector_kernels.h"

namespace engramd::kernels {

inline float inverse_rms(const VectorKernels& vector, const float* x, std::int64_t n, float eps) {
  return 1.0F / std::sqrt(vector.sum_of_squares(x, n) / static_cast<float>(n) + eps);
}

// mix: [n_rows]. Returns the factor of the norm.
inline float project_streams(const VectorKernels& vector, const HyperConnection& hc,
                             const float* streams, int n_rows, double* mix) {
  const std::int64_t width = std::int64_t{hc.n_streams} * hc.hidden_size;
  float products[kHyperRowsMax];
  ENGRAMD_ASSERT(n_rows <= kHyperRowsMax);
  MatmulRows rows;
  rows.weight = hc.fn;
  rows.in_features = width;
  rows.row_end = n_rows;
  rows.x = streams;
  rows.n_tokens = 1;
  rows.out = products;
  rows.out_stride = n_rows;
  vector.matmul_f32(rows);
  const float factor = inverse_rms(vector, streams, width, hc.rms_norm_eps);
  for (int i = 0; i < n_rows; ++i) mix[i] = double{products[i]} * factor;
  return factor;
}

}  // namespace engramd::kernels
