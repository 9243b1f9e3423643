// DeviceBackend: the operations of backend.h as launches of the kernels beside it, on any
// KernelDevice. Owns the device, its copies of the weights and scratch; the engine's activations
// and caches are allocated through it. Operations only queue work; what they write to the process's
// memory (a trace, chosen experts) is waited for. Engine thread only; DeviceErrors pass through.
// Not here: which device (cuda_backend.cpp), the kernels.
#pragma once

#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/engram.cuh"
#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/hyper_connection.cuh"
#include "kernels/cuda/linear.cuh"

namespace engramd::kernels::cuda {

// Up to here tokens take the kernels that stream weights; above, tiles of the tensor cores.
// Streaming reads a weight once per four tokens, a tile once per 32.
inline constexpr int kStreamTokensMax = 8;
inline constexpr int kStreamCells = 4;
inline constexpr int kTileCells = 32;

template <KernelDevice Device>
class DeviceBackend final : public Backend {
 public:
  // bfloat16_activations: the tensor cores see activations rounded to bf16 instead of split.
  DeviceBackend(std::unique_ptr<Device> device, bool bfloat16_activations);

  const char* name() const override { return device_->name(); }
  int n_threads() const override { return 1; }
  bool on_host() const override { return false; }
  void* allocate(std::int64_t bytes) override { return device_->allocate(bytes); }
  void release(void* memory) override { device_->release(memory); }
  void upload(void* to, const void* from, std::int64_t bytes) override {
    device_->upload(to, from, bytes);
  }
  void download(void* to, const void* from, std::int64_t bytes) override {
    device_->download(to, from, bytes);
  }
  void gather_rows(const float* x, std::span<const std::int32_t> rows, std::int64_t width,
                   float* out) override;
  void round_values(DType dtype, std::int64_t n, float* x) override;
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

  Device& device() { return *device_; }
  std::int64_t weight_bytes() const { return weights_.bytes(); }
  // When the weights seen so far are gone: the next ones may lie at the same addresses.
  void forget_weights() { weights_.forget(); }

 private:
  template <class T>
  using Scratch = DeviceBuffer<Device, T>;
  template <class T>
  using Mirror = MirroredArray<Device, T>;

  // One product over all its groups. x rows are x_stride apart.
  struct Product {
    WeightShape shape;
    DType dtype = DType::kBF16;
    DeviceSpan<const WeightRef> weights;
    CellGroups groups;
    DeviceSpan<const float> x;
    int x_stride = 0;
    DeviceSpan<float> out;
  };
  void multiply_groups(const Product& product);  // equal groups, by the number of their cells
  void stream_cells(const Product& product, DeviceSpan<const std::int32_t> group_of_cell,
                    DeviceSpan<const std::int32_t> x_rows);
  void multiply_tiles(const Product& product, std::int64_t n_tiles);
  template <class Make>
  DeviceSpan<const WeightRef> table_of(const void* first, std::int64_t n, const Make& make);
  WeightRef ref_of(const Linear& linear);

  // Experts' products of all chosen cells, into cell_outputs_.
  void stream_experts(const MixtureOfExperts& weights, const float* x, std::int64_t n_tokens);
  void tile_experts(const MixtureOfExperts& weights, const float* x, std::int64_t n_tokens);
  Product expert_product(const MixtureOfExperts& weights, Linear FeedForward::*which);
  void silu_multiply(DeviceSpan<float> gate, DeviceSpan<float> up);

  DeviceCache cache_of(const PagedCache& cache, std::span<const TokenSlot> slots);
  Rotary rotary_of(int width, double theta, std::span<const TokenSlot> slots);
  DeviceSpan<const AttentionTile> tiles_of(std::span<const TokenSlot> slots, int heads_per_kv);
  DeviceSpan<const std::uint16_t> transposed_keys(const LatentAttention& attention);
  void attend(const LatentAttention& attention, DeviceSpan<const float> absorbed,
              DeviceSpan<const float> query, std::span<const TokenSlot> slots,
              const DeviceCache& cache, DeviceSpan<float> out);
  template <int kColumns>
  void launch_attention(const AttentionKernel<1>& like, const Grid& grid);

  std::unique_ptr<Device> device_;  // outlives what follows
  bool bfloat16_activations_;
  WeightStore<Device> weights_;
  Scratch<float> gathered_{*device_};
  Scratch<float> hidden_{*device_}, up_{*device_};  // feed-forward
  Scratch<float> shared_output_{*device_};          // [n_tokens, hidden_size]
  Scratch<float> router_logits_{*device_};          // [n_tokens, n_routed_experts]
  Scratch<float> cell_weights_{*device_};           // [n_tokens, k]
  Scratch<float> cell_outputs_{*device_};           // [n_tokens, k, hidden_size]
  Scratch<std::int32_t> chosen_{*device_};          // [n_tokens, k]
  Scratch<std::int32_t> cells_{*device_}, cell_tokens_{*device_};
  Scratch<std::int32_t> cell_offsets_{*device_}, tile_offsets_{*device_};
  Mirror<std::int32_t> token_of_cell_{*device_};  // [n_tokens, k], not sorted
  Scratch<float> absorbed_{*device_}, attended_{*device_};
  Scratch<float> split_sums_{*device_}, split_weights_{*device_};
  Mirror<std::int32_t> tokens_{*device_}, rows_{*device_};
  Mirror<TokenSlot> slots_{*device_};
  Mirror<std::int32_t> blocks_{*device_}, first_blocks_{*device_};
  Mirror<AttentionTile> tiles_{*device_};
  Mirror<float> rotary_{*device_};
  std::vector<float> rotary_table_;  // [positions seen, width]
  int rotary_width_ = 0;
  double rotary_theta_ = 0;
  Scratch<float> updates_{*device_};  // [n_tokens, n_streams, hidden_size]
  Scratch<float> trace_{*device_};
  Mirror<std::uint8_t> enabled_{*device_};
  Mirror<RowUse> row_uses_{*device_};
  Mirror<std::int32_t> row_places_{*device_};
  // Row bytes wait here until a kernel has read them; one buffer per call, in turn.
  struct PinnedRows {
    std::uint8_t* data = nullptr;
    std::int64_t capacity = 0;
  };
  static constexpr int kPinnedBuffers = 4;
  PinnedRows pinned_[kPinnedBuffers];
  int n_gathers_ = 0;

 public:
  ~DeviceBackend() override;
};

}  // namespace engramd::kernels::cuda
