// HostedBackend: a device backend behind the host pointers that the tests of all backends pass.
// Every operation sends its inputs, runs, and fetches its outputs; weights are forgotten after
// each, as tests reuse their memory for others.
#pragma once

#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/device_backend.h"
#include "tests/kernels/cuda/test_device.h"

namespace engramd::kernels::cuda {

using TestBackend = DeviceBackend<TestDevice>;

class HostedBackend final : public Backend {
 public:
  explicit HostedBackend(std::unique_ptr<TestBackend> inner);
  ~HostedBackend() override;

  const char* name() const override { return inner_->name(); }
  int n_threads() const override { return 1; }
  bool on_host() const override { return true; }
  void* allocate(std::int64_t bytes) override;
  void release(void* memory) override;
  void upload(void* to, const void* from, std::int64_t bytes) override;
  void download(void* to, const void* from, std::int64_t bytes) override;
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

  TestBackend& inner() { return *inner_; }

 private:
  struct Fetch {
    void* to;
    const void* from;
    std::int64_t bytes;
  };
  template <class T>
  T* in(const T* host, std::int64_t n);  // a copy on the device
  template <class T>
  T* out(T* host, std::int64_t n);  // fetched at the end
  template <class T>
  T* inout(T* host, std::int64_t n);
  PagedCache on_device(const PagedCache& cache, std::span<const TokenSlot> slots);
  void end();  // of an operation: fetch, release, forget

  std::unique_ptr<TestBackend> inner_;
  std::vector<void*> memory_;
  std::vector<Fetch> fetches_;
};

}  // namespace engramd::kernels::cuda
