// Backend: the coarse operations of a forward pass, the one virtual seam of the engine. A scalar
// implementation (cpu/reference) is the oracle; cpu/ is the fast one; cuda/ runs on a GPU.
// Threads: one thread (the engine's) calls a Backend at a time; a fast backend may use its own pool
// inside a call. Activations are fp32, row-major. Operations never allocate per token beyond
// their own scratch, never log, never fail: shapes are asserted, inputs were validated at load.
//
// Pointers to activations, caches and their scales lie in the backend's own memory (allocate); all
// else is the process's: weights, tokens, slots, block tables, rows of the Engram table, what a
// trace or `chosen` is written to. Weights must not change or move while the backend is used.
//
// Every operation treats each token alone and in a fixed order of additions, so results do not
// depend on the batch, the chunking of a prompt or the number of threads. On a GPU they do, by
// rounding: few tokens take other kernels than many.
// Formulas: install/models/engram-nano/ARCHITECTURE.md, which names their papers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/row_format.h"
#include "kernels/tensor_view.h"

namespace engramd::kernels {

struct Linear {
  TensorView weight;            // [out_features, in_features], bf16 or f32
  const float* bias = nullptr;  // [out_features] or nullptr

  std::int64_t out_features() const { return weight.shape[0]; }
  std::int64_t in_features() const { return weight.shape[1]; }
};

struct LinearTask {
  const Linear* linear;
  float* out;  // [n_tokens, out_features]
};

// Where a token of the batch lives.
struct TokenSlot {
  std::int32_t sequence;  // index into PagedCache::block_tables
  std::int32_t position;  // in that sequence
};

inline constexpr int kBlockTokens = 32;  // tokens per cache block; also the key block of attention

// One layer's position-addressed store: an entry of `width` elements per token.
struct PagedCache {
  void* data = nullptr;       // [n_blocks, kBlockTokens, width] of dtype
  float* scales = nullptr;    // [n_blocks, kBlockTokens], kF8E4M3 only
  DType dtype = DType::kF32;  // kF32, kBF16 or kF8E4M3
  int width = 0;
  const std::int32_t* const* block_tables = nullptr;  // [n_sequences][blocks of the sequence]

  std::int64_t entry(const TokenSlot& slot) const {  // index of the slot's entry
    return entry(slot.sequence, slot.position);
  }
  std::int64_t entry(std::int32_t sequence, std::int32_t position) const {
    return std::int64_t{block_tables[sequence][position / kBlockTokens]} * kBlockTokens +
           position % kBlockTokens;
  }
};

// Hyper-connections (DeepSeek-V4's form): n residual streams mixed around a sublayer.
struct HyperConnection {
  int n_streams = 1;
  int hidden_size = 0;
  int sinkhorn_iterations = 1;
  float hc_eps = 0, rms_norm_eps = 0;
  const float* fn = nullptr;     // [(2 + n) n, n D]; the head's: [n, n D]
  const float* base = nullptr;   // [(2 + n) n]; the head's: [n]
  const float* scale = nullptr;  // [3]; the head's: [1]
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434) without query compression, evaluated
// in the absorbed form: the cache holds the normed latent and the rotated key part, nothing per
// head.
struct LatentAttention {
  int num_attention_heads = 0;
  int qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  int kv_lora_rank = 0;
  float rms_norm_eps = 0;
  double rope_theta = 10000;
  const float* kv_a_layernorm = nullptr;  // [kv_lora_rank]
  TensorView kv_b_proj;                   // [heads * (qk_nope + v), kv_lora_rank], bf16

  int query_width() const { return num_attention_heads * (qk_nope_head_dim + qk_rope_head_dim); }
  int latent_width() const { return kv_lora_rank + qk_rope_head_dim; }
  int output_width() const { return num_attention_heads * v_head_dim; }
};

struct FeedForward {          // SwiGLU: down(silu(gate x) * (up x))
  Linear gate_proj, up_proj;  // [intermediate_size, hidden_size]
  Linear down_proj;           // [hidden_size, intermediate_size]
};

// Fine-grained experts with a shared one (DeepSeek-V3, arXiv 2412.19437): sigmoid scores, choice by
// score + bias, weights by score alone.
struct MixtureOfExperts {
  int num_experts_per_tok = 0;
  bool norm_topk_prob = true;
  float routed_scaling_factor = 1;
  Linear gate;                                     // [n_routed_experts, hidden_size], f32
  const float* e_score_correction_bias = nullptr;  // [n_routed_experts]
  std::span<const FeedForward> experts;            // [n_routed_experts]
  const FeedForward* shared = nullptr;             // or nullptr
};

// The gate and the short convolution of one Engram layer (arXiv 2601.07372, section 2.3). Its
// variants are switches of one formula.
struct EngramGate {
  int n_streams = 1;
  int hidden_size = 0;
  float rms_norm_eps = 0;
  const float* key_norm = nullptr;    // [n_streams, hidden_size]
  const float* query_norm = nullptr;  // [n_streams, hidden_size]
  float conv_norm_eps = 1e-5f;        // the public demo's
  int kernel_size = 4, dilation = 3;
  const float* conv_norm = nullptr;  // [n_streams, hidden_size]
  // [n_streams, hidden_size, kernel_size], tap kernel_size-1 is now. nullptr: no convolution, and
  // no history (DeepSeek-V4.1-Flash).
  const float* conv = nullptr;
  // What a dot product of 0 gives: its sign times the root's floor (DeepSeek-V4.1-Flash's copysign,
  // gate 0.50025 for +0), or 0 and so gate 0.5 (all others).
  bool signed_zero = false;
  // engram-peft: the streams are branches that read one hidden state, and their updates are summed.
  // Streams are then [n_tokens, hidden_size].
  bool one_hidden_state = false;
};

// What the gate saw, per token; null members are not wanted.
struct EngramGateTrace {
  float* gate = nullptr;            // [n_tokens, n_streams]
  float* dot = nullptr;             // [n_tokens, n_streams]
  float* value_norm = nullptr;      // [n_tokens]
  float* residual_share = nullptr;  // [n_tokens, n_streams]
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  virtual int n_threads() const = 0;

  // Memory of its own, of undefined content. download() waits for all operations before it.
  virtual bool on_host() const = 0;  // the process may read and write it
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* memory) = 0;
  virtual void upload(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void download(void* to, const void* from, std::int64_t bytes) = 0;

  // out[i] = x[rows[i]]; rows ascend, and out may be x. x: [.., width].
  virtual void gather_rows(const float* x, std::span<const std::int32_t> rows, std::int64_t width,
                           float* out) = 0;
  // x to the nearest kF16 or kBF16 value, in place. x: [n].
  virtual void round_values(DType dtype, std::int64_t n, float* x) = 0;

  // streams: [n_tokens, n_streams, hidden_size], every stream the token's row of table
  // [vocab_size, hidden_size] (bf16).
  virtual void embed(const TensorView& table, std::span<const std::int32_t> tokens, int n_streams,
                     float* streams) = 0;

  // out = x / sqrt(mean(x^2) + eps) * weight. x, out: [n_rows, width]; weight: [width].
  virtual void rms_norm(const float* x, const float* weight, float eps, std::int64_t n_rows,
                        std::int64_t width, float* out) = 0;

  // Several products of one input x: [n_tokens, in_features].
  virtual void linear(const float* x, std::int64_t n_tokens, std::span<const LinearTask> tasks) = 0;

  // x: [n_tokens, D] = sum_s pre[s] h[s]. post: [n_tokens, n]. comb: [n_tokens, n, n] as
  // [dst][src].
  virtual void hyper_read(const HyperConnection& hc, const float* streams, std::int64_t n_tokens,
                          float* x, float* post, float* comb) = 0;
  // streams[i] = post[i] y + sum_j comb[i][j] streams[j], in place. y: [n_tokens, D].
  virtual void hyper_write(const HyperConnection& hc, const float* y, const float* post,
                           const float* comb, std::int64_t n_tokens, float* streams) = 0;
  // x: [n_tokens, D], the collapse of the streams before the last norm.
  virtual void hyper_head(const HyperConnection& hc, const float* streams, std::int64_t n_tokens,
                          float* x) = 0;

  // query: [n_tokens, query_width] (overwritten: rotated). latent: [n_tokens, latent_width], from
  // kv_a_proj_with_mqa. Writes the tokens' entries into the cache, then attends over each token's
  // own sequence up to itself. out: [n_tokens, output_width].
  virtual void latent_attention(const LatentAttention& attention, float* query, const float* latent,
                                std::span<const TokenSlot> slots, const PagedCache& cache,
                                float* out) = 0;

  // x, out: [n_tokens, hidden_size].
  virtual void feed_forward(const FeedForward& weights, const float* x, std::int64_t n_tokens,
                            float* out) = 0;
  // chosen: nullptr or [n_tokens, num_experts_per_tok], ascending expert numbers.
  virtual void mixture_of_experts(const MixtureOfExperts& weights, const float* x,
                                  std::int64_t n_tokens, float* out, std::int32_t* chosen) = 0;

  // rows: [n_tokens, n_columns], where each lies. out: [n_tokens, n_columns * format.n_columns].
  virtual void engram_gather(const RowFormat& format, const RowBytes* rows, std::int64_t n_tokens,
                             int n_columns, float* out) = 0;
  // key: [n_tokens, n_streams, D]; value: [n_tokens, D]. Adds gate * value + silu(conv) to the
  // streams of every token with enabled[t]. history keeps the convolution's normed inputs (width
  // n_streams * D, fp32), of tokens that are not enabled too: leaving one update out must not
  // change what later tokens see. trace is filled for all tokens.
  // A value of zeros masks a token: it adds nothing, and later tokens' convolutions see nothing.
  virtual void engram_update(const EngramGate& gate, const float* key, const float* value,
                             std::span<const TokenSlot> slots, const PagedCache& history,
                             const std::uint8_t* enabled, float* streams,
                             const EngramGateTrace& trace) = 0;
};

struct CpuBackendOptions {
  std::string instruction_set = "auto";  // auto, avx512, avx2, portable
  int threads = 0;                       // 0: all cores of this process
  bool bfloat16_activations = false;     // round the inputs of linear products to bf16
};

std::unique_ptr<Backend> make_reference_backend();
// nullptr when this CPU lacks the named instruction set; `auto` always succeeds.
std::unique_ptr<Backend> make_cpu_backend(const CpuBackendOptions& options);

}  // namespace engramd::kernels
