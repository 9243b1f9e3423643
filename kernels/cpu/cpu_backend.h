// CpuBackend: the operations of backend.h over the vector kernels of this processor and a pool of
// threads. Splits work over output rows, tokens and heads, never over a sum, so results are the
// same for every thread count. Engine thread only; owns its pool and scratch.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_split.h"
#include "kernels/cpu/rotary_table.h"
#include "kernels/cpu/stream_projection.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/host_backend.h"

namespace engramd::kernels {

class CpuBackend final : public HostBackend {
 public:
  CpuBackend(const VectorKernels& vector, int threads, bool bfloat16_activations);

  const char* name() const override { return vector_->name; }
  int n_threads() const override { return pool_.n_threads(); }
  void embed(const TensorView& table, std::span<const std::int32_t> tokens, int n_streams,
             float* streams) override;
  void rms_norm(const float* x, const float* weight, float eps, std::int64_t n_rows,
                std::int64_t width, float* out) override;
  void linear(const float* x, std::int64_t n_tokens, std::span<const LinearTask> tasks) override;
  void hyper_read(const HyperConnection& hc, const float* streams, std::int64_t n_tokens, float* x,
                  float* post, float* comb) override;
  void hyper_write(const HyperConnection& hc, const float* y, const float* post, const float* comb,
                   std::int64_t n_tokens, float* streams) override;
  void hyper_head(const HyperConnection& hc, const float* streams, std::int64_t n_tokens,
                  float* x) override;
  void latent_attention(const LatentAttention& attention, float* query, const float* latent,
                        std::span<const TokenSlot> slots, const PagedCache& cache,
                        float* out) override;
  void feed_forward(const FeedForward& weights, const float* x, std::int64_t n_tokens,
                    float* out) override;
  void mixture_of_experts(const MixtureOfExperts& weights, const float* x, std::int64_t n_tokens,
                          float* out, std::int32_t* chosen) override;
  void engram_gather(const RowFormat& format, const RowBytes* rows, std::int64_t n_tokens,
                     int n_columns, float* out) override;
  void engram_update(const EngramGate& gate, const float* key, const float* value,
                     std::span<const TokenSlot> slots, const PagedCache& history,
                     const std::uint8_t* enabled, float* streams,
                     const EngramGateTrace& trace) override;

 private:
  // One expert's share of a mixture_of_experts call.
  struct ExpertGroup {
    const FeedForward* weights = nullptr;
    std::vector<std::int32_t> cells;   // token * (k + 1) + slot: where its result belongs
    std::vector<std::int32_t> tokens;  // parallel to cells
    std::int64_t first_row = 0;        // of its activations in hidden_
  };

  // function(token) for every token. A token's share of such an operation is a microsecond: not
  // worth waking a thread for a few.
  template <class Function>
  void for_each_token(std::int64_t n_tokens, const Function& function) {
    constexpr std::int64_t kTokensPerItem = 4;
    pool_.parallel(n_chunks(n_tokens, kTokensPerItem), [&](std::int64_t item) {
      const std::int64_t end = std::min(n_tokens, (item + 1) * kTokensPerItem);
      for (std::int64_t t = item * kTokensPerItem; t < end; ++t) function(t);
    });
  }
  const float* rounded(const float* x, std::int64_t n);  // x, or its bf16 values in rounded_
  void matmul(const Linear& linear, MatmulRows rows) const;
  void attend_heads(const LatentAttention& attention, const float* query, const TokenSlot& slot,
                    const PagedCache& cache, int head_begin, int head_end, float* out) const;
  void group_by_expert(const MixtureOfExperts& weights, const float* x, std::int64_t n_tokens,
                       std::int32_t* chosen);

  // Columns [begin, end) of every token's output. first_slot: 1 without a shared expert.
  void down_and_combine(const float* hidden, std::int64_t n_tokens, int k, int first_slot,
                        std::int64_t begin, std::int64_t end, float* out);

  const VectorKernels* vector_;
  ThreadPool pool_;
  bool bfloat16_activations_;
  std::vector<float> rounded_;
  RotaryTable rotary_;
  std::vector<float> hidden_, up_;  // feed-forward activations
  std::vector<ExpertGroup> groups_;
  std::vector<std::int32_t> chosen_;  // [n_tokens, k]
  std::vector<float> cell_weights_;   // [n_tokens, k + 1], the shared expert's first
  std::vector<float> cell_outputs_;   // [n_tokens, k + 1, hidden_size]
  std::vector<float> updates_;        // [n_tokens, n_streams, hidden_size]
};

}  // namespace engramd::kernels
