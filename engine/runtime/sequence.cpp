#include "engine/runtime/sequence.h"

#include <algorithm>

namespace engramd::engine {

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
  const std::int64_t wanted = (n_tokens + kernels::kBlockTokens - 1) / kernels::kBlockTokens;
  while (static_cast<std::int64_t>(blocks_.size()) < wanted) {
    const auto block = cache_->take_block();
    if (!block) return false;
    blocks_.push_back(*block);
  }
  return true;
}

void Sequence::truncate_cached(std::int64_t n_tokens) {
  n_cached_ = std::min(n_cached_, n_tokens);
}

}  // namespace engramd::engine
