// KvCache: the paged store behind attention and the Engram convolution: per token and layer the
// latent and rotated key part, per token and Engram layer the convolution's normed inputs. Entries
// are addressed by position, so truncating a sequence is only forgetting its last blocks.
// Engine thread only. Memory is reserved once; the process's is touched on first use.
// Not here: which sequence owns a block (sequence), when to make room (scheduler).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/model/model.h"
#include "kernels/backend.h"

namespace engramd::engine {

using BlockId = std::int32_t;

// "float32", "bfloat16" or "fp8" (e4m3 with a scale per token).
Result<kernels::DType> kv_cache_dtype_from(const std::string& name);

class KvCache {
 public:
  // `backend`: whose memory it lies in; it outlives the cache. nullptr: the process's.
  static Result<KvCache> make(const Model& model, kernels::DType dtype, std::int64_t n_blocks,
                              kernels::Backend* backend = nullptr);
  static std::int64_t bytes_per_block(const Model& model, kernels::DType dtype);

  KvCache(KvCache&& other) noexcept;
  KvCache& operator=(KvCache&& other) noexcept;
  ~KvCache();

  // A block has one holder when taken; it is free again when all have returned it. Entries of a
  // block with several holders are not written.
  std::optional<BlockId> take_block();  // nothing when all are in use
  void share_block(BlockId block) { ++n_holders_[static_cast<std::size_t>(block)]; }
  void return_block(BlockId block);
  bool is_shared(BlockId block) const { return n_holders_[static_cast<std::size_t>(block)] > 1; }
  std::int64_t free_blocks() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t n_blocks() const { return n_blocks_; }
  std::int64_t bytes_in_use() const;
  std::int64_t block_bytes() const { return block_bytes_; }

  // Views for one forward pass; block_tables must outlive it.
  struct Views {
    std::vector<kernels::PagedCache> latent;  // [num_hidden_layers]
    std::vector<kernels::PagedCache> conv;    // [Engram layers]
  };
  void point_views(const BlockId* const* block_tables, Views& views) const;

 private:
  KvCache() = default;

  struct Region {  // one layer's part of the mapping
    kernels::DType dtype = kernels::DType::kF32;
    int width = 0;
    std::int64_t data_offset_bytes = 0;
    std::int64_t scales_offset_bytes = -1;  // -1: none
  };
  void add_region(kernels::DType dtype, int width);

  kernels::Backend* backend_ = nullptr;  // of device memory
  std::uint8_t* base_ = nullptr;
  std::int64_t bytes_ = 0;
  std::int64_t n_blocks_ = 0;
  std::int64_t block_bytes_ = 0;
  std::size_t n_latent_ = 0;
  std::vector<Region> regions_;  // latent layers, then convolution layers
  std::vector<BlockId> free_;
  std::vector<std::int32_t> n_holders_;  // [n_blocks]
};

}  // namespace engramd::engine
