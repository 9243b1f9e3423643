#include "engine/inspect/lookup_report.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace engramd::engine {
namespace {

std::string joined(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

// Indexes into the layout's layers, in the layout's order.
Result<std::vector<int>> layer_slots(const EngramLayout& layout,
                                     const std::vector<std::int64_t>& asked) {
  const std::vector<std::int64_t>& ids = layout.config.layer_ids;
  for (const std::int64_t id : asked) {
    if (std::find(ids.begin(), ids.end(), id) != ids.end()) continue;
    return invalid_argument("layer " + std::to_string(id) +
                            " has no Engram; expected one of: " + joined(ids));
  }
  std::vector<int> slots;
  for (std::size_t slot = 0; slot < ids.size(); ++slot) {
    const bool wanted =
        asked.empty() || std::find(asked.begin(), asked.end(), ids[slot]) != asked.end();
    if (wanted) slots.push_back(static_cast<int>(slot));
  }
  return slots;
}

// The N-grams that end at `at`, whatever the layer: [n_orders].
Result<std::vector<LookupNgram>> ngrams_ending_at(std::size_t at, std::span<const TokenId> ids,
                                                  std::span<const std::int32_t> classes,
                                                  const Tokenizer& tokenizer,
                                                  const Addresser& addresser) {
  std::vector<LookupNgram> ngrams;
  const EngramLayout& layout = addresser.layout();
  const int readable = addresser.n_readable(classes, static_cast<std::int64_t>(at));
  const int widest = layout.config.max_ngram_size;
  const bool from_oldest = !layout.layers.empty() && layout.layers.front().oldest_first;
  for (int order = 2; order <= widest; ++order) {
    // engram-peft: all orders begin where the widest does, and none is there without it.
    const int reach = from_oldest ? widest : order;
    const bool bypassed = readable < reach;
    const auto n_back = static_cast<std::size_t>(std::min(readable, reach));
    const auto n = std::min(n_back, static_cast<std::size_t>(order));
    const auto tokens = ids.subspan(at + 1 - n_back, n);
    const auto members = classes.subspan(at + 1 - n_back, n);
    // Decoded together, so that a character split over tokens is whole again.
    Result<std::string> text = tokenizer.decode({tokens.begin(), tokens.end()});
    if (!text.has_value()) return text.error();
    ngrams.push_back({order, std::move(*text), {members.begin(), members.end()}, bypassed});
  }
  return ngrams;
}

Result<LookupPosition> read_position(std::span<const TokenId> ids,
                                     std::span<const std::int32_t> classes, std::size_t at,
                                     const Tokenizer& tokenizer, const Addresser& addresser) {
  LookupPosition position;
  position.token = ids[at];
  position.compressed_id = classes[at];
  Result<std::string> text = tokenizer.decode({ids[at]});
  if (!text.has_value()) return text.error();
  position.text = std::move(*text);
  auto ngrams = ngrams_ending_at(at, ids, classes, tokenizer, addresser);
  if (!ngrams.has_value()) return ngrams.error();
  position.ngrams = std::move(*ngrams);
  return position;
}

// Rows and keys of all positions, per layer of the layout, and what a pass would read there.
struct Addressed {
  explicit Addressed(const EngramLayout& layout) : reads(layout, false) {}
  std::vector<std::vector<std::int64_t>> rows;    // [n_positions, n_columns]
  std::vector<std::vector<NgramKey>> keys;        // [n_positions, n_orders]
  std::vector<std::span<const RowBytes>> places;  // of reads; none without tables
  Prefetcher reads;
};

// One layer's cells of one position; counts go into the report.
LookupLayer read_layer(const EngramLayout& layout, int slot, std::size_t at,
                       const Addressed& addressed, const TableView* tables, LookupReport& report) {
  const auto layer_slot = static_cast<std::size_t>(slot);
  const std::size_t first_cell = at * static_cast<std::size_t>(layout.n_columns());
  LookupLayer layer;
  layer.layer_id = layout.layers[layer_slot].layer_id;
  for (int column = 0; column < layout.n_columns(); ++column) {
    const std::size_t index = first_cell + static_cast<std::size_t>(column);
    LookupCell cell;
    cell.order = layout.order_of(column);
    cell.head = layout.head_of(column);
    cell.row = addressed.rows[layer_slot][index];
    const NgramKey& key =
        addressed.keys[layer_slot][at * static_cast<std::size_t>(layout.n_orders()) +
                                   static_cast<std::size_t>(cell.order - 2)];
    if (tables != nullptr) {
      const RowBytes& bytes = addressed.places[layer_slot][index];
      const EffectiveEdit edit = addressed.reads.edit(slot, index);
      const CellState state = cell_state(*tables->base, slot, cell.row, key, bytes, edit);
      cell.occupied = state.occupied;
      cell.owned = state.owned;
      cell.edited_by = edit.edit.transaction;
      cell.edited_exactly = cell.edited_by != 0 && edit.scope == EditScope::kNgram;
      std::vector<float> values(static_cast<std::size_t>(layout.config.head_dim));
      kernels::decode_row(tables->base->format(slot), bytes, values.data());
      cell.row_norm = norm_of(values);
    }
    ++report.n_lookups;
    report.n_bypassed += key.bypassed;
    report.n_occupied += !key.bypassed && cell.occupied.value_or(false);
    report.n_owned += cell.owned.value_or(false);
    layer.cells.push_back(cell);
  }
  return layer;
}

}  // namespace

Result<LookupReport> make_lookup_report(const std::vector<TokenId>& ids, const Tokenizer& tokenizer,
                                        const TokenMap& map, const Addresser& addresser,
                                        const TableView* tables, const LookupOptions& options) {
  const EngramLayout& layout = addresser.layout();
  const auto n_positions = static_cast<std::int64_t>(ids.size());
  if (n_positions > options.positions_max) {
    return limit_exceeded("text has " + std::to_string(n_positions) + " tokens; expected at most " +
                          std::to_string(options.positions_max) + "; shorten it");
  }
  const Result<std::vector<int>> slots = layer_slots(layout, options.layer_ids);
  if (!slots.has_value()) return slots.error();
  const auto classes = compress_tokens(map, ids, layout.config.dead_token_id);
  if (!classes.has_value()) return classes.error();

  Addressed addressed(layout);
  for (std::size_t slot = 0; slot < layout.layers.size(); ++slot) {
    addressed.rows.emplace_back(ids.size() * static_cast<std::size_t>(layout.n_columns()));
    addressed.keys.emplace_back(ids.size() * static_cast<std::size_t>(layout.n_orders()));
    addresser.rows(static_cast<int>(slot), *classes, 0, n_positions, addressed.rows[slot].data(),
                   addressed.keys[slot].data());
  }
  if (tables != nullptr) addressed.reads.begin(*tables, addressed.rows, addressed.keys, {});
  for (std::size_t slot = 0; tables != nullptr && slot < layout.layers.size(); ++slot) {
    const auto places = addressed.reads.wait(static_cast<int>(slot));
    if (!places.has_value()) return places.error();
    addressed.places.push_back(*places);
  }

  LookupReport report;
  for (std::size_t at = 0; at < ids.size(); ++at) {
    Result<LookupPosition> position = read_position(ids, *classes, at, tokenizer, addresser);
    if (!position.has_value()) return position.error();
    for (const int slot : *slots) {
      position->layers.push_back(read_layer(layout, slot, at, addressed, tables, report));
    }
    report.positions.push_back(std::move(*position));
  }
  const std::int64_t n_addressed = report.n_lookups - report.n_bypassed;
  if (tables != nullptr && n_addressed > 0) {
    report.hit_rate = static_cast<double>(report.n_owned) / static_cast<double>(n_addressed);
  }
  return report;
}

}  // namespace engramd::engine
