// ReferenceGradients: every gradient as plain scalar loops with double accumulators. The oracle of
// the fast one, itself checked against central differences. Slow on purpose.
#pragma once

#include "kernels/gradients.h"

namespace engramd::kernels {

class ReferenceGradients final : public Gradients {
 public:
  void rms_norm(const float* x, const float* weight, float eps, std::int64_t n_rows,
                std::int64_t width, const float* grad_out, float* grad_x) override;
  void linear(const Linear& linear, const float* grad_out, std::int64_t n_tokens,
              float* grad_x) override;
  void hyper_read(const HyperConnection& hc, const float* streams, std::int64_t n_tokens,
                  const float* grad_x, const float* grad_post, const float* grad_comb,
                  float* grad_streams) override;
  void hyper_write(const HyperConnection& hc, const float* streams, const float* y,
                   const float* post, const float* comb, std::int64_t n_tokens, float* grad_streams,
                   float* grad_y, float* grad_post, float* grad_comb) override;
  void hyper_head(const HyperConnection& hc, const float* streams, std::int64_t n_tokens,
                  const float* grad_x, float* grad_streams) override;
  void latent_attention(const LatentAttention& attention, const float* query, const float* latent,
                        TextStarts texts, const float* grad_out, float* grad_query,
                        float* grad_latent) override;
  void feed_forward(const FeedForward& weights, const float* x, std::int64_t n_tokens,
                    const float* grad_out, float* grad_x) override;
  void mixture_of_experts(const MixtureOfExperts& weights, const float* x, std::int64_t n_tokens,
                          const float* grad_out, float* grad_x) override;
  void engram_update(const EngramGate& gate, const float* key, const float* value,
                     const float* streams, TextStarts texts, float* grad_streams, float* grad_key,
                     float* grad_value) override;
  void cross_entropy(float* logits, std::int64_t n_rows, std::int64_t vocab_size,
                     const std::int32_t* targets, const float* weights, float* losses) override;
};

}  // namespace engramd::kernels
