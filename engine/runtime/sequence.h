// Sequence: one token timeline with its compressed ids (the N-gram look-back) and the cache blocks
// that hold what was computed for its first n_cached() tokens. Engine thread only; gives its blocks
// back when destroyed.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/runtime/kv_cache.h"

namespace engramd::engine {

class Sequence {
 public:
  Sequence(const TokenMap& map, KvCache& cache, bool engram_enabled);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence();

  void append(TokenId token);
  // Takes blocks for the first n_tokens positions; false when the cache has none left (then
  // nothing is lost: what was taken stays).
  bool reserve(std::int64_t n_tokens);
  // Forgets everything computed from position n_tokens on; the tokens stay.
  void truncate_cached(std::int64_t n_tokens);
  void set_cached(std::int64_t n_tokens) { n_cached_ = n_tokens; }

  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::vector<std::int32_t>& classes() const { return classes_; }
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t n_cached() const { return n_cached_; }
  bool engram_enabled() const { return engram_enabled_; }
  const BlockId* block_table() const { return blocks_.data(); }

 private:
  const TokenMap* map_;
  KvCache* cache_;
  bool engram_enabled_;
  std::vector<TokenId> tokens_;
  std::vector<std::int32_t> classes_;  // parallel to tokens_; empty when the model has no Engram
  std::vector<BlockId> blocks_;
  std::int64_t n_cached_ = 0;
};

}  // namespace engramd::engine
