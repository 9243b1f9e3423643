// PrefixCache: whole blocks that finished sequences left in the KV cache, found again by the tokens
// they hold, so that the next turn of a chat computes only what is new. Results do not change:
// every token's entries depend on nothing but its prefix (see kernels/backend.h) and the table rows
// that prefix reads, which are checked against the current edits before a block is given out. A
// block is held here and by every sequence that uses it; the least recently used ones go when a
// sequence needs room. Engine thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/runtime/sequence.h"
#include "engine/runtime/step.h"

namespace engramd::engine {

class PrefixCache {
 public:
  // Both outlive this.
  PrefixCache(KvCache& cache, const Step& step);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Gives a new sequence the blocks of its longest known prefix of at most n_tokens_max tokens.
  // Blocks that read a row which `view` shows otherwise are dropped on the way, with all after
  // them.
  void adopt_into(Sequence& sequence, const TableView& view, std::int64_t n_tokens_max);
  // Makes a running sequence forget what it has cached from the first position on that reads a row
  // which `view` shows otherwise.
  void refresh(Sequence& sequence, const TableView& view);
  // Keeps the whole blocks of what the sequence has computed.
  void keep(const Sequence& sequence);
  // Drops blocks until the KV cache has n_blocks free, or nothing is left that would free one.
  void make_room(std::int64_t n_blocks);

  std::int64_t n_blocks() const { return n_blocks_; }

 private:
  struct Node {  // one block of tokens after its parent's
    BlockId block = -1;
    TableStamp stamp;
    std::vector<EditedRead> reads;  // of the block's positions, under `stamp`
    std::uint64_t last_used = 0;
    std::map<std::vector<TokenId>, std::unique_ptr<Node>> children;
  };
  using Children = std::map<std::vector<TokenId>, std::unique_ptr<Node>>;

  Node& root(const Sequence& sequence) { return roots_[sequence.engram_enabled() ? 1 : 0]; }
  bool holds_under(Node& node, const Sequence& sequence, const TableView& view,
                   std::int64_t begin) const;
  void forget(const Sequence& sequence, std::int64_t from);
  void release(Node& node);  // with everything below
  bool drop_oldest();

  KvCache* cache_;
  const Step* step_;
  Node roots_[2];  // without Engram, with
  std::int64_t n_blocks_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace engramd::engine
