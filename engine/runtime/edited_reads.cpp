#include "engine/runtime/edited_reads.h"

#include <algorithm>

namespace engramd::engine {

std::vector<EditedRead> edited_reads(const Addresser& addresser, const Epoch& edits,
                                     std::span<const std::int32_t> classes, std::int64_t begin,
                                     std::int64_t end) {
  const EngramLayout& layout = addresser.layout();
  const auto n_tokens = static_cast<std::size_t>(end - begin);
  std::vector<std::int64_t> rows(n_tokens * static_cast<std::size_t>(layout.n_columns()));
  std::vector<NgramKey> keys(n_tokens * static_cast<std::size_t>(layout.n_orders()));
  std::vector<EditedRead> reads;
  for (int layer = 0; layer < static_cast<int>(layout.layers.size()); ++layer) {
    if (!edits.has_edits(layer)) continue;
    addresser.rows(layer, classes, begin, end, rows.data(), keys.data());
    append_edited_reads(layout, layer, begin, edits_in_effect(edits, layout, layer, rows, keys),
                        reads);
  }
  std::sort(reads.begin(), reads.end());  // layers were visited one after the other
  return reads;
}

void append_edited_reads(const EngramLayout& layout, int layer, std::int64_t begin,
                         std::span<const EffectiveEdit> edits, std::vector<EditedRead>& reads) {
  const auto n_columns = static_cast<std::size_t>(layout.n_columns());
  for (std::size_t i = 0; i < edits.size(); ++i) {
    if (edits[i].edit.image == nullptr) continue;
    reads.push_back({begin + static_cast<std::int64_t>(i / n_columns), layer,
                     static_cast<std::int32_t>(i % n_columns), edits[i].scope,
                     edits[i].edit.transaction});
  }
}

std::int64_t first_difference(std::span<const EditedRead> a, std::span<const EditedRead> b,
                              std::int64_t otherwise) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (in_a != a.end()) otherwise = std::min(otherwise, in_a->position);
  if (in_b != b.end()) otherwise = std::min(otherwise, in_b->position);
  return otherwise;
}

}  // namespace engramd::engine
