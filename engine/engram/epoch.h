// Epoch: an immutable snapshot of all edits to the tables of one model. A forward pass holds one
// from start to end; committing an edit makes a new one and swaps a pointer (table_store). Lookups
// are a hash probe, from any thread.
// Two scopes: an edit of a `row` changes the bucket for every N-gram that shares it, as any other
// engine would read it; an edit of an `ngram` is bound to the exact N-gram by its 64-bit mix, so
// that nothing else that shares the bucket changes. The N-gram's image wins over the row's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace engramd::engine {

struct RowEdit {
  const std::uint8_t* image = nullptr;  // codes, then scales; nullptr: not edited
  std::int64_t transaction = 0;         // the one that wrote it
};

struct NgramColumn {      // one N-gram in one column
  int column = 0;         // order-major, then head, as in EngramLayout
  std::uint64_t mix = 0;  // NgramKey::mix of the column's order
};

class Epoch {
 public:
  virtual ~Epoch() = default;
  virtual std::uint64_t number() const = 0;     // grows with every commit; 0: no edits
  virtual bool has_edits(int layer) const = 0;  // layer: index into EngramLayout::layers
  virtual RowEdit row(int layer, std::int64_t row) const = 0;
  virtual RowEdit ngram(int layer, const NgramColumn& ngram) const = 0;
  // Many at once, so that their memory reads overlap; into edits [rows.size()], [ngrams.size()].
  virtual void rows(int layer, std::span<const std::int64_t> rows, RowEdit* edits) const = 0;
  virtual void ngrams(int layer, std::span<const NgramColumn> ngrams, RowEdit* edits) const = 0;
};

using EpochPointer = std::shared_ptr<const Epoch>;

}  // namespace engramd::engine
