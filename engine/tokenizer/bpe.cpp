#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>

namespace engramd::engine {
namespace {

// Up to here scanning all ranks for each merge beats a heap.
constexpr std::size_t kShortPieceBytes = 48;

}  // namespace

Bpe::Bpe(const std::array<TokenId, 256>& byte_ids, const std::vector<Merge>& merges)
    : byte_ids_(byte_ids), entries_(std::bit_ceil(merges.size() * 2 + 1)) {
  mask_ = entries_.size() - 1;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    Entry& entry = entries_[slot_of(merge.left, merge.right)];
    entry = {merge.left, merge.right, static_cast<std::uint32_t>(rank), merge.result};
  }
}

std::size_t Bpe::slot_of(TokenId left, TokenId right) const {
  const std::uint64_t key = static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
                            static_cast<std::uint32_t>(right);
  std::size_t slot = (key * 0x9E3779B97F4A7C15u) >> 32 & mask_;  // Fibonacci hashing
  while (entries_[slot].left >= 0 &&
         (entries_[slot].left != left || entries_[slot].right != right)) {
    slot = (slot + 1) & mask_;
  }
  return slot;
}

const Bpe::Entry& Bpe::find(TokenId left, TokenId right) const {
  return entries_[slot_of(left, right)];
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  if (piece.size() > kShortPieceBytes) return merge_long(piece, ids);
  TokenId symbols[kShortPieceBytes];
  std::size_t n_symbols = 0;
  for (const char c : piece) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(c)];
    if (id >= 0) symbols[n_symbols++] = id;
  }
  merge_short(symbols, n_symbols, ids);
}

void Bpe::merge_short(TokenId* symbols, std::size_t n_symbols, std::vector<TokenId>& ids) const {
  // pairs[i]: what symbols[i] and symbols[i + 1] merge into
  const Entry* pairs[kShortPieceBytes];
  for (std::size_t i = 0; i + 1 < n_symbols; ++i) pairs[i] = &find(symbols[i], symbols[i + 1]);
  while (n_symbols > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n_symbols; ++i) {
      if (pairs[i]->rank < pairs[best]->rank) best = i;
    }
    if (pairs[best]->rank == kNoRank) break;
    symbols[best] = pairs[best]->result;
    std::copy(symbols + best + 2, symbols + n_symbols, symbols + best + 1);
    --n_symbols;
    if (best + 1 < n_symbols) {
      std::copy(pairs + best + 2, pairs + n_symbols, pairs + best + 1);
      pairs[best] = &find(symbols[best], symbols[best + 1]);
    }
    if (best > 0) pairs[best - 1] = &find(symbols[best - 1], symbols[best]);
  }
  ids.insert(ids.end(), symbols, symbols + n_symbols);
}

void Bpe::merge_long(std::string_view piece, std::vector<TokenId>& ids) const {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Symbol {
    TokenId id;  // -1: merged into its left neighbour
    std::uint32_t previous;
    std::uint32_t next;
  };
  struct Candidate {
    const Entry* merge;
    std::uint32_t position;                         // of the left symbol
    bool operator<(const Candidate& other) const {  // std::priority_queue has the greatest on top
      return merge->rank != other.merge->rank ? merge->rank > other.merge->rank
                                              : position > other.position;
    }
  };
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (const char c : piece) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(c)];
    const auto position = static_cast<std::uint32_t>(symbols.size());
    if (id >= 0) symbols.push_back({id, position == 0 ? kNone : position - 1, position + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = kNone;

  std::vector<Candidate> candidates;
  const auto candidate_at = [&](std::uint32_t position) -> Candidate {
    const std::uint32_t next = symbols[position].next;
    return {next == kNone ? nullptr : &find(symbols[position].id, symbols[next].id), position};
  };
  const auto is_merge = [](const Candidate& c) { return c.merge && c.merge->rank != kNoRank; };
  for (std::uint32_t i = 0; i < symbols.size(); ++i) {
    if (const Candidate c = candidate_at(i); is_merge(c)) candidates.push_back(c);
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(candidates));
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.position];
    // An outdated candidate: one of its two symbols has been merged meanwhile.
    if (left.id != top.merge->left || left.next == kNone ||
        symbols[left.next].id != top.merge->right) {
      continue;
    }
    Symbol& right = symbols[left.next];
    left.id = top.merge->result;
    left.next = right.next;
    right.id = -1;
    if (left.next != kNone) symbols[left.next].previous = top.position;
    if (const Candidate c = candidate_at(top.position); is_merge(c)) queue.push(c);
    if (left.previous == kNone) continue;
    if (const Candidate c = candidate_at(left.previous); is_merge(c)) queue.push(c);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
}

}  // namespace engramd::engine
