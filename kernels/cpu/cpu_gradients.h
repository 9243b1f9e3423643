// CpuGradients: gradients.h over the vector kernels of this processor, on the caller's thread.
// Owns its scratch. Scalar decisions (Sinkhorn, routing, gate) are shared with the reference.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/rotary_table.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/gradients.h"

namespace engramd::kernels {

class CpuGradients final : public Gradients {
 public:
  explicit CpuGradients(const VectorKernels& vector) : vector_(&vector) {}

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

 private:
  // Tokens that went to one expert, and with what weight.
  struct Share {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> cells;  // parallel: token * num_experts_per_tok + slot
    std::vector<float> factors;       // parallel
  };
  // What one stream of one text's tokens looked like, for engram_update.
  struct GatedStream;

  // `scratch` grows and is zeroed.
  static float* zeroed(std::vector<float>& scratch, std::int64_t size);
  void matmul(const Linear& linear, const float* x, const std::int32_t* x_rows,
              std::int64_t n_tokens, float* out) const;
  void matmul_back(const Linear& linear, const float* grad, std::int64_t n_tokens,
                   const std::int32_t* out_rows, float* out) const;
  void norm_back(const float* x, float factor, const float* weight, std::int64_t width,
                 const float* grad_out, float* grad_x);
  // Back from grad_mix [n_rows] through project_streams.
  void project_streams_back(const HyperConnection& hc, const float* h, float factor, int n_rows,
                            const double* mix, const double* grad_mix, float* grad_h) const;
  // Of the tokens of one expert; by_factor: nullptr or [share.cells], <grad_out, its output>.
  void expert_back(const FeedForward& weights, const float* x, const float* grad_out,
                   const Share& share, float* grad_x, float* by_factor);
  void attend_text_back(const LatentAttention& attention, const float* query, const float* latent,
                        std::int64_t n_tokens, const float* grad_out, float* grad_query,
                        float* grad_latent);
  void attend_head_back(const LatentAttention& attention, int head, std::int64_t n_tokens,
                        const float* query, const float* rotary, const float* grad_out,
                        float* grad_query);
  void gate_stream(const EngramGate& gate, int stream, const float* key, const float* value,
                   const float* streams, std::int64_t n_tokens, const float* grad_streams,
                   GatedStream& s) const;
  void convolution_back(const EngramGate& gate, int stream, GatedStream& s);

  const VectorKernels* vector_;
  RotaryTable rotary_;
  std::vector<float> norm_scratch_;                        // [width]
  std::vector<float> hidden_, up_, grad_hidden_, picked_;  // feed-forward
  std::vector<Share> shares_;
  std::vector<double> logits_;        // [n_tokens, n_routed_experts]
  std::vector<std::int32_t> chosen_;  // [n_tokens, num_experts_per_tok]
  std::vector<float> by_factor_;      // parallel to chosen_
  // attention of one text
  std::vector<float> normed_, expanded_, key_rope_;
  std::vector<float> grad_normed_, grad_expanded_, grad_key_rope_;
  std::vector<float> keys_, grad_keys_, queries_, grad_query_row_, scores_, grad_scores_;
};

}  // namespace engramd::kernels
