// row_read_bench: how fast table rows come, beside what this machine's memory and drive can do.
// Everything in one run, so that the ratios mean something on a shared machine.
//   row_read_bench FILE [--megabytes N] [--batches N]
// FILE is made (random rows of 256 fp8 + 8 scales), measured with O_DIRECT, and removed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/engram/table_rows.h"
#include "engine/engram/table_writer.h"

namespace {

using namespace engramd::engine;
using Clock = std::chrono::steady_clock;

constexpr int kRowsPerBatch = 48;  // 24 rows on each of 2 layers: one token of DeepSeek-V4.1-Flash
constexpr int kRounds = 11;        // alternating, the median counts
constexpr std::size_t kBatchesPerFaultedBatch = 10;  // serial faults take long

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class RandomContent final : public TableContent {
 public:
  explicit RandomContent(std::int64_t row_bytes) : row_bytes_(row_bytes) {}
  engramd::Result<void> rows(int, std::int64_t, std::int64_t count, std::uint8_t* images) override {
    for (std::int64_t i = 0; i < count * row_bytes_; i += 8) {
      const std::uint64_t word = random_();
      std::memcpy(images + i, &word,
                  static_cast<std::size_t>(std::min<std::int64_t>(8, count * row_bytes_ - i)));
    }
    return {};
  }
  engramd::Result<void> owner_tags(int, std::int64_t, std::span<std::uint16_t>) override {
    return {};
  }
  std::string identity() const override { return "random"; }

 private:
  std::int64_t row_bytes_;
  std::mt19937_64 random_{1};
};

TableHeader bench_header(std::int64_t megabytes) {
  EngramLayoutConfig config;
  config.layer_ids = {1, 14};
  config.max_ngram_size = 4;
  config.n_heads = 8;
  config.head_dim = 256;
  config.hashed_vocab_size = 99092;
  const std::int64_t buckets = (megabytes << 20) / (2 * 24 * 273);  // 15 rows per page
  return *make_table_header(*make_bucket_layout(config, buckets),
                            {RowCodec::kF8E4M3E8M0, 256, 1.0F}, false, std::string(64, '0'), 1);
}

std::vector<RowKey> random_keys(const TableHeader& header, std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<RowKey> keys;
  for (std::size_t i = 0; i < n; ++i) {
    const int layer = static_cast<int>(i % 2);
    const auto n_rows =
        static_cast<std::uint64_t>(header.sections[static_cast<std::size_t>(layer)].n_rows);
    keys.push_back({layer, static_cast<std::int64_t>(random() % n_rows)});
  }
  return keys;
}

// Bytes the drive itself has read since boot, from its own counter (block/stat: 512-byte sectors).
std::int64_t drive_bytes_read(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  std::ifstream file("/sys/dev/block/" + std::to_string(major(status.st_dev)) + ":" +
                     std::to_string(minor(status.st_dev)) + "/stat");
  std::int64_t reads = 0, merges = 0, sectors = 0;
  file >> reads >> merges >> sectors;
  return sectors * 512;
}

void drop_from_page_cache(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

// Rows per second of a bare loop over sorted row addresses, and of the same rows asked of a layer's
// source as a forward pass asks: where they are first, then their bytes.
void bench_resident(TableRows& table) {
  constexpr std::size_t kRowsPerAsk = 24 * 64;  // of one layer: 64 tokens
  const auto row_bytes = static_cast<std::size_t>(table.header().row_bytes());
  const RowSource& source = table.source(0);
  std::vector<std::int64_t> rows;
  for (const RowKey& key : random_keys(table.header(), 400000, 2)) {
    if (key.layer == 0) rows.push_back(key.row);
  }
  std::sort(rows.begin(), rows.end());
  std::vector<const std::uint8_t*> addresses;
  for (const std::int64_t row : rows) addresses.push_back(source.resident(row).codes);
  std::vector<std::uint8_t> images(rows.size() * row_bytes);
  std::vector<RowBytes> places(kRowsPerAsk);
  std::vector<double> bare, gathered;
  for (int round = 0; round < kRounds; ++round) {
    auto start = Clock::now();
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      std::memcpy(images.data() + i * row_bytes, addresses[i], row_bytes);
    }
    bare.push_back(seconds_since(start));
    start = Clock::now();
    for (std::size_t i = 0; i < rows.size(); i += kRowsPerAsk) {
      const std::size_t n = std::min(kRowsPerAsk, rows.size() - i);
      source.resident_rows(std::span(rows).subspan(i, n), places.data());
      for (std::size_t j = 0; j < n; ++j) {
        std::memcpy(images.data() + (i + j) * row_bytes, places[j].codes, row_bytes);
      }
    }
    gathered.push_back(seconds_since(start));
  }
  const auto n = static_cast<double>(rows.size());
  std::printf("%-10s bare sorted loop %6.1f ns/row, gather %6.1f ns/row: %5.1f %% of it\n",
              name_of(table.plan().mode), 1e9 * median(bare) / n, 1e9 * median(gathered) / n,
              100 * median(bare) / median(gathered));
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return seconds_since(start);
}

// One way of reading batches, and what it took.
struct Reading {
  const char* name;
  std::function<void(std::span<const RowKey>)> read;
  std::vector<double> seconds;
};

// The mean counts; the median says what it would be without the hiccups of a shared machine.
void print_cold(const Reading& reading, const Reading& drive) {
  std::vector<double> sorted = reading.seconds;
  std::sort(sorted.begin(), sorted.end());
  const double mean = mean_of(sorted);
  std::printf(
      "%-30s %7.3f ms mean %7.3f p50 %7.3f p99 %8.0f rows/s %6.1f %% of the drive, %6.1f %% at "
      "p50\n",
      reading.name, 1e3 * mean, 1e3 * median(sorted), 1e3 * sorted[sorted.size() * 99 / 100],
      kRowsPerBatch / mean, 100 * mean_of(drive.seconds) / mean,
      100 * median(drive.seconds) / median(sorted));
}

std::int64_t page_offset(const TableHeader& header, const RowKey& key) {
  return header.sections[static_cast<std::size_t>(key.layer)].data_offset_bytes +
         key.row / header.rows_per_page * kTablePageBytes;
}

// Offsets of the distinct pages of a batch, ascending.
void page_offsets(const TableHeader& header, std::span<const RowKey> batch,
                  std::vector<std::int64_t>& offsets) {
  offsets.clear();
  for (const RowKey& key : batch) offsets.push_back(page_offset(header, key));
  std::sort(offsets.begin(), offsets.end());
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
}

// The same rows, one fault after the other.
std::vector<double> fault_serially(const std::string& path, const TableHeader& header,
                                   std::span<const RowKey> keys) {
  drop_from_page_cache(path);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto length = static_cast<std::size_t>(header.file_bytes);
  void* mapping = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file, 0);
  ::close(file);
  if (mapping == MAP_FAILED) std::abort();
  ::madvise(mapping, length, MADV_RANDOM);
  std::vector<std::uint8_t> image(static_cast<std::size_t>(header.row_bytes()));
  std::vector<double> seconds;
  for (std::size_t i = 0; i + kRowsPerBatch <= keys.size(); i += kRowsPerBatch) {
    seconds.push_back(seconds_of([&] {
      for (const RowKey& key : keys.subspan(i, kRowsPerBatch)) {
        std::memcpy(image.data(),
                    static_cast<const std::uint8_t*>(mapping) + page_offset(header, key) +
                        key.row % header.rows_per_page * header.row_bytes(),
                    image.size());
      }
    }));
  }
  ::munmap(mapping, length);
  return seconds;
}

std::unique_ptr<TableRows> open_cold(const std::string& path, bool use_io_uring) {
  TableOpenOptions options;
  options.cache_levels = 1;
  options.cache_bytes = 0;
  options.reader = {.queue_depth = kRowsPerBatch, .direct_io = true, .use_io_uring = use_io_uring};
  auto table = TableRows::open(path, options);
  if (table) return std::move(*table);
  std::fprintf(stderr, "row_read_bench: %s\n", table.error().message.c_str());
  std::exit(1);
}

// Batches of 48 rows that nothing holds in memory: the bare page reader (the drive's own rate at
// that depth), the table, a pread pool. All read the same batches, each beginning elsewhere, in
// turns: neighbours of a shared machine come and go. Then one fault after the other in a mapping.
void bench_cold(const std::string& path, std::size_t n_batches) {
  const auto table = open_cold(path, true), pool = open_cold(path, false);
  const TableHeader& header = table->header();
  const auto drive = *make_page_reader(path, table->file().descriptor(),
                                       {.queue_depth = kRowsPerBatch, .direct_io = true});
  std::printf("cold: %d-row batches, %s%s\n", kRowsPerBatch, table->reader_name().c_str(),
              table->plan().direct_io ? ", O_DIRECT" : ", O_DIRECT refused here");

  std::vector<std::uint8_t> images(kRowsPerBatch * static_cast<std::size_t>(header.row_bytes()));
  const PageBuffer pages = make_page_buffer(kRowsPerBatch);
  std::vector<std::int64_t> offsets;
  const auto rows_of = [&](TableRows& from) {
    return [&](std::span<const RowKey> batch) {
      if (!from.read(batch, images.data(), {})) std::abort();
    };
  };
  Reading readings[] = {{"drive: bare pages, same depth",
                         [&](std::span<const RowKey>) {
                           if (!drive->read(offsets, pages.get(), {}, {})) std::abort();
                         },
                         {}},
                        {"table rows", rows_of(*table), {}},
                        {"table rows, pread pool", rows_of(*pool), {}}};
  const std::vector<RowKey> keys = random_keys(header, n_batches * kRowsPerBatch, 10);
  const std::int64_t counter = drive_bytes_read(path);
  for (std::size_t i = 0; i < n_batches; ++i) {
    for (std::size_t turn = 0; turn < std::size(readings); ++turn) {
      const std::size_t j = (i + turn) % std::size(readings);
      const std::size_t at = (i + j * n_batches / std::size(readings)) % n_batches;
      const auto batch = std::span(keys).subspan(at * kRowsPerBatch, kRowsPerBatch);
      page_offsets(header, batch, offsets);
      readings[j].seconds.push_back(seconds_of([&] { readings[j].read(batch); }));
    }
  }
  const std::int64_t counted = drive_bytes_read(path) - counter;
  Reading faults = {"serial faults in a mapping", {}, {}};
  faults.seconds = fault_serially(
      path, header, std::span(keys).first(n_batches / kBatchesPerFaultedBatch * kRowsPerBatch));

  for (const Reading& reading : readings) print_cold(reading, readings[0]);
  print_cold(faults, readings[0]);
  std::printf("table rows are %.1f times as fast as serial faults\n",
              mean_of(faults.seconds) / mean_of(readings[1].seconds));
  const TableReadStats stats = table->stats();
  std::printf(
      "table read %.1f MB in %lld pages, depth up to %lld; the drive's own counter rose by "
      "%.1f MB over its, the bare reader's and the pool's reads\n",
      static_cast<double>(stats.bytes_read) / 1e6, static_cast<long long>(stats.pages_read),
      static_cast<long long>(stats.depth_max), static_cast<double>(counted) / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  std::string path;
  std::int64_t megabytes = 1024;
  std::size_t n_batches = 1000;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--megabytes" && i + 1 < argc) {
      megabytes = std::atoll(argv[++i]);
    } else if (flag == "--batches" && i + 1 < argc) {
      n_batches = static_cast<std::size_t>(std::atoll(argv[++i]));
    } else {
      path = flag;
    }
  }
  if (path.empty() || megabytes < 16 || n_batches < kBatchesPerFaultedBatch) {
    std::fprintf(stderr, "usage: row_read_bench FILE [--megabytes N] [--batches N]\n");
    return 2;
  }
  const TableHeader header = bench_header(megabytes);
  RandomContent content(header.row_bytes());
  if (const auto written = write_table(path, header, content); !written) {
    std::fprintf(stderr, "row_read_bench: %s\n", written.error().message.c_str());
    return 1;
  }
  std::printf("%lld rows of %lld B, %.3f GB\n", static_cast<long long>(header.n_rows()),
              static_cast<long long>(header.row_bytes()),
              static_cast<double>(header.file_bytes) / 1e9);
  for (const bool map : {false, true}) {
    TableOpenOptions options;
    options.map = map;
    const auto table = TableRows::open(path, options);
    if (table) bench_resident(**table);
  }
  drop_from_page_cache(path);
  bench_cold(path, n_batches);
  std::filesystem::remove(path);
  return 0;
}
