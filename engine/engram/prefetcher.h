// Prefetcher: the rows of one forward pass, from wherever they are: edited images, rows in memory,
// hot rows, and the file for the rest. begin() finds what is in memory at once, on the caller's own
// thread, and starts one batched read of all layers' other rows; wait() blocks only when a layer
// needs a row that has not come yet. ahead() makes rows of a later pass hot meanwhile.
// Threads: one caller (the engine's thread); stats() from any. Has a thread of its own while rows
// are read from a file.
// Not here: which rows (addresser), reading pages (table_rows).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "config/result.h"
#include "engine/engram/addresser.h"
#include "engine/engram/live_tables.h"

namespace engramd::engine {

// The edit that stands in for a base row; image == nullptr: none. An exact N-gram's wins.
struct EffectiveEdit {
  RowEdit edit;
  EditScope scope = EditScope::kRow;
};
// Of rows [n_tokens, n_columns] with keys [n_tokens, n_orders], looked up in batches. Empty when
// the layer has no edits.
std::vector<EffectiveEdit> edits_in_effect(const Epoch& edits, const EngramLayout& layout,
                                           int layer, std::span<const std::int64_t> rows,
                                           std::span<const NgramKey> keys);

// What one look-up finds. Where a table carries no owner tags, a row that holds anything counts as
// its N-gram's. A bypassed N-gram owns nothing.
struct CellState {
  bool occupied = false, owned = false;
};
CellState cell_state(const BaseTables& base, int layer, std::int64_t row, const NgramKey& key,
                     const RowBytes& bytes, const EffectiveEdit& edit);

struct RowReadStats {  // since start
  struct PerOrder {
    std::int64_t edited = 0, resident = 0, hot = 0, file = 0;  // rows per level
  };
  std::vector<PerOrder> orders;  // index 0 is order 2
  std::int64_t stall_ns = 0;     // passes waited for the file
  std::int64_t n_stalls = 0;
};

class Prefetcher {
 public:
  // asynchronous: engram.async_prefetch; false reads in begin() itself.
  Prefetcher(const EngramLayout& layout, bool asynchronous);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // rows: per layer [n_tokens, n_columns]; keys: per layer [n_tokens, n_orders].
  void begin(TableView view, std::span<const std::vector<std::int64_t>> rows,
             std::span<const std::vector<NgramKey>> keys, std::stop_token stop);
  // Lets go of the pass's view, so that tables which were replaced can close: what wait() gave is
  // gone. A begin() does it too.
  void end();
  // [n_tokens, n_columns] of the pass that begin() started, valid until end() or the next begin().
  Result<std::span<const RowBytes>> wait(int layer);
  // What stands in for rows of that pass: [n_tokens, n_columns]; empty when the layer has no edits.
  std::span<const EffectiveEdit> edits(int layer) const {
    return edits_[static_cast<std::size_t>(layer)];
  }
  // The same of one row, whether or not the layer has edits.
  EffectiveEdit edit(int layer, std::size_t index) const {
    const auto& edits = edits_[static_cast<std::size_t>(layer)];
    return edits.empty() ? EffectiveEdit{} : edits[index];
  }
  RowFormat format(int layer) const { return view_.base->format(layer); }
  kernels::DType row_dtype() const { return view_.base->row_dtype; }

  // Nothing to do when all rows are in memory.
  void ahead(const TableView& view, std::span<const std::vector<std::int64_t>> rows);

  RowReadStats stats() const;

 private:
  void find(int layer, std::span<const std::int64_t> rows, std::span<const NgramKey> keys);
  void read_cold(std::stop_token stop);
  Result<void> read(std::stop_token stop);
  void settle();
  void run(std::stop_token stop);

  const EngramLayout* layout_;
  const bool asynchronous_;

  // The pass. While is_reading_, the reading thread owns images_ and reads missing_.
  TableView view_;
  std::vector<std::vector<RowBytes>> places_;      // per layer [n_tokens, n_columns]
  std::vector<std::vector<EffectiveEdit>> edits_;  // per layer, see edits()
  struct Cold {
    RowKey key;
    std::size_t place = 0;  // index into places_[key.layer]
  };
  std::vector<Cold> cold_;
  std::vector<std::uint8_t> images_;  // [cold_.size(), row_bytes]
  std::vector<std::size_t> missing_;  // indices into cold_ of the rows in the file
  std::optional<Error> failed_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  bool is_reading_ = false;
  std::stop_token pass_stop_;
  std::vector<RowKey> ahead_;
  TableView ahead_view_;
  RowReadStats stats_;
  std::jthread thread_;  // started by the first cold row
};

}  // namespace engramd::engine
