#include "engine/engram/prefetcher.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace engramd::engine {

std::vector<EffectiveEdit> edits_in_effect(const Epoch& edits, const EngramLayout& layout,
                                           int layer, std::span<const std::int64_t> rows,
                                           std::span<const NgramKey> keys) {
  if (!edits.has_edits(layer)) return {};
  const auto n_columns = static_cast<std::size_t>(layout.n_columns());
  const auto n_orders = static_cast<std::size_t>(layout.n_orders());
  const auto key_of = [&](std::size_t i) -> const NgramKey& {
    const auto order = static_cast<std::size_t>(layout.order_of(static_cast<int>(i % n_columns)));
    return keys[i / n_columns * n_orders + order - 2];
  };
  std::vector<NgramColumn> ngrams;
  ngrams.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ngrams.push_back({static_cast<int>(i % n_columns), key_of(i).mix});
  }
  std::vector<RowEdit> of_rows(rows.size()), exact(rows.size());
  edits.rows(layer, rows, of_rows.data());
  edits.ngrams(layer, ngrams, exact.data());
  std::vector<EffectiveEdit> effective(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool is_exact = exact[i].image != nullptr && !key_of(i).bypassed;
    effective[i] = is_exact ? EffectiveEdit{exact[i], EditScope::kNgram}
                            : EffectiveEdit{of_rows[i], EditScope::kRow};
  }
  return effective;
}

CellState cell_state(const BaseTables& base, int layer, std::int64_t row, const NgramKey& key,
                     const RowBytes& bytes, const EffectiveEdit& edit) {
  const bool edited = edit.edit.image != nullptr;
  const bool exact = edited && edit.scope == EditScope::kNgram;
  if (const std::uint16_t* owners = base.owners[static_cast<std::size_t>(layer)]) {
    return {edited || owners[row] != 0,
            exact || (!key.bypassed && owners[row] == owner_tag(key.mix))};
  }
  const std::int64_t n = base.format(layer).codes_bytes();
  const bool occupied = edited || std::any_of(bytes.codes, bytes.codes + n,
                                              [](std::uint8_t code) { return code != 0; });
  return {occupied, occupied && !key.bypassed};
}

Prefetcher::Prefetcher(const EngramLayout& layout, bool asynchronous)
    : layout_(&layout),
      asynchronous_(asynchronous),
      places_(layout.layers.size()),
      edits_(layout.layers.size()) {
  stats_.orders.resize(static_cast<std::size_t>(layout.n_orders()));
}

Prefetcher::~Prefetcher() = default;  // the thread stops first: it is declared last

void Prefetcher::begin(TableView view, std::span<const std::vector<std::int64_t>> rows,
                       std::span<const std::vector<NgramKey>> keys, std::stop_token stop) {
  settle();  // a pass that was stopped may have left its read behind
  view_ = std::move(view);
  cold_.clear();
  missing_.clear();
  failed_.reset();
  for (std::size_t layer = 0; layer < rows.size(); ++layer) {
    find(static_cast<int>(layer), rows[layer], keys[layer]);
  }
  if (!cold_.empty()) read_cold(std::move(stop));
}

void Prefetcher::end() {
  settle();
  view_ = {};
}

void Prefetcher::find(int layer, std::span<const std::int64_t> rows,
                      std::span<const NgramKey> keys) {
  const RowSource& base = *view_.base->layers[static_cast<std::size_t>(layer)];
  auto& edits = edits_[static_cast<std::size_t>(layer)];
  edits = edits_in_effect(*view_.edits, *layout_, layer, rows, keys);
  const std::int64_t codes_bytes = base.format().codes_bytes();
  const auto n_columns = static_cast<std::size_t>(layout_->n_columns());
  const auto n_heads = static_cast<std::size_t>(layout_->config.n_heads);
  std::vector<RowBytes>& places = places_[static_cast<std::size_t>(layer)];
  places.resize(rows.size());
  base.resident_rows(rows, places.data());
  const std::lock_guard lock(mutex_);  // for the counts: nobody but stats() competes
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RowReadStats::PerOrder& counts = stats_.orders[i % n_columns / n_heads];
    if (!edits.empty() && edits[i].edit.image != nullptr) {
      places[i] = {edits[i].edit.image, edits[i].edit.image + codes_bytes};
      ++counts.edited;
    } else if (places[i].codes != nullptr) {
      ++counts.resident;
    } else {
      cold_.push_back({{layer, rows[i]}, i});
    }
  }
}

// Hot rows are copied here; what is left goes to the reading thread.
void Prefetcher::read_cold(std::stop_token stop) {
  TableRows& file = *view_.base->file;
  const auto row_bytes = static_cast<std::size_t>(file.header().row_bytes());
  const std::int64_t codes_bytes = file.header().format.codes_bytes();
  images_.resize(cold_.size() * row_bytes);
  std::vector<RowKey> keys;
  keys.reserve(cold_.size());
  for (std::size_t i = 0; i < cold_.size(); ++i) {
    const std::uint8_t* image = images_.data() + i * row_bytes;
    places_[static_cast<std::size_t>(cold_[i].key.layer)][cold_[i].place] = {image,
                                                                             image + codes_bytes};
    keys.push_back(cold_[i].key);
  }
  file.read_hot(keys, images_.data(), missing_);
  {
    const std::lock_guard lock(mutex_);
    const auto order_of = [this](const Cold& row) {
      const auto n_columns = static_cast<std::size_t>(layout_->n_columns());
      return row.place % n_columns / static_cast<std::size_t>(layout_->config.n_heads);
    };
    for (const Cold& row : cold_) ++stats_.orders[order_of(row)].hot;
    for (const std::size_t i : missing_) {
      --stats_.orders[order_of(cold_[i])].hot;
      ++stats_.orders[order_of(cold_[i])].file;
    }
    if (!missing_.empty() && asynchronous_) {
      is_reading_ = true;
      pass_stop_ = stop;
      if (!thread_.joinable()) {
        thread_ = std::jthread([this](std::stop_token ending) { run(std::move(ending)); });
      }
    }
  }
  if (missing_.empty()) return;
  if (asynchronous_) return changed_.notify_all();
  if (auto done = read(std::move(stop)); !done) failed_ = done.error();
}

Result<void> Prefetcher::read(std::stop_token stop) {
  TableRows& file = *view_.base->file;
  const auto row_bytes = static_cast<std::size_t>(file.header().row_bytes());
  std::vector<RowKey> keys;
  keys.reserve(missing_.size());
  for (const std::size_t i : missing_) keys.push_back(cold_[i].key);
  std::vector<std::uint8_t> images(keys.size() * row_bytes);
  if (auto done = file.read(keys, images.data(), std::move(stop)); !done) return done;
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    std::memcpy(images_.data() + missing_[i] * row_bytes, images.data() + i * row_bytes, row_bytes);
  }
  return {};
}

Result<std::span<const RowBytes>> Prefetcher::wait(int layer) {
  settle();
  if (failed_) return *failed_;
  return std::span<const RowBytes>(places_[static_cast<std::size_t>(layer)]);
}

// Until nothing is being read for the pass.
void Prefetcher::settle() {
  if (missing_.empty()) return;
  std::unique_lock lock(mutex_);
  if (!is_reading_) return;
  const auto started = std::chrono::steady_clock::now();
  changed_.wait(lock, [this] { return !is_reading_; });
  stats_.stall_ns += std::chrono::nanoseconds(std::chrono::steady_clock::now() - started).count();
  ++stats_.n_stalls;
}

void Prefetcher::ahead(const TableView& view, std::span<const std::vector<std::int64_t>> rows) {
  if (!asynchronous_ || !view.base->file || view.base->file->plan().mode != TableMode::kFile) {
    return;
  }
  std::vector<RowKey> keys;
  for (std::size_t layer = 0; layer < rows.size(); ++layer) {
    for (const std::int64_t row : rows[layer]) keys.push_back({static_cast<int>(layer), row});
  }
  const std::lock_guard lock(mutex_);
  ahead_ = std::move(keys);  // what was not begun yet is out of date
  ahead_view_ = view;
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](std::stop_token ending) { run(std::move(ending)); });
  }
  changed_.notify_all();
}

void Prefetcher::run(std::stop_token ending) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, ending, [this] { return is_reading_ || !ahead_.empty(); })) {
    if (is_reading_) {
      const std::stop_token stop = pass_stop_;
      lock.unlock();
      auto done = read(stop);
      lock.lock();
      if (!done) failed_ = done.error();
      is_reading_ = false;
      changed_.notify_all();
      continue;
    }
    const std::vector<RowKey> keys = std::exchange(ahead_, {});
    const TableView view = std::exchange(ahead_view_, {});
    lock.unlock();
    // A row that cannot be read is reported by the pass that needs it.
    (void)view.base->file->warm(keys, ending);
    lock.lock();
  }
}

RowReadStats Prefetcher::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace engramd::engine
