// Gradients: how the operations of backend.h change with their inputs (reverse mode). Weights are
// frozen; what is learnt lies in the Engram rows, the inputs of two linear products. A scalar
// implementation (cpu/reference) is the oracle; cpu/ is the fast one.
// Threads: one thread calls a Gradients at a time, and it uses no others: whoever has two cores
// gives each texts of its own. Shapes are asserted; nothing here logs or fails.
// Not here: the order of the operations (engine/teach), optimisers.
//
// Each takes what the forward operation took, and the gradient by its result; grad_x is added to,
// every other output is written. Activations are fp32, row-major.
// Formulas: install/models/engram-nano/ARCHITECTURE.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/backend.h"

namespace engramd::kernels {

// Whole texts one after the other: text i has tokens [starts[i], starts[i + 1]), from position 0.
using TextStarts = std::span<const std::int64_t>;  // [n_texts + 1]

class Gradients {
 public:
  virtual ~Gradients() = default;

  // x, grad_out, grad_x: [n_rows, width].
  virtual void rms_norm(const float* x, const float* weight, float eps, std::int64_t n_rows,
                        std::int64_t width, const float* grad_out, float* grad_x) = 0;

  // grad_out: [n_tokens, out_features]; grad_x: [n_tokens, in_features].
  virtual void linear(const Linear& linear, const float* grad_out, std::int64_t n_tokens,
                      float* grad_x) = 0;

  // streams, grad_streams (added to): [n_tokens, n_streams, D]; grad_x: [n_tokens, D].
  virtual void hyper_read(const HyperConnection& hc, const float* streams, std::int64_t n_tokens,
                          const float* grad_x, const float* grad_post, const float* grad_comb,
                          float* grad_streams) = 0;
  // streams: as before the write. grad_streams: by the streams after the write, then by those
  // before it. grad_y: [n_tokens, D]; grad_post: [n_tokens, n]; grad_comb: [n_tokens, n, n].
  virtual void hyper_write(const HyperConnection& hc, const float* streams, const float* y,
                           const float* post, const float* comb, std::int64_t n_tokens,
                           float* grad_streams, float* grad_y, float* grad_post,
                           float* grad_comb) = 0;
  // grad_x: [n_tokens, D]; grad_streams: added to.
  virtual void hyper_head(const HyperConnection& hc, const float* streams, std::int64_t n_tokens,
                          const float* grad_x, float* grad_streams) = 0;

  // query: before its rotation. grad_query, grad_latent: shapes of query and latent.
  virtual void latent_attention(const LatentAttention& attention, const float* query,
                                const float* latent, TextStarts texts, const float* grad_out,
                                float* grad_query, float* grad_latent) = 0;

  virtual void feed_forward(const FeedForward& weights, const float* x, std::int64_t n_tokens,
                            const float* grad_out, float* grad_x) = 0;
  // The choice of experts is held fixed; their weights are differentiated.
  virtual void mixture_of_experts(const MixtureOfExperts& weights, const float* x,
                                  std::int64_t n_tokens, const float* grad_out, float* grad_x) = 0;

  // streams: as before the update, which every token gets. grad_streams: by the streams after the
  // update, then by those before it. grad_key: [n_tokens, n_streams, D]; grad_value: [n_tokens, D].
  // Not for gate.one_hidden_state.
  virtual void engram_update(const EngramGate& gate, const float* key, const float* value,
                             const float* streams, TextStarts texts, float* grad_streams,
                             float* grad_key, float* grad_value) = 0;

  // losses[i] = -log softmax(logits[i])[targets[i]]; logits [n_rows, vocab_size] become the
  // gradient by them of sum_i weights[i] losses[i].
  virtual void cross_entropy(float* logits, std::int64_t n_rows, std::int64_t vocab_size,
                             const std::int32_t* targets, const float* weights, float* losses) = 0;
};

std::unique_ptr<Gradients> make_reference_gradients();
// nullptr when this CPU lacks the named instruction set (as make_cpu_backend).
std::unique_ptr<Gradients> make_cpu_gradients(const std::string& instruction_set);

}  // namespace engramd::kernels
