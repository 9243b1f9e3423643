#include "engine/runtime/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace engramd::engine {

using kernels::kBlockTokens;

namespace {

std::vector<TokenId> block_tokens(const Sequence& sequence, std::int64_t begin) {
  const auto first = sequence.tokens().begin() + begin;
  return {first, first + kBlockTokens};
}

}  // namespace

PrefixCache::PrefixCache(KvCache& cache, const Step& step) : cache_(&cache), step_(&step) {}

PrefixCache::~PrefixCache() {
  for (Node& root : roots_) {
    for (auto& [tokens, child] : root.children) release(*child);
  }
}

void PrefixCache::adopt_into(Sequence& sequence, const TableView& view, std::int64_t n_tokens_max) {
  std::vector<BlockId> blocks;
  std::vector<EditedRead> reads;
  Node* node = &root(sequence);
  ++clock_;
  for (std::int64_t begin = 0; begin + kBlockTokens <= n_tokens_max; begin += kBlockTokens) {
    const auto child = node->children.find(block_tokens(sequence, begin));
    if (child == node->children.end()) break;
    if (!holds_under(*child->second, sequence, view, begin)) {
      release(*child->second);
      node->children.erase(child);
      break;
    }
    node = child->second.get();
    node->last_used = clock_;
    cache_->share_block(node->block);
    blocks.push_back(node->block);
    reads.insert(reads.end(), node->reads.begin(), node->reads.end());
  }
  sequence.adopt(blocks, view.stamp(), std::move(reads));
}

bool PrefixCache::holds_under(Node& node, const Sequence& sequence, const TableView& view,
                              std::int64_t begin) const {
  if (node.stamp == view.stamp()) return true;
  auto reads = step_->edited_reads(sequence, view, begin, begin + kBlockTokens);
  // Transactions of another base count anew: reads say nothing across it.
  const bool holds =
      node.stamp.base == view.base_count ? reads == node.reads : node.stamp == view.same_as;
  if (!holds) return false;
  node.stamp = view.stamp();
  node.reads = std::move(reads);
  return true;
}

void PrefixCache::refresh(Sequence& sequence, const TableView& view) {
  if (sequence.stamp() == view.stamp()) return;
  auto reads = step_->edited_reads(sequence, view, 0, sequence.n_cached());
  std::int64_t n_valid = sequence.n_cached();
  if (sequence.stamp().base == view.base_count) {
    n_valid = first_difference(sequence.edited_reads(), reads, n_valid);
  } else if (sequence.stamp() != view.same_as) {
    n_valid = 0;
  }
  if (n_valid < sequence.n_cached()) {
    forget(sequence, n_valid);
    std::int64_t n_shared = 0;  // with other sequences that run
    for (const BlockId block : sequence.blocks()) n_shared += cache_->is_shared(block) ? 1 : 0;
    make_room(n_shared);
    sequence.truncate_cached(n_valid);
  }
  std::erase_if(reads,
                [&](const EditedRead& read) { return read.position >= sequence.n_cached(); });
  sequence.confirm_cached(view.stamp(), std::move(reads));
}

// The sequence's own blocks from the one that holds position `from` on.
void PrefixCache::forget(const Sequence& sequence, std::int64_t from) {
  Node* node = &root(sequence);
  for (std::int64_t begin = 0; begin + kBlockTokens <= sequence.size(); begin += kBlockTokens) {
    const auto child = node->children.find(block_tokens(sequence, begin));
    if (child == node->children.end()) return;
    const BlockId own = sequence.blocks()[static_cast<std::size_t>(begin / kBlockTokens)];
    if (child->second->block != own) return;
    if (begin + kBlockTokens > from) {
      release(*child->second);
      node->children.erase(child);
      return;
    }
    node = child->second.get();
  }
}

void PrefixCache::keep(const Sequence& sequence) {
  Node* node = &root(sequence);
  ++clock_;
  auto read = sequence.edited_reads().begin();
  for (std::int64_t begin = 0; begin + kBlockTokens <= sequence.n_cached(); begin += kBlockTokens) {
    std::vector<EditedRead> reads;
    for (; read != sequence.edited_reads().end() && read->position < begin + kBlockTokens; ++read) {
      reads.push_back(*read);
    }
    auto& child = node->children[block_tokens(sequence, begin)];
    const BlockId own = sequence.blocks()[static_cast<std::size_t>(begin / kBlockTokens)];
    const bool is_same_base = child && child->stamp.base == sequence.stamp().base;
    if (child && child->block != own && !(is_same_base && child->reads == reads)) {
      release(*child);  // computed from other rows
      child.reset();
    }
    if (!child) {
      child = std::make_unique<Node>();
      child->block = own;
      cache_->share_block(child->block);
      ++n_blocks_;
    }
    child->reads = std::move(reads);
    child->stamp = sequence.stamp();
    child->last_used = clock_;
    node = child.get();
  }
}

void PrefixCache::release(Node& node) {
  for (auto& [tokens, child] : node.children) release(*child);
  cache_->return_block(node.block);
  --n_blocks_;
}

void PrefixCache::make_room(std::int64_t n_blocks) {
  while (cache_->free_blocks() < n_blocks && drop_oldest()) {
  }
}

// The least recently used block that nothing follows and nobody else holds. A sequence that holds a
// block holds all before it, so a block that only this cache holds has no held one after it: while
// one is left to be freed, such a last one is found.
bool PrefixCache::drop_oldest() {
  Children* holder = nullptr;
  Children::iterator oldest;
  std::vector<Children*> open = {&roots_[0].children, &roots_[1].children};
  while (!open.empty()) {
    Children& children = *open.back();
    open.pop_back();
    for (auto child = children.begin(); child != children.end(); ++child) {
      Node& node = *child->second;
      if (!node.children.empty()) {
        open.push_back(&node.children);
      } else if (!cache_->is_shared(node.block) &&
                 (holder == nullptr || node.last_used < oldest->second->last_used)) {
        holder = &children;
        oldest = child;
      }
    }
  }
  if (holder == nullptr) return false;
  release(*oldest->second);
  holder->erase(oldest);
  return true;
}

}  // namespace engramd::engine
