// VectorKernels: the inner loops of the fast CPU backend, one table of functions per instruction
// set. vector_kernels.cpp is compiled once for each with that set's flags; the table is chosen at
// run time, so a plain x86-64 machine runs the same program. Pure functions: no allocation, no
// threads. Every output element is one chain of additions in ascending order, whatever the tile, so
// a result depends neither on the batch nor on how rows are split over threads.
#pragma once

#include <cstdint>

#include "kernels/tensor_view.h"

namespace engramd::kernels {

struct MatmulRows {
  const void* weight = nullptr;  // [out_features, in_features]
  std::int64_t in_features = 0;
  std::int64_t row_begin = 0, row_end = 0;
  const float* bias = nullptr;           // [out_features] or nullptr
  const float* x = nullptr;              // rows of in_features
  const std::int32_t* x_rows = nullptr;  // [n_tokens] row of x, nullptr: 0, 1, 2 ...
  std::int64_t n_tokens = 0;
  const std::int32_t* out_rows = nullptr;  // [n_tokens] row of out, nullptr: 0, 1, 2 ...
  float* out = nullptr;                    // out[out row * out_stride + row]
  std::int64_t out_stride = 0;
};

// One token, one head, over its own sequence's entries.
struct AttendBlock {
  const float* entries = nullptr;  // [n_keys, width]: latent, then rotated key part
  int n_keys = 0;                  // 1 .. kBlockTokens
  int width = 0;
  int rank = 0;                  // kv_lora_rank: what the values are made of
  const float* query = nullptr;  // [width], absorbed and scaled
  float* sum = nullptr;          // [rank] running weighted sum of latents
  float* largest = nullptr;      // running maximum and
  float* weight = nullptr;       // running sum of exponentials (online softmax)
};

// The products of MatmulRows backwards: out[out row] += sum_r grad[grad row][r] * weight[r].
struct MatmulBack {
  const void* weight = nullptr;  // [out_features, in_features]
  std::int64_t out_features = 0, in_features = 0;
  const float* grad = nullptr;  // rows of out_features, one after the other
  std::int64_t n_tokens = 0;
  const std::int32_t* out_rows = nullptr;  // [n_tokens] row of out, nullptr: 0, 1, 2 ...
  float* out = nullptr;                    // rows of in_features
};

struct VectorKernels {
  const char* name;
  void (*matmul_bf16)(const MatmulRows& args);
  void (*matmul_f32)(const MatmulRows& args);
  float (*sum_of_squares)(const float* x, std::int64_t n);
  float (*dot)(const float* a, const float* b, std::int64_t n);
  // out = x * factor * weight
  void (*scale_by)(const float* x, float factor, const float* weight, std::int64_t n, float* out);
  // out = sum_s weights[s] * x[s * n ...]
  void (*weighted_sum)(const float* x, const float* weights, int n_terms, std::int64_t n,
                       float* out);
  // streams[i] = post[i] y + sum_j comb[i][j] streams[j], in place
  void (*mix_streams)(const float* y, const float* post, const float* comb, int n_streams,
                      std::int64_t n, float* streams);
  // gate = silu(gate) * up
  void (*silu_multiply)(float* gate, const float* up, std::int64_t n);
  // out = sum_r x[r] * weight[r], weight bf16 [n_rows, n]
  void (*weighted_rows_bf16)(const std::uint16_t* weight, const float* x, int n_rows,
                             std::int64_t n, float* out);
  void (*attend_block)(const AttendBlock& args);
  void (*widen_bf16)(const std::uint16_t* x, std::int64_t n, float* out);
  // sum_i (key * key_norm)_i (h * query_norm)_i
  float (*dot_weighted)(const float* key, const float* key_norm, const float* h,
                        const float* query_norm, std::int64_t n);
  // update += silu(sum_j taps[c * kernel_size + kernel_size - 1 - j] * history[j][c]); a null
  // history[j] is zero
  void (*convolve)(const float* taps, const float* const* history, int kernel_size, std::int64_t n,
                   float* update);
  void (*add)(const float* x, std::int64_t n, float* out);  // out += x

  // For gradients.
  void (*matmul_back_bf16)(const MatmulBack& args);
  void (*matmul_back_f32)(const MatmulBack& args);
  void (*add_scaled)(const float* x, float factor, std::int64_t n, float* out);  // out += factor x
  // hidden = silu(gate) * up, backwards: gate and up become the gradients by them of
  // factor * <grad, hidden>. Returns <grad, hidden>.
  float (*silu_multiply_back)(float* gate, float* up, const float* grad, float factor,
                              std::int64_t n);
  // x becomes e^(x - largest); returns the sum.
  float (*exponentials)(float* x, float largest, std::int64_t n);
};

// Longest vectors first; nullptr when this processor cannot run it. "auto" takes the first it can.
const VectorKernels* find_vector_kernels(const char* name);

}  // namespace engramd::kernels
