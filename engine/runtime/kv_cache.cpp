#include "engine/runtime/kv_cache.h"

#include <utility>

#include <sys/mman.h>

#include "kernels/device_error.h"

namespace engramd::engine {

namespace {

using kernels::DType;

std::int64_t entry_bytes(DType dtype, int width) {
  const std::int64_t scale = dtype == DType::kF8E4M3 ? std::int64_t{sizeof(float)} : 0;
  return kernels::bytes_of(dtype) * width + scale;
}

int latent_width(const Model& model) {
  return model.config.kv_lora_rank + model.config.qk_rope_head_dim;
}

int conv_width(const Model& model) {
  return model.config.hc_mult * model.config.hidden_size;
}

}  // namespace

Result<DType> kv_cache_dtype_from(const std::string& name) {
  if (name == "float32") return DType::kF32;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "fp8") return DType::kF8E4M3;
  return invalid_argument("kv_cache_dtype: expected float32, bfloat16 or fp8, got " + name);
}

std::int64_t KvCache::bytes_per_block(const Model& model, DType dtype) {
  const auto n_engram = static_cast<std::int64_t>(model.layout.layers.size());
  return kernels::kBlockTokens *
         (model.config.num_hidden_layers * entry_bytes(dtype, latent_width(model)) +
          n_engram * entry_bytes(DType::kF32, conv_width(model)));
}

Result<KvCache> KvCache::make(const Model& model, DType dtype, std::int64_t n_blocks,
                              kernels::Backend* backend) {
  KvCache cache;
  cache.n_blocks_ = n_blocks;
  cache.block_bytes_ = bytes_per_block(model, dtype);
  cache.n_latent_ = static_cast<std::size_t>(model.config.num_hidden_layers);
  for (std::size_t i = 0; i < cache.n_latent_; ++i) cache.add_region(dtype, latent_width(model));
  for (std::size_t i = 0; i < model.layout.layers.size(); ++i) {
    cache.add_region(DType::kF32, conv_width(model));
  }
  void* memory = nullptr;
  if (backend != nullptr && !backend->on_host()) {
    cache.backend_ = backend;
    try {
      memory = backend->allocate(cache.bytes_);
    } catch (const kernels::DeviceError& error) {
      return unavailable(std::string("the KV cache: ") + error.what() +
                         "; lower inference.max_batch_size or inference.kv_cache_limit_gb");
    }
  } else {  // reserved, not committed: a block costs memory from its first use on
    memory = mmap(nullptr, static_cast<std::size_t>(cache.bytes_), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return environment_error("cannot reserve " + std::to_string(cache.bytes_) +
                               " bytes for the KV cache; lower inference.max_batch_size");
    }
  }
  cache.base_ = static_cast<std::uint8_t*>(memory);
  cache.n_holders_.assign(static_cast<std::size_t>(n_blocks), 0);
  for (std::int64_t block = n_blocks; block-- > 0;) {
    cache.free_.push_back(static_cast<BlockId>(block));  // low numbers are taken first
  }
  return cache;
}

void KvCache::add_region(DType dtype, int width) {
  constexpr std::int64_t kAlignment = 4096;  // regions start on pages
  const auto aligned = [](std::int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  const std::int64_t entries = n_blocks_ * kernels::kBlockTokens;
  Region region{dtype, width, bytes_, -1};
  bytes_ += aligned(entries * kernels::bytes_of(dtype) * width);
  if (dtype == DType::kF8E4M3) {
    region.scales_offset_bytes = bytes_;
    bytes_ += aligned(entries * static_cast<std::int64_t>(sizeof(float)));
  }
  regions_.push_back(region);
}

KvCache::KvCache(KvCache&& other) noexcept {
  *this = std::move(other);
}

KvCache& KvCache::operator=(KvCache&& other) noexcept {
  std::swap(backend_, other.backend_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(n_blocks_, other.n_blocks_);
  std::swap(block_bytes_, other.block_bytes_);
  std::swap(n_latent_, other.n_latent_);
  std::swap(regions_, other.regions_);
  std::swap(free_, other.free_);
  std::swap(n_holders_, other.n_holders_);
  return *this;
}

KvCache::~KvCache() {
  if (backend_ != nullptr) {
    backend_->release(base_);
  } else if (base_ != nullptr) {
    munmap(base_, static_cast<std::size_t>(bytes_));
  }
}

std::optional<BlockId> KvCache::take_block() {
  if (free_.empty()) return std::nullopt;
  const BlockId block = free_.back();
  free_.pop_back();
  n_holders_[static_cast<std::size_t>(block)] = 1;
  return block;
}

void KvCache::return_block(BlockId block) {
  std::int32_t& n_holders = n_holders_[static_cast<std::size_t>(block)];
  ENGRAMD_ASSERT(n_holders > 0);
  if (--n_holders == 0) free_.push_back(block);
}

std::int64_t KvCache::bytes_in_use() const {
  return (n_blocks_ - free_blocks()) * block_bytes_;
}

void KvCache::point_views(const BlockId* const* block_tables, Views& views) const {
  views.latent.clear();
  views.conv.clear();
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    kernels::PagedCache view;
    view.data = base_ + region.data_offset_bytes;
    view.dtype = region.dtype;
    view.width = region.width;
    view.block_tables = block_tables;
    if (region.scales_offset_bytes >= 0) {
      view.scales = reinterpret_cast<float*>(base_ + region.scales_offset_bytes);
    }
    (i < n_latent_ ? views.latent : views.conv).push_back(view);
  }
}

}  // namespace engramd::engine
