#include "engine/runtime/sequence.h"

#include <algorithm>
#include <utility>

namespace engramd::engine {

using kernels::kBlockTokens;

Sequence::Sequence(const TokenMap& map, KvCache& cache, bool engram_enabled)
    : map_(&map), cache_(&cache), engram_enabled_(engram_enabled) {}

Sequence::~Sequence() {
  for (const BlockId block : blocks_) cache_->return_block(block);
}

void Sequence::append(TokenId token) {
  tokens_.push_back(token);
  if (!map_->classes.empty()) {
    classes_.push_back(map_->classes[static_cast<std::size_t>(token)]);
  }
}

bool Sequence::reserve(std::int64_t n_tokens) {
  const std::int64_t wanted = (n_tokens + kBlockTokens - 1) / kBlockTokens;
  while (static_cast<std::int64_t>(blocks_.size()) < wanted) {
    const auto block = cache_->take_block();
    if (!block) return false;
    blocks_.push_back(*block);
  }
  return true;
}

void Sequence::truncate_cached(std::int64_t n_tokens) {
  if (n_tokens >= n_cached_) return;
  n_cached_ = n_tokens;
  // Positions from n_tokens on are written again, which others must not see.
  for (auto i = static_cast<std::size_t>(n_tokens / kBlockTokens); i < blocks_.size(); ++i) {
    if (!cache_->is_shared(blocks_[i])) continue;
    n_cached_ = std::min(n_cached_, static_cast<std::int64_t>(i) * kBlockTokens);
    const auto block = cache_->take_block();
    ENGRAMD_ASSERT(block.has_value());
    cache_->return_block(std::exchange(blocks_[i], *block));
  }
  std::erase_if(edited_reads_,
                [this](const EditedRead& read) { return read.position >= n_cached_; });
}

void Sequence::set_cached(std::int64_t n_tokens, TableStamp stamp,
                          std::span<const EditedRead> reads) {
  n_cached_ = n_tokens;
  stamp_ = stamp;
  edited_reads_.insert(edited_reads_.end(), reads.begin(), reads.end());
}

void Sequence::confirm_cached(TableStamp stamp, std::vector<EditedRead> reads) {
  stamp_ = stamp;
  edited_reads_ = std::move(reads);
}

void Sequence::adopt(std::span<const BlockId> blocks, TableStamp stamp,
                     std::vector<EditedRead> reads) {
  ENGRAMD_ASSERT(n_cached_ == 0 && blocks_.empty());
  blocks_.assign(blocks.begin(), blocks.end());
  n_cached_ = static_cast<std::int64_t>(blocks.size()) * kBlockTokens;
  confirm_cached(stamp, std::move(reads));
}

}  // namespace engramd::engine
