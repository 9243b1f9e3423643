#include "engine/runtime/step.h"

#include <algorithm>
#include <utility>

namespace engramd::engine {

namespace {

class PassEnd {
 public:
  explicit PassEnd(Prefetcher& prefetcher) : prefetcher_(prefetcher) {}
  ~PassEnd() { prefetcher_.end(); }
  PassEnd(const PassEnd&) = delete;
  PassEnd& operator=(const PassEnd&) = delete;

 private:
  Prefetcher& prefetcher_;
};

}  // namespace

Step::Step(const Model& model, kernels::Backend& backend, KvCache& cache, bool asynchronous_reads)
    : model_(&model),
      cache_(&cache),
      addresser_(model.layout, model.pad_class()),
      forward_(model, backend),
      prefetcher_(model.layout, asynchronous_reads),
      rows_(model.layout.layers.size()),
      keys_(model.layout.layers.size()) {}

Result<std::span<const float>> Step::run(std::span<const SequenceSlice> slices,
                                         const TableView& view, std::stop_token stop,
                                         ForwardTrace* trace, const ReadAhead& ahead) {
  tokens_.clear();
  slots_.clear();
  engram_enabled_.clear();
  logits_of_.clear();
  block_tables_.clear();
  clear_addresses();
  for (const SequenceSlice& slice : slices) {
    const Sequence& sequence = *slice.sequence;
    ENGRAMD_ASSERT(slice.begin <= sequence.n_cached() && slice.end <= sequence.size());
    const auto index = static_cast<std::int32_t>(block_tables_.size());
    block_tables_.push_back(sequence.block_table());
    const bool enabled = sequence.engram_enabled() && !slice.leave_engram_out;
    for (std::int64_t position = slice.begin; position < slice.end; ++position) {
      if (!slice.no_logits && (slice.all_logits || position + 1 == slice.end)) {
        logits_of_.push_back(static_cast<std::int32_t>(tokens_.size()));
      }
      tokens_.push_back(sequence.tokens()[static_cast<std::size_t>(position)]);
      slots_.push_back({index, static_cast<std::int32_t>(position)});
      engram_enabled_.push_back(enabled ? 1 : 0);
    }
    address(sequence, slice.begin, slice.end);
  }
  prefetcher_.begin(view, rows_, keys_, stop);
  const PassEnd at_end(prefetcher_);
  read_ahead(ahead, view);
  cache_->point_views(block_tables_.data(), views_);
  const ForwardBatch batch{tokens_,       slots_,      engram_enabled_, &prefetcher_,
                           views_.latent, views_.conv, logits_of_};
  auto logits = forward_.run(batch, stop, trace);
  if (stop.stop_requested()) return std::span<const float>();
  if (!logits) return logits;
  if (const auto counted = count(slices, view); !counted) return counted.error();
  std::size_t first_token = 0;
  for (const SequenceSlice& slice : slices) {
    slice.sequence->set_cached(slice.end, view.stamp(), reads_of_pass(slice, first_token));
    first_token += static_cast<std::size_t>(slice.end - slice.begin);
  }
  return logits;
}

// What edited_reads() says of the slice, from what the pass has looked up already.
std::vector<EditedRead> Step::reads_of_pass(const SequenceSlice& slice,
                                            std::size_t first_token) const {
  std::vector<EditedRead> reads;
  if (!slice.sequence->engram_enabled()) return reads;
  const auto n_columns = static_cast<std::size_t>(model_->layout.n_columns());
  const auto n_cells = static_cast<std::size_t>(slice.end - slice.begin) * n_columns;
  for (int layer = 0; layer < static_cast<int>(rows_.size()); ++layer) {
    const auto edits = prefetcher_.edits(layer);
    if (edits.empty()) continue;
    append_edited_reads(model_->layout, layer, slice.begin,
                        edits.subspan(first_token * n_columns, n_cells), reads);
  }
  std::sort(reads.begin(), reads.end());
  return reads;
}

void Step::clear_addresses() {
  for (auto& rows : rows_) rows.clear();
  for (auto& keys : keys_) keys.clear();
}

// Appends the positions' rows and keys.
void Step::address(const Sequence& sequence, std::int64_t begin, std::int64_t end) {
  const auto n_tokens = static_cast<std::size_t>(end - begin);
  for (std::size_t layer = 0; layer < rows_.size(); ++layer) {
    const std::size_t first_row = rows_[layer].size();
    const std::size_t first_key = keys_[layer].size();
    rows_[layer].resize(first_row +
                        n_tokens * static_cast<std::size_t>(model_->layout.n_columns()));
    keys_[layer].resize(first_key + n_tokens * static_cast<std::size_t>(model_->layout.n_orders()));
    addresser_.rows(static_cast<int>(layer), sequence.classes(), begin, end,
                    rows_[layer].data() + first_row, keys_[layer].data() + first_key);
  }
}

std::vector<EditedRead> Step::edited_reads(const Sequence& sequence, const TableView& view,
                                           std::int64_t begin, std::int64_t end) const {
  if (!sequence.engram_enabled() || view.edits->number() == 0) return {};
  return engine::edited_reads(addresser_, *view.edits, sequence.classes(), begin, end);
}

Result<void> Step::count_only(const SequenceSlice& slice, const TableView& view) {
  clear_addresses();
  address(*slice.sequence, slice.begin, slice.end);
  prefetcher_.begin(view, rows_, keys_, {});
  const PassEnd at_end(prefetcher_);
  return count({&slice, 1}, view);
}

void Step::read_ahead(const ReadAhead& ahead, const TableView& view) {
  if (ahead.sequence == nullptr || !ahead.sequence->engram_enabled()) return;
  ahead_rows_.resize(rows_.size());
  const auto n_cells =
      static_cast<std::size_t>((ahead.end - ahead.begin) * model_->layout.n_columns());
  for (std::size_t layer = 0; layer < rows_.size(); ++layer) {
    ahead_rows_[layer].resize(n_cells);
    addresser_.rows(static_cast<int>(layer), ahead.sequence->classes(), ahead.begin, ahead.end,
                    ahead_rows_[layer].data());
  }
  prefetcher_.ahead(view, ahead_rows_);
}

Result<void> Step::count(std::span<const SequenceSlice> slices, const TableView& view) {
  const bool wanted = std::any_of(slices.begin(), slices.end(), [](const SequenceSlice& slice) {
    return slice.counts != nullptr && slice.sequence->engram_enabled();
  });
  for (int layer = 0; wanted && layer < static_cast<int>(rows_.size()); ++layer) {
    if (auto counted = count_layer(slices, view, layer); !counted) return counted;
  }
  return {};
}

Result<void> Step::count_layer(std::span<const SequenceSlice> slices, const TableView& view,
                               int layer) {
  const auto index = static_cast<std::size_t>(layer);
  const auto places = prefetcher_.wait(layer);
  if (!places) return places.error();
  const auto n_orders = static_cast<std::size_t>(model_->layout.n_orders());
  const int n_heads = model_->layout.config.n_heads;
  std::size_t key = 0;
  std::size_t cell = 0;
  for (const SequenceSlice& slice : slices) {
    const bool wanted = slice.counts != nullptr && slice.sequence->engram_enabled();
    if (wanted) slice.counts->orders.resize(n_orders);
    for (std::int64_t position = slice.begin; position < slice.end; ++position) {
      for (std::size_t order = 0; order < n_orders; ++order, ++key) {
        const NgramKey& ngram = keys_[index][key];
        if (!wanted || position < slice.count_from) {
          cell += static_cast<std::size_t>(n_heads);
          continue;
        }
        EngramCounts::PerOrder& counts = slice.counts->orders[order];
        counts.lookups += n_heads;
        if (ngram.bypassed) counts.bypassed += n_heads;
        for (int head = 0; head < n_heads; ++head, ++cell) {
          if (ngram.bypassed) continue;
          const CellState state = cell_state(*view.base, layer, rows_[index][cell], ngram,
                                             (*places)[cell], prefetcher_.edit(layer, cell));
          counts.occupied += state.occupied ? 1 : 0;
          counts.owned += state.owned ? 1 : 0;
        }
      }
    }
  }
  return {};
}

}  // namespace engramd::engine
