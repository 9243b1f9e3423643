// EditedReads: which edits a span of a sequence reads. What was computed from the same edits under
// one epoch holds under another, so comparing two of these finds the first position at which a
// cached prefix is out of date, to the position. Empty while nothing is edited.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/engram/prefetcher.h"

namespace engramd::engine {

struct EditedRead {
  std::int64_t position = 0;
  std::int32_t layer = 0;  // index into EngramLayout::layers
  std::int32_t column = 0;
  EditScope scope = EditScope::kRow;
  std::int64_t transaction = 0;  // that wrote the image: identifies it

  auto operator<=>(const EditedRead&) const = default;
};

// Of positions [begin, end), ascending. classes: the sequence from its start.
std::vector<EditedRead> edited_reads(const Addresser& addresser, const Epoch& edits,
                                     std::span<const std::int32_t> classes, std::int64_t begin,
                                     std::int64_t end);

// Of one layer's part of a pass: edits [n_tokens, n_columns] of positions from `begin` on. Appends;
// sort them when every layer is in.
void append_edited_reads(const EngramLayout& layout, int layer, std::int64_t begin,
                         std::span<const EffectiveEdit> edits, std::vector<EditedRead>& reads);

// The first position at which the two differ; `otherwise` when they do not.
std::int64_t first_difference(std::span<const EditedRead> a, std::span<const EditedRead> b,
                              std::int64_t otherwise);

}  // namespace engramd::engine
