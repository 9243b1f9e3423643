#include "engine/engram/table_rows.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include <sys/mman.h>

#include "engine/engram/crc32c.h"

namespace engramd::engine {
namespace {

constexpr std::size_t kWarmUpBytes = 1 << 20;  // between two looks at the clock
constexpr std::int64_t kChunkPagesMin = 256;   // of one read from the file: 1 MiB

std::int64_t chunk_pages(const TableOpenOptions& options) {
  return std::max<std::int64_t>(kChunkPagesMin, options.reader.queue_depth);
}

Result<TableMemoryPlan> plan_file_mode(TableMemoryPlan plan, const TableOpenOptions& options) {
  const std::int64_t limit = options.host_memory_bytes_max;
  plan.mode = TableMode::kFile;
  plan.table_bytes = 0;
  plan.owner_bytes = 0;
  plan.buffer_bytes = chunk_pages(options) * kTablePageBytes;
  plan.direct_io = options.reader.direct_io || limit > 0;
  plan.cache_bytes = options.cache_bytes;
  const std::int64_t least = plan.checksums_bytes + plan.buffer_bytes;
  if (limit > 0 && least > limit) {
    return limit_exceeded("engram.host_memory_limit_gb is " + gigabytes(limit) +
                          ", and reading rows from the file takes " + gigabytes(least) +
                          " for checksums and buffers: raise the limit to at least that");
  }
  if (limit > 0) plan.cache_bytes = std::min(plan.cache_bytes, limit - least);
  return plan;
}

}  // namespace

std::string gigabytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

const char* name_of(TableMode mode) {
  switch (mode) {
    case TableMode::kResident:
      return "resident";
    case TableMode::kMapped:
      return "mapped";
    case TableMode::kFile:
      return "file";
  }
  ENGRAMD_ASSERT(false);
  return "";
}

Result<TableMemoryPlan> plan_table_memory(const TableHeader& header,
                                          const TableOpenOptions& options) {
  TableMemoryPlan plan;
  plan.table_bytes = header.n_data_pages() * kTablePageBytes;
  plan.checksums_bytes = header.n_pages() * 4;
  if (header.has_owner_tags) {
    plan.owner_bytes = header.n_rows() * static_cast<std::int64_t>(sizeof(std::uint16_t));
  }
  const std::int64_t in_memory = plan.total_bytes();
  if (options.cache_levels == 1) {
    plan.reason = "engram.cache_levels is 1: only hot rows stay in memory";
    return plan_file_mode(std::move(plan), options);
  }
  std::string too_large;
  if (const std::int64_t limit = options.host_memory_bytes_max; limit > 0 && in_memory > limit) {
    too_large = "the table takes " + gigabytes(in_memory) +
                " in memory, engram.host_memory_limit_gb is " + gigabytes(limit);
  } else if (const std::int64_t available = options.available_memory_bytes;
             !options.map && available > 0 && in_memory > available) {
    too_large = "the table takes " + gigabytes(in_memory) + " in memory, " + gigabytes(available) +
                " are available";
  }
  if (too_large.empty()) {
    plan.mode = options.map ? TableMode::kMapped : TableMode::kResident;
    plan.reason = options.map ? "engram.table.mmap is true and the table fits"
                              : "engram.table.mmap is false and the table fits";
    return plan;
  }
  if (options.cache_levels == 2) {
    return limit_exceeded(too_large +
                          ", and engram.cache_levels = 2 keeps all rows in memory: set "
                          "engram.cache_levels = 3 to read rows from the file, or make room");
  }
  plan.reason = too_large;
  return plan_file_mode(std::move(plan), options);
}

class TableRows::Source final : public RowSource {
 public:
  Source(TableRows& table, int layer) : table_(&table), layer_(layer) {}
  RowFormat format() const override { return table_->header().format; }
  std::int64_t n_rows() const override {
    return table_->header().sections[static_cast<std::size_t>(layer_)].n_rows;
  }
  RowBytes resident(std::int64_t row) const override { return table_->resident(layer_, row); }
  void resident_rows(std::span<const std::int64_t> rows, RowBytes* places) const override {
    table_->resident_rows(layer_, rows, places);
  }
  Result<void> read(std::span<const std::int64_t> rows, std::uint8_t* images,
                    std::stop_token stop) override {
    std::vector<RowKey> keys;
    keys.reserve(rows.size());
    for (const std::int64_t row : rows) keys.push_back({layer_, row});
    return table_->read(keys, images, stop);
  }

 private:
  TableRows* table_;
  int layer_;
};

Result<std::unique_ptr<TableRows>> TableRows::open(const std::string& path,
                                                   const TableOpenOptions& options) {
  auto file = TableFile::open(path);
  if (!file) return file.error();
  auto plan = plan_table_memory(file->header(), options);
  if (!plan) return Error{plan.error().kind, path + ": " + plan.error().message};
  std::unique_ptr<TableRows> rows(new TableRows(std::move(*file), std::move(*plan), options));
  if (const auto loaded = rows->load(options); !loaded) return loaded.error();
  return rows;
}

TableRows::TableRows(TableFile file, TableMemoryPlan plan, const TableOpenOptions& options)
    : file_(std::move(file)),
      plan_(std::move(plan)),
      buffer_(make_page_buffer(plan_.mode == TableMode::kFile ? chunk_pages(options) : 1)),
      cache_(plan_.cache_bytes, file_.header().row_bytes()) {
  rows_per_page_ = header().rows_per_page;
  row_bytes_ = header().row_bytes();
  if (header().format.scales_bytes() > 0) scales_offset_ = header().format.codes_bytes();
  page_reciprocal_ = ~std::uint64_t{0} / static_cast<std::uint64_t>(rows_per_page_) + 1;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < header().sections.size(); ++i) {
    first_page_.push_back((header().sections[i].data_offset_bytes - header().header_bytes) /
                          kTablePageBytes);
    first_flat_row_.push_back(first);
    first += header().sections[i].n_rows;
    sources_.push_back(std::make_unique<Source>(*this, static_cast<int>(i)));
  }
  for (int order = 2; order <= header().layout.config.max_ngram_size; ++order) {
    stats_.orders.push_back({.order = order});
  }
}

TableRows::~TableRows() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapping_bytes_);
}

std::string TableRows::reader_name() const {
  return reader_ ? reader_->name() : "memory";
}

Result<void> TableRows::load(const TableOpenOptions& options) {
  auto checksums = file_.read_checksums();
  if (!checksums) return checksums.error();
  checksums_ = std::move(*checksums);
  for (std::size_t layer = 0; plan_.owner_bytes > 0 && layer < sources_.size(); ++layer) {
    auto tags = file_.read_owner_tags(static_cast<int>(layer));
    if (!tags) return tags.error();
    owners_.push_back(std::move(*tags));
  }
  if (plan_.mode == TableMode::kMapped) {
    const std::int64_t available = options.available_memory_bytes;
    return map_file(options,
                    options.prefetch && (available == 0 || plan_.total_bytes() <= available));
  }
  if (plan_.mode == TableMode::kResident) return load_copy();
  PageReaderOptions reader_options = options.reader;
  reader_options.direct_io = plan_.direct_io;
  auto reader = make_page_reader(file_.path(), file_.descriptor(), reader_options);
  if (!reader) return reader.error();
  reader_ = std::move(*reader);
  plan_.direct_io = reader_->direct_io();
  return {};
}

Result<void> TableRows::map_file(const TableOpenOptions& options, bool prefetch) {
  mapping_bytes_ = static_cast<std::size_t>(header().checksums_offset_bytes);
  void* mapping = ::mmap(nullptr, mapping_bytes_, PROT_READ, MAP_PRIVATE, file_.descriptor(), 0);
  if (mapping == MAP_FAILED) return file_failure(file_.path(), "cannot map");
  mapping_ = mapping;
  pages_ = static_cast<const std::uint8_t*>(mapping) + header().header_bytes;
  checked_ = std::vector<std::atomic<std::uint64_t>>((checksums_.size() + 63) / 64);
  // Advice: a kernel that knows it not only makes the first reads slower.
  if (prefetch) {
    warm_up(options);
  } else {
    ::madvise(mapping, mapping_bytes_, MADV_RANDOM);
  }
  return {};
}

// Brings the pages in, a part at a time: a drive that hangs or a kernel that evicts what was read
// is noticed, and the rest is left to the first touch.
void TableRows::warm_up(const TableOpenOptions& options) {
  const auto started = std::chrono::steady_clock::now();
  auto* bytes = static_cast<std::uint8_t*>(mapping_);
  for (std::size_t done = 0; done < mapping_bytes_;) {
    const std::size_t n = std::min(kWarmUpBytes, mapping_bytes_ - done);
    ::madvise(bytes + done, n, MADV_WILLNEED);
#ifdef MADV_POPULATE_READ
    ::madvise(bytes + done, n, MADV_POPULATE_READ);
#endif
    done += n;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    if (done == mapping_bytes_ || seconds < options.warm_up_patience_s ||
        static_cast<double>(done) >= seconds * options.warm_up_bytes_per_s_min) {
      continue;
    }
    char rate[32];
    std::snprintf(rate, sizeof rate, "%.1f MB/s", static_cast<double>(done) / seconds / 1e6);
    warning_ = file_.path() +
               ": the warm-up does not get on: " + gigabytes(static_cast<std::int64_t>(done)) +
               " of " + gigabytes(static_cast<std::int64_t>(mapping_bytes_)) + " at " + rate +
               ", so the rest is read at its first use; put the file on a faster drive, or set "
               "engram.table.prefetch = false, or engram.cache_levels = 1 to read rows in batches";
    return;
  }
}

Result<void> TableRows::load_copy() {
  // Owner tags stay in the file, but page numbers count them: their place is never touched, so it
  // takes no memory.
  mapping_bytes_ = checksums_.size() * static_cast<std::size_t>(kTablePageBytes);
  void* memory = ::mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return file_failure(file_.path(), "cannot reserve memory for the rows");
  mapping_ = memory;
  ::madvise(memory, mapping_bytes_, MADV_HUGEPAGE);
  auto* pages = static_cast<std::uint8_t*>(memory);
  for (const TableSection& section : header().sections) {
    std::int64_t page = (section.data_offset_bytes - header().header_bytes) / kTablePageBytes;
    const std::int64_t end = page + section.n_data_pages;
    while (page < end) {
      const std::int64_t n = std::min(kChunkPagesMin, end - page);
      const auto read = file_.read(header().header_bytes + page * kTablePageBytes,
                                   n * kTablePageBytes, pages + page * kTablePageBytes);
      if (!read) return read.error();
      for (const std::int64_t chunk_end = page + n; page < chunk_end; ++page) {
        if (crc32c(pages + page * kTablePageBytes, kTablePageBytes) !=
            checksums_[static_cast<std::size_t>(page)]) {
          return file_.damaged_page(page);
        }
      }
    }
  }
  pages_ = pages;
  return {};
}

bool TableRows::is_checked(std::int64_t page) const {
  const std::uint64_t word =
      checked_[static_cast<std::size_t>(page / 64)].load(std::memory_order_relaxed);
  return (word >> (page % 64) & 1) != 0 || check(page);
}

bool TableRows::check(std::int64_t page) const {
  if (crc32c(pages_ + page * kTablePageBytes, kTablePageBytes) !=
      checksums_[static_cast<std::size_t>(page)]) {
    return false;
  }
  checked_[static_cast<std::size_t>(page / 64)].fetch_or(
      std::uint64_t{1} << (page % 64), std::memory_order_relaxed);  // two threads may both check
  return true;
}

std::int64_t TableRows::page_in_section(std::int64_t row) const {
  if (rows_per_page_ == 1) return row;
  __extension__ using Uint128 = unsigned __int128;
  return static_cast<std::int64_t>(static_cast<Uint128>(row) * page_reciprocal_ >> 64);
}

std::int64_t TableRows::page_of(const RowKey& key) const {
  ENGRAMD_ASSERT(key.row >= 0 &&
                 key.row < header().sections[static_cast<std::size_t>(key.layer)].n_rows);
  return first_page_[static_cast<std::size_t>(key.layer)] + page_in_section(key.row);
}

std::int64_t TableRows::offset_in_page(std::int64_t row) const {
  return (row - page_in_section(row) * rows_per_page_) * row_bytes_;
}

std::int64_t TableRows::flat_row(const RowKey& key) const {
  return first_flat_row_[static_cast<std::size_t>(key.layer)] + key.row;
}

TableReadStats::Order& TableRows::order_stats(const RowKey& key) {
  const EngramLayout& layout = header().layout;
  const std::vector<std::int64_t>& offsets =
      layout.layers[static_cast<std::size_t>(key.layer)].offsets;
  const auto column = std::upper_bound(offsets.begin(), offsets.end(), key.row) - offsets.begin();
  return stats_.orders[static_cast<std::size_t>(layout.order_of(static_cast<int>(column) - 1) - 2)];
}

RowBytes TableRows::resident(int layer, std::int64_t row) const {
  RowBytes place;
  resident_rows(layer, {&row, 1}, &place);
  return place;
}

void TableRows::resident_rows(int layer, std::span<const std::int64_t> rows,
                              RowBytes* places) const {
  if (pages_ == nullptr) {
    std::fill_n(places, rows.size(), RowBytes{});
    return;
  }
  // Copies: for all the compiler knows, `places` may alias members.
  const auto at = static_cast<std::size_t>(layer);
  const std::int64_t n_rows = header().sections[at].n_rows;
  const std::int64_t first_page = first_page_[at];
  const std::uint8_t* const first = pages_ + first_page * kTablePageBytes;
  const std::int64_t rows_per_page = rows_per_page_, row_bytes = row_bytes_;
  const std::int64_t scales_offset = scales_offset_;
  const bool is_mapped = plan_.mode == TableMode::kMapped;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t row = rows[i];
    ENGRAMD_ASSERT(row >= 0 && row < n_rows);
    const std::int64_t page = page_in_section(row);
    if (is_mapped && !is_checked(first_page + page)) {
      places[i] = {};
      continue;
    }
    const std::uint8_t* codes =
        first + page * kTablePageBytes + (row - page * rows_per_page) * row_bytes;
    places[i] = {codes, scales_offset > 0 ? codes + scales_offset : nullptr};
  }
}

const std::uint16_t* TableRows::owner(int layer) const {
  return owners_.empty() ? nullptr : owners_[static_cast<std::size_t>(layer)].data();
}

void TableRows::read_hot(std::span<const RowKey> rows, std::uint8_t* images,
                         std::vector<std::size_t>& missing) {
  const auto row_bytes = static_cast<std::size_t>(header().row_bytes());
  const std::unique_lock lock(mutex_, std::try_to_lock);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint8_t* image = lock.owns_lock() ? cache_.find(flat_row(rows[i])) : nullptr;
    if (image == nullptr) {
      missing.push_back(i);
      continue;
    }
    std::memcpy(images + i * row_bytes, image, row_bytes);
    ++order_stats(rows[i]).cache_hits;
  }
}

Result<void> TableRows::warm(std::span<const RowKey> rows, std::stop_token stop) {
  const std::lock_guard lock(mutex_);
  std::vector<RowKey> cold;
  misses_.clear();
  for (const RowKey& row : rows) {
    if (static_cast<std::int64_t>(misses_.size()) == cache_.capacity()) break;
    if (cache_.find(flat_row(row)) != nullptr) continue;
    misses_.push_back({page_of(row), flat_row(row), cold.size()});
    cold.push_back(row);
  }
  std::vector<std::uint8_t> images(cold.size() * static_cast<std::size_t>(header().row_bytes()));
  return read_misses(cold, images.data(), std::move(stop));
}

Result<void> TableRows::read(std::span<const RowKey> rows, std::uint8_t* images,
                             std::stop_token stop) {
  const auto row_bytes = static_cast<std::size_t>(header().row_bytes());
  const std::lock_guard lock(mutex_);
  ++stats_.n_batches;
  stats_.n_rows += static_cast<std::int64_t>(rows.size());
  misses_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t page = page_of(rows[i]);
    if (pages_ != nullptr) {
      const RowBytes bytes = resident(rows[i].layer, rows[i].row);
      if (bytes.codes == nullptr) return file_.damaged_page(page);
      std::memcpy(images + i * row_bytes, bytes.codes, row_bytes);
      ++order_stats(rows[i]).resident_hits;
      continue;
    }
    const std::int64_t flat = flat_row(rows[i]);
    if (const std::uint8_t* image = cache_.find(flat)) {
      std::memcpy(images + i * row_bytes, image, row_bytes);
      ++order_stats(rows[i]).cache_hits;
    } else {
      misses_.push_back({page, flat, i});
      ++order_stats(rows[i]).file_reads;
    }
  }
  if (misses_.empty()) return {};
  return read_misses(rows, images, std::move(stop));
}

Result<void> TableRows::read_misses(std::span<const RowKey> rows, std::uint8_t* images,
                                    std::stop_token stop) {
  std::sort(misses_.begin(), misses_.end(),
            [](const Miss& a, const Miss& b) { return a.row < b.row; });  // pages ascend with rows
  const PagesArrived arrived = [&](std::span<const std::size_t> indices) {
    take_pages(indices, rows, images);
  };
  damaged_page_ = -1;
  for (std::size_t begin = 0; begin < misses_.size();) {
    begin = gather_pages(begin);
    const auto start = std::chrono::steady_clock::now();
    const auto read = reader_->read(offsets_, buffer_.get(), arrived, stop);
    if (!read) return read.error();
    stats_.read_ns += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
    const auto n_pages = static_cast<std::int64_t>(offsets_.size());
    stats_.pages_read += n_pages;
    stats_.bytes_read += n_pages * kTablePageBytes;
    stats_.depth_max =
        std::max(stats_.depth_max, std::min<std::int64_t>(n_pages, reader_->depth()));
    if (damaged_page_ >= 0) return file_.damaged_page(damaged_page_);
  }
  return {};
}

// The next chunk: distinct pages of misses_[begin...], as many as the buffer holds. Returns the
// first miss behind them.
std::size_t TableRows::gather_pages(std::size_t begin) {
  const auto n_pages_max = static_cast<std::size_t>(plan_.buffer_bytes / kTablePageBytes);
  chunk_.clear();
  offsets_.clear();
  std::size_t end = begin;
  for (; end < misses_.size(); ++end) {
    const std::int64_t page = misses_[end].page;
    if (!chunk_.empty() && chunk_.back().page == page) continue;
    if (chunk_.size() == n_pages_max) break;
    chunk_.push_back({page, end});
    offsets_.push_back(header().header_bytes + page * kTablePageBytes);
  }
  chunk_.push_back({-1, end});
  return end;
}

// Checks pages of the chunk and copies their rows.
void TableRows::take_pages(std::span<const std::size_t> indices, std::span<const RowKey> rows,
                           std::uint8_t* images) {
  const auto row_bytes = static_cast<std::size_t>(row_bytes_);
  arrived_pages_.clear();
  for (const std::size_t index : indices) {
    arrived_pages_.push_back(buffer_.get() + index * kTablePageBytes);
  }
  found_.resize(indices.size());
  crc32c_pages(arrived_pages_, kTablePageBytes, found_.data());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const PageRead& read = chunk_[indices[i]];
    if (found_[i] != checksums_[static_cast<std::size_t>(read.page)]) {
      damaged_page_ = read.page;
      continue;
    }
    const std::size_t end = chunk_[indices[i] + 1].first_miss;
    for (std::size_t at = read.first_miss; at < end; ++at) {
      const Miss& miss = misses_[at];
      const std::uint8_t* image = arrived_pages_[i] + offset_in_page(rows[miss.wanted].row);
      std::memcpy(images + miss.wanted * row_bytes, image, row_bytes);
      cache_.insert(miss.row, image);
    }
  }
}

TableReadStats TableRows::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace engramd::engine
