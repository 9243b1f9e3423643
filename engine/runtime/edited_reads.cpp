#include "engine/runtime/edited_reads.h"

#include <algorithm>

namespace engramd::engine {

std::vector<EditedRead> edited_reads(const Addresser& addresser, const Epoch& edits,
                                     std::span<const std::int32_t> classes, std::int64_t begin,
                                     std::int64_t end) {
  const EngramLayout& layout = addresser.layout();
  const auto n_columns = static_cast<std::size_t>(layout.n_columns());
  const auto n_orders = static_cast<std::size_t>(layout.n_orders());
  const auto n_tokens = static_cast<std::size_t>(end - begin);
  std::vector<std::int64_t> rows;
  std::vector<NgramKey> keys;
  std::vector<EditedRead> found;
  for (int layer = 0; layer < static_cast<int>(layout.layers.size()); ++layer) {
    if (!edits.has_edits(layer)) continue;
    rows.resize(n_tokens * n_columns);
    keys.resize(n_tokens * n_orders);
    addresser.rows(layer, classes, begin, end, rows.data(), keys.data());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto column = static_cast<std::int32_t>(i % n_columns);
      const std::size_t token = i / n_columns;
      const NgramKey& key =
          keys[token * n_orders + static_cast<std::size_t>(layout.order_of(column) - 2)];
      const EffectiveEdit effective = edit_in_effect(edits, layer, column, rows[i], key);
      if (effective.edit.image == nullptr) continue;
      found.push_back({begin + static_cast<std::int64_t>(token), layer, column, effective.scope,
                       effective.edit.transaction});
    }
  }
  std::sort(found.begin(), found.end());  // layers were visited one after the other
  return found;
}

std::int64_t first_difference(std::span<const EditedRead> a, std::span<const EditedRead> b,
                              std::int64_t otherwise) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (in_a != a.end()) otherwise = std::min(otherwise, in_a->position);
  if (in_b != b.end()) otherwise = std::min(otherwise, in_b->position);
  return otherwise;
}

}  // namespace engramd::engine
