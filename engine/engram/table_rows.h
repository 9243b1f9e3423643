// TableRows: the rows of an open row file, all layers, served from memory or from the file as the
// options and the memory allow. plan_table_memory decides; nothing is opened that would not fit.
// Modes:
//   resident  a private copy, every page checked while it is read
//   mapped    the file's own pages; each is checked when it is touched first. A file that is cut
//             while it is mapped ends the process with SIGBUS at the next touch beyond its new end
//             (mmap(2)): no check before the touch can rule it out, and a handler would belong to
//             the whole process. Table files are replaced by rename, never cut; where that cannot
//             be relied on, engram.table.mmap = false serves a copy, or reports it.
//   file      batched reads (page_reader) behind a hot-row cache; each page is checked when read
// Threads: read() from any thread, one at a time inside; a source's resident() from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/hot_rows.h"
#include "engine/engram/page_reader.h"
#include "engine/engram/row_source.h"
#include "engine/engram/table_file.h"

namespace engramd::engine {

enum class TableMode { kResident, kMapped, kFile };
const char* name_of(TableMode mode);  // "resident", "mapped", "file"

struct TableOpenOptions {
  bool map = true;       // engram.table.mmap
  bool prefetch = true;  // engram.table.prefetch: mapped pages are read at open
  // A warm-up slower than this after that long ends, and TableRows::warning() says so.
  double warm_up_bytes_per_s_min = 20e6;  // an 8 GB table in seven minutes
  double warm_up_patience_s = 10;
  std::int64_t host_memory_bytes_max = 0;   // engram.host_memory_limit_gb; 0: none
  std::int64_t available_memory_bytes = 0;  // of the machine, for a private copy; 0: not known
  int cache_levels = 3;  // engram.cache_levels: 1 never keeps the table in memory, 2 always, 3 both
  std::int64_t cache_bytes = 64 << 20;  // hot rows in front of the file
  // direct_io also follows from a memory limit: the page cache would hold rows beyond it.
  PageReaderOptions reader;
};

std::string gigabytes(std::int64_t bytes);  // "0.017 GB", as every message says sizes

// What opening will take. All bytes count against the limit.
struct TableMemoryPlan {
  TableMode mode = TableMode::kMapped;
  std::int64_t table_bytes = 0;      // rows in memory: 0 for kFile
  std::int64_t checksums_bytes = 0;  // 4 per page
  std::int64_t owner_bytes = 0;      // owner tags, with the rows in memory only
  std::int64_t cache_bytes = 0;
  std::int64_t buffer_bytes = 0;  // read buffers
  bool direct_io = false;
  std::string reason;  // why this mode, one clause with its numbers
  std::int64_t total_bytes() const {
    return table_bytes + checksums_bytes + owner_bytes + cache_bytes + buffer_bytes;
  }
};
// Refused, with both numbers and the remedy: a table that has to be in memory and does not fit, a
// limit below what reading from the file takes.
Result<TableMemoryPlan> plan_table_memory(const TableHeader& header,
                                          const TableOpenOptions& options);

struct TableReadStats {
  struct Order {
    int order = 0;
    std::int64_t cache_hits = 0, resident_hits = 0, file_reads = 0;  // rows
  };
  std::vector<Order> orders;  // ascending
  std::int64_t n_batches = 0, n_rows = 0;
  std::int64_t pages_read = 0, bytes_read = 0;
  std::int64_t read_ns = 0;    // from asking the file to the last row's copy
  std::int64_t depth_max = 0;  // most pages in flight
};

struct RowKey {
  int layer = 0;  // index into EngramLayout::layers
  std::int64_t row = 0;
};

class TableRows {
 public:
  static Result<std::unique_ptr<TableRows>> open(const std::string& path,
                                                 const TableOpenOptions& options);
  ~TableRows();
  TableRows(const TableRows&) = delete;
  TableRows& operator=(const TableRows&) = delete;

  const TableFile& file() const { return file_; }
  const TableHeader& header() const { return file_.header(); }
  const TableMemoryPlan& plan() const { return plan_; }
  std::string reader_name() const;  // "io_uring", "pread", "memory"
  // What is odd but harmless, one line with its remedy; empty: nothing.
  const std::string& warning() const { return warning_; }
  // As EngramLayout::layers; lives as long as this.
  RowSource& source(int layer) { return *sources_[static_cast<std::size_t>(layer)]; }

  // Images of rows of any layers in one go: [rows.size(), row_bytes], in the order asked.
  Result<void> read(std::span<const RowKey> rows, std::uint8_t* images, std::stop_token stop);
  // The same without waiting for the file: images of hot rows are copied, and the indices into
  // `rows` of the others are appended to `missing` (all of them while another read() runs).
  void read_hot(std::span<const RowKey> rows, std::uint8_t* images,
                std::vector<std::size_t>& missing);
  // Makes rows hot that are not, as many as the cache holds.
  Result<void> warm(std::span<const RowKey> rows, std::stop_token stop);
  // Where a row lies; codes == nullptr: not in memory, or its page is damaged (read() says which).
  RowBytes resident(int layer, std::int64_t row) const;
  void resident_rows(int layer, std::span<const std::int64_t> rows, RowBytes* places) const;
  // [n_rows] or nullptr: the file has no tags, or its rows are not in memory either.
  const std::uint16_t* owner(int layer) const;

  TableReadStats stats() const;

 private:
  class Source;
  struct Miss {
    std::int64_t page;   // counted from the header's end
    std::int64_t row;    // flat over all layers: the cache's key
    std::size_t wanted;  // index into the request
  };

  TableRows(TableFile file, TableMemoryPlan plan, const TableOpenOptions& options);
  Result<void> load(const TableOpenOptions& options);
  Result<void> load_copy();
  Result<void> map_file(const TableOpenOptions& options, bool prefetch);
  void warm_up(const TableOpenOptions& options);
  bool is_checked(std::int64_t page) const;  // mapped: checks it on first touch
  bool check(std::int64_t page) const;

  std::int64_t page_in_section(std::int64_t row) const;
  std::int64_t page_of(const RowKey& key) const;
  std::int64_t offset_in_page(std::int64_t row) const;
  std::int64_t flat_row(const RowKey& key) const;
  TableReadStats::Order& order_stats(const RowKey& key);
  Result<void> read_misses(std::span<const RowKey> rows, std::uint8_t* images,
                           std::stop_token stop);
  std::size_t gather_pages(std::size_t begin);
  void take_pages(std::span<const std::size_t> indices, std::span<const RowKey> rows,
                  std::uint8_t* images);

  TableFile file_;
  TableMemoryPlan plan_;
  std::vector<std::uint32_t> checksums_;            // per page
  std::vector<std::vector<std::uint16_t>> owners_;  // per layer [n_rows]; see plan().owner_bytes
  std::vector<std::int64_t> first_flat_row_;        // per layer
  // What resident() needs, near at hand. A division would cost as much as the row's copy: row /
  // rows_per_page is the upper half of row * page_reciprocal_, exact for rows below 2^52.
  std::int64_t rows_per_page_ = 1;
  std::int64_t row_bytes_ = 0;
  std::int64_t scales_offset_ = 0;  // 0: no scales
  std::uint64_t page_reciprocal_ = 0;
  std::vector<std::int64_t> first_page_;  // per layer
  std::vector<std::unique_ptr<RowSource>> sources_;
  const std::uint8_t* pages_ = nullptr;  // resident or mapped: page 0 follows the header
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  mutable std::vector<std::atomic<std::uint64_t>> checked_;  // mapped: a bit per page
  std::string warning_;
  std::unique_ptr<PageReader> reader_;
  PageBuffer buffer_;  // kFile: one chunk of pages

  mutable std::mutex mutex_;  // guards everything below, reader_ and buffer_
  HotRows cache_;
  TableReadStats stats_;
  // Of the read that runs; members, so that a batch allocates nothing.
  std::vector<Miss> misses_;
  struct PageRead {
    std::int64_t page;
    std::size_t first_miss;  // index into misses_, which are sorted; the next page's is the end
  };
  std::vector<PageRead> chunk_;        // one more than its pages
  std::vector<std::int64_t> offsets_;  // of the chunk's pages
  std::vector<const std::uint8_t*> arrived_pages_;
  std::vector<std::uint32_t> found_;  // checksums of arrived_pages_
  std::int64_t damaged_page_ = -1;
};

}  // namespace engramd::engine
