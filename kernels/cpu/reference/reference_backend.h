// ReferenceBackend: every operation as plain scalar loops with double accumulators, one thread.
// The oracle of the fast backends: read it to see what an operation means. Slow on purpose.
#pragma once

#include <vector>

#include "kernels/backend.h"
#include "kernels/host_backend.h"

namespace engramd::kernels {

class ReferenceBackend final : public HostBackend {
 public:
  const char* name() const override { return "reference"; }
  int n_threads() const override { return 1; }
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
};

}  // namespace engramd::kernels
