// Addresser: compressed ids to row indices, the hash of arXiv 2601.07372 section 2 and its
// variants. Stateless and const: history comes in as an argument, so chunked prefill, prefix reuse
// and rollback are the caller's choice of a span. 64-bit integers end to end (products exceed
// 2^53) that wrap, with the floor remainder of the signed value (only Qwen's can be negative).
//
// History: a predecessor is blank, and every older one with it, when it lies before the start, in
// another document, is dead (kDeadClass), or, for Qwen, is the first end-of-text id. The blank is
// the pad class; for Qwen the end-of-text id itself. A dead current token blanks all slots.
// Left-padded batches: demo, V4.1, peft and the bundled model hash their pads like tokens; Qwen's
// caller writes the end-of-text id into padded positions first.
// engram-peft (EngramLayer::oldest_first): the N-grams of all orders begin where the widest begins,
// so the bigram at t of a layout with orders 2 and 3 is (t-2, t-1), and an N-gram is bypassed
// wherever the widest is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engram/layout.h"

namespace engramd::engine {

inline constexpr std::int32_t kDeadClass = -1;  // V4.1 image tokens: gate 0, blocks look-back

// The N-gram of one order that ends at one position.
struct NgramKey {
  std::uint64_t mix = 0;  // the XOR of products before the modulus; identifies the N-gram
  bool bypassed = false;  // fewer predecessors than the order needs (start, document border, dead)
};

class Addresser {
 public:
  // `pad_class`: the compressed id of layout.config.pad_token_id. The layout must outlive this.
  Addresser(const EngramLayout& layout, std::int32_t pad_class);

  const EngramLayout& layout() const { return *layout_; }

  // How many tokens of the longest N-gram that ends at `position` may be read, the current one
  // included: 0 (dead) .. max_ngram_size. An order above that is bypassed (peft: every order, when
  // it is less than max_ngram_size).
  int n_readable(std::span<const std::int32_t> classes, std::int64_t position,
                 std::span<const std::int32_t> documents = {}) const;

  // `classes`: the sequence from its start; rows for positions [begin, end).
  // rows: [end - begin, n_columns] row index with the column's offset, for layer slot `layer`
  // (index into layout().layers). keys: nullptr or [end - begin, n_orders].
  // documents: empty (one document), or the document number of each position.
  void rows(int layer, std::span<const std::int32_t> classes, std::int64_t begin, std::int64_t end,
            std::int64_t* rows, NgramKey* keys = nullptr,
            std::span<const std::int32_t> documents = {}) const;

 private:
  const EngramLayout* layout_;
  std::int32_t blank_class_;
  std::int32_t cut_class_;  // as a predecessor it ends history; kDeadClass: nothing but the dead
};

// NgramKey::mix of the N-gram of `classes`, oldest first.
std::uint64_t mix_of(const EngramLayer& layer, std::span<const std::int32_t> classes);

// The row that an N-gram reads in one column (order-major, then head) of a layer.
std::int64_t row_of(const EngramLayer& layer, int column, std::uint64_t mix);

// Owner tag of an N-gram in a table that carries tags: top 16 bits of mix * 0x9E3779B97F4A7C15,
// 0 replaced by 1 (0 marks a row that no training N-gram reached).
std::uint16_t owner_tag(std::uint64_t mix);

}  // namespace engramd::engine
