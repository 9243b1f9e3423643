#include "tests/kernels/cuda/hosted_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace engramd::kernels::cuda {

HostedBackend::HostedBackend(std::unique_ptr<TestBackend> inner) : inner_(std::move(inner)) {}
HostedBackend::~HostedBackend() = default;

template <class T>
T* HostedBackend::in(const T* host, std::int64_t n) {
  if (host == nullptr) return nullptr;
  const std::int64_t bytes = n * static_cast<std::int64_t>(sizeof(T));
  memory_.push_back(inner_->allocate(bytes));
  inner_->upload(memory_.back(), host, bytes);
  return static_cast<T*>(memory_.back());
}
template <class T>
T* HostedBackend::out(T* host, std::int64_t n) {
  if (host == nullptr) return nullptr;
  const std::int64_t bytes = n * static_cast<std::int64_t>(sizeof(T));
  memory_.push_back(inner_->allocate(bytes));
  fetches_.push_back({host, memory_.back(), bytes});
  return static_cast<T*>(memory_.back());
}
template <class T>
T* HostedBackend::inout(T* host, std::int64_t n) {
  T* device = in(host, n);
  if (host != nullptr) {
    fetches_.push_back({host, device, n * static_cast<std::int64_t>(sizeof(T))});
  }
  return device;
}

PagedCache HostedBackend::on_device(const PagedCache& cache, std::span<const TokenSlot> slots) {
  std::int64_t n_entries = 0;
  for (const TokenSlot& slot : slots) {
    for (std::int32_t first = 0; first <= slot.position; first += kBlockTokens) {
      n_entries = std::max(n_entries, cache.entry(slot.sequence, first) + kBlockTokens);
    }
  }
  PagedCache copy = cache;
  copy.data = inout(static_cast<std::uint8_t*>(cache.data),
                    n_entries * cache.width * bytes_of(cache.dtype));
  if (cache.dtype == DType::kF8E4M3) copy.scales = inout(cache.scales, n_entries);
  return copy;
}

void HostedBackend::end() {
  for (const Fetch& fetch : fetches_) inner_->download(fetch.to, fetch.from, fetch.bytes);
  for (void* memory : memory_) inner_->release(memory);
  fetches_.clear();
  memory_.clear();
  inner_->forget_weights();
}

void* HostedBackend::allocate(std::int64_t bytes) {
  return ::operator new(static_cast<std::size_t>(bytes));
}
void HostedBackend::release(void* memory) {
  ::operator delete(memory);
}
void HostedBackend::upload(void* to, const void* from, std::int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
void HostedBackend::download(void* to, const void* from, std::int64_t bytes) {
  upload(to, from, bytes);
}

void HostedBackend::gather_rows(const float* x, std::span<const std::int32_t> rows,
                                std::int64_t width, float* to) {
  const std::int64_t n = rows.empty() ? 0 : std::int64_t{rows.back()} + 1;
  const float* from = in(x, n * width);
  inner_->gather_rows(from, rows, width, out(to, static_cast<std::int64_t>(rows.size()) * width));
  end();
}
void HostedBackend::round_values(DType dtype, std::int64_t n, float* x) {
  inner_->round_values(dtype, n, inout(x, n));
  end();
}
void HostedBackend::embed(const TensorView& table, std::span<const std::int32_t> tokens,
                          int n_streams, float* streams) {
  const auto n_tokens = static_cast<std::int64_t>(tokens.size());
  inner_->embed(table, tokens, n_streams, out(streams, n_tokens * n_streams * table.shape[1]));
  end();
}
void HostedBackend::rms_norm(const float* x, const float* weight, float eps, std::int64_t n_rows,
                             std::int64_t width, float* to) {
  const float* from = in(x, n_rows * width);
  inner_->rms_norm(from, weight, eps, n_rows, width, out(to, n_rows * width));
  end();
}
void HostedBackend::linear(const float* x, std::int64_t n_tokens,
                           std::span<const LinearTask> tasks) {
  const float* from = in(x, n_tokens * tasks.front().linear->in_features());
  std::vector<LinearTask> inner(tasks.begin(), tasks.end());
  for (LinearTask& task : inner) task.out = out(task.out, n_tokens * task.linear->out_features());
  inner_->linear(from, n_tokens, inner);
  end();
}
void HostedBackend::hyper_read(const HyperConnection& hc, const float* streams,
                               std::int64_t n_tokens, float* x, float* post, float* comb) {
  const std::int64_t n = hc.n_streams;
  const float* h = in(streams, n_tokens * n * hc.hidden_size);
  inner_->hyper_read(hc, h, n_tokens, out(x, n_tokens * hc.hidden_size), out(post, n_tokens * n),
                     out(comb, n_tokens * n * n));
  end();
}
void HostedBackend::hyper_write(const HyperConnection& hc, const float* y, const float* post,
                                const float* comb, std::int64_t n_tokens, float* streams) {
  const std::int64_t n = hc.n_streams;
  inner_->hyper_write(hc, in(y, n_tokens * hc.hidden_size), in(post, n_tokens * n),
                      in(comb, n_tokens * n * n), n_tokens,
                      inout(streams, n_tokens * n * hc.hidden_size));
  end();
}
void HostedBackend::hyper_head(const HyperConnection& hc, const float* streams,
                               std::int64_t n_tokens, float* x) {
  const float* h = in(streams, n_tokens * hc.n_streams * hc.hidden_size);
  inner_->hyper_head(hc, h, n_tokens, out(x, n_tokens * hc.hidden_size));
  end();
}
void HostedBackend::latent_attention(const LatentAttention& attention, float* query,
                                     const float* latent, std::span<const TokenSlot> slots,
                                     const PagedCache& cache, float* to) {
  const auto n_tokens = static_cast<std::int64_t>(slots.size());
  const PagedCache paged = on_device(cache, slots);
  inner_->latent_attention(attention, inout(query, n_tokens * attention.query_width()),
                           in(latent, n_tokens * attention.latent_width()), slots, paged,
                           out(to, n_tokens * attention.output_width()));
  end();
}
void HostedBackend::feed_forward(const FeedForward& weights, const float* x, std::int64_t n_tokens,
                                 float* to) {
  const float* from = in(x, n_tokens * weights.gate_proj.in_features());
  inner_->feed_forward(weights, from, n_tokens,
                       out(to, n_tokens * weights.down_proj.out_features()));
  end();
}
void HostedBackend::mixture_of_experts(const MixtureOfExperts& weights, const float* x,
                                       std::int64_t n_tokens, float* to, std::int32_t* chosen) {
  const std::int64_t size = n_tokens * weights.gate.in_features();
  const float* from = in(x, size);
  inner_->mixture_of_experts(weights, from, n_tokens, out(to, size), chosen);
  end();
}
void HostedBackend::engram_gather(const RowFormat& format, const RowBytes* rows,
                                  std::int64_t n_tokens, int n_columns, float* to) {
  inner_->engram_gather(format, rows, n_tokens, n_columns,
                        out(to, n_tokens * n_columns * format.n_columns));
  end();
}
void HostedBackend::engram_update(const EngramGate& gate, const float* key, const float* value,
                                  std::span<const TokenSlot> slots, const PagedCache& history,
                                  const std::uint8_t* enabled, float* streams,
                                  const EngramGateTrace& trace) {
  const auto n_tokens = static_cast<std::int64_t>(slots.size());
  const std::int64_t width = gate.hidden_size;
  const std::int64_t update = n_tokens * gate.n_streams * width;
  const PagedCache paged = gate.conv == nullptr ? history : on_device(history, slots);
  inner_->engram_update(gate, in(key, update), in(value, n_tokens * width), slots, paged, enabled,
                        inout(streams, gate.one_hidden_state ? n_tokens * width : update), trace);
  end();
}

}  // namespace engramd::kernels::cuda
