// Sequence: one token timeline with its compressed ids (the N-gram look-back), the cache blocks
// that hold what was computed for its first n_cached() tokens, and which table edits those were
// computed from. Engine thread only; gives its blocks back when destroyed. Not here: what the edits
// are (edited_reads, step), blocks that outlive a sequence (prefix_cache).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/runtime/edited_reads.h"
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
  // Forgets everything computed from position n_tokens on; the tokens stay. A block that others
  // hold too is replaced, and what lay in it before n_tokens is forgotten with it: the cache must
  // have a block free for each.
  void truncate_cached(std::int64_t n_tokens);
  // `reads`: of the positions that became cached.
  void set_cached(std::int64_t n_tokens, TableStamp stamp, std::span<const EditedRead> reads);
  // What is cached holds under `stamp` too, by these reads of it.
  void confirm_cached(TableStamp stamp, std::vector<EditedRead> reads);
  // Takes over whole blocks of a sequence with the same first tokens; only before anything is
  // cached or reserved. The caller's hold on the blocks becomes this sequence's.
  void adopt(std::span<const BlockId> blocks, TableStamp stamp, std::vector<EditedRead> reads);

  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::vector<std::int32_t>& classes() const { return classes_; }
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t n_cached() const { return n_cached_; }
  bool engram_enabled() const { return engram_enabled_; }
  std::span<const BlockId> blocks() const { return blocks_; }
  const BlockId* block_table() const { return blocks_.data(); }
  TableStamp stamp() const { return stamp_; }  // of what is cached
  std::span<const EditedRead> edited_reads() const { return edited_reads_; }

 private:
  const TokenMap* map_;
  KvCache* cache_;
  bool engram_enabled_;
  std::vector<TokenId> tokens_;
  std::vector<std::int32_t> classes_;  // parallel to tokens_; empty when the model has no Engram
  std::vector<BlockId> blocks_;
  std::int64_t n_cached_ = 0;
  TableStamp stamp_;
  std::vector<EditedRead> edited_reads_;  // of the cached positions
};

}  // namespace engramd::engine
