// What editing costs: look-ups in a large overlay, commits on top of it, durable commits against
// bare SQLite on the same disk, a bulk import, and what a reader notices of a swap.
//   table_edit_bench FOLDER [--edits 1000000]
// FOLDER lies on the disk to be measured and gets a few hundred MB for the time of the run.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/engram/row_codec.h"
#include "engine/engram/sqlite.h"
#include "engine/engram/table_store.h"

namespace engramd::engine {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kColumns = 32;
constexpr int kCommits = 400;
constexpr int kBatchRows = 48;  // one token of DeepSeek-V4.1-Flash

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double percentile(std::vector<double>& values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

std::int64_t resident_bytes() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * 4096;
}

// Base rows that are all zero: what they hold does not matter here.
class ZeroRows final : public RowSource {
 public:
  explicit ZeroRows(std::int64_t n_rows) : n_rows_(n_rows) {}
  RowFormat format() const override { return {RowCodec::kF8E4M3E8M0, kColumns}; }
  std::int64_t n_rows() const override { return n_rows_; }
  RowBytes resident(std::int64_t) const override {
    return {zeros_.data(), zeros_.data() + kColumns};
  }
  Result<void> read(std::span<const std::int64_t> rows, std::uint8_t* images,
                    std::stop_token) override {
    std::memset(images, 0, rows.size() * zeros_.size());
    return {};
  }

 private:
  std::int64_t n_rows_;
  std::vector<std::uint8_t> zeros_ = std::vector<std::uint8_t>(kColumns + 1);
};

struct Bench {
  explicit Bench(std::string folder) : folder_(std::move(folder)) {
    EngramLayoutConfig config;
    config.layer_ids = {0};
    config.n_heads = 4;
    config.head_dim = kColumns;
    config.vocab_size = {500000, 500000};  // 4 million rows in 8 columns
    config.hashed_vocab_size = 10000;
    layout_ = make_layout(config).value();
    rows_ = std::make_unique<ZeroRows>(layout_.layers[0].n_rows);
  }

  std::unique_ptr<TableStore> open(const std::string& name) {
    auto store = TableStore::open(folder_ + "/" + name, {"bench", "bench", 1, "bench"}, layout_,
                                  {rows_.get()});
    if (!store) {
      std::fprintf(stderr, "%s\n", store.error().message.c_str());
      std::exit(1);
    }
    return std::move(*store);
  }
  Edit edit(std::int64_t row) const {
    Edit made;
    made.target = row_target(0, row);
    made.values.assign(kColumns, static_cast<float>(row % 7) / 8);
    return made;
  }

  // Evenly spread rows, one transaction.
  void import(TableStore& store, std::int64_t n) {
    const std::int64_t before = resident_bytes();
    std::atomic<std::int64_t> peak = before;
    std::int64_t i = 0;
    const auto start = Clock::now();
    const auto next = [&](Edit& edit) -> Result<bool> {
      if (i % 4096 == 0) peak = std::max(peak.load(), resident_bytes());
      if (i == n) return false;
      edit = this->edit(layout_.layers[0].n_rows / n * i++);
      return true;
    };
    const auto done = store.import(next, "bench", "");
    if (!done) {
      std::fprintf(stderr, "%s\n", done.error().message.c_str());
      std::exit(1);
    }
    const double seconds = seconds_since(start);
    const auto held = static_cast<double>(store.overlay()->memory_bytes());
    std::printf(
        "import of %lld rows in one transaction: %.1f s (%.0f rows/s), memory +%.0f MB at "
        "its peak, of which the overlay %.0f MB\n",
        static_cast<long long>(n), seconds, static_cast<double>(n) / seconds,
        static_cast<double>(peak - before) / 1e6, held / 1e6);
  }

  void look_up(const TableStore& store, std::int64_t n) const {
    const EpochPointer epoch = store.current();
    std::mt19937_64 random(1);
    std::vector<std::int64_t> rows(kBatchRows * 20000);
    const std::int64_t stride = layout_.layers[0].n_rows / n;
    for (const bool hits : {true, false}) {
      for (auto& row : rows) {
        row = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)) * stride +
              (hits ? 0 : 1);
      }
      std::int64_t found = 0;
      auto start = Clock::now();
      for (const std::int64_t row : rows) found += epoch->row(0, row).image != nullptr ? 1 : 0;
      const double alone = seconds_since(start) * 1e9 / static_cast<double>(rows.size());
      RowEdit edits[kBatchRows];
      start = Clock::now();
      for (std::size_t i = 0; i < rows.size(); i += kBatchRows) {
        epoch->rows(0, std::span(rows).subspan(i, kBatchRows), edits);
        for (const RowEdit& edit : edits) found += edit.image != nullptr ? 1 : 0;
      }
      const double batched = seconds_since(start) * 1e9 / static_cast<double>(rows.size());
      std::printf(
          "look-up of random %s rows: %.1f ns/row in batches of %d, %.1f alone (%lld found)\n",
          hits ? "edited" : "unedited", batched, kBatchRows, alone, static_cast<long long>(found));
    }
  }

  // Single-row durable commits on an empty overlay, on a full one, and the same bytes through
  // SQLite alone, in turns, so that the disk's moods fall on all three. Medians.
  void commit(TableStore& empty, TableStore& full, std::int64_t n) const {
    auto db = SqliteConnection::open(folder_ + "/bare.sqlite", {}).value();
    if (!db.execute("PRAGMA locking_mode=EXCLUSIVE;PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;"
                    "CREATE TABLE change(id INTEGER PRIMARY KEY, old BLOB, new BLOB)")) {
      std::exit(1);
    }
    auto insert =
        SqliteStatement::prepare(db, "INSERT INTO change(old, new) VALUES(?1, ?2)").value();
    const std::vector<std::uint8_t> image(kColumns + 1);
    std::vector<double> times[3];
    for (int i = 0; i < kCommits; ++i) {
      for (int which = 0; which < 3; ++which) {
        const auto start = Clock::now();
        bool done = false;
        if (which == 2) {
          insert.bind(1, std::span(image));
          insert.bind(2, std::span(image));
          done = db.execute("BEGIN IMMEDIATE") && insert.run() && db.execute("COMMIT");
        } else {
          done = (which == 0 ? empty : full).commit({edit(i * 911 + 1)}, "bench", "").has_value();
        }
        if (!done) std::exit(1);
        times[which].push_back(seconds_since(start) * 1e6);
      }
    }
    const double on_empty = percentile(times[0], 0.5), on_full = percentile(times[1], 0.5);
    const double bare = percentile(times[2], 0.5);
    std::printf(
        "durable commits of one row: %.0f/s on an empty overlay, %.0f/s on %lld edits "
        "(%.2fx the time); bare SQLite %.0f/s (%.0f %% of it)\n",
        1e6 / on_empty, 1e6 / on_full, static_cast<long long>(n), on_full / on_empty, 1e6 / bare,
        100 * bare / on_full);
  }

  // What a forward pass notices of commits: the time to take the current epoch and probe it.
  void swap(TableStore& store) const {
    std::atomic<bool> done = false;
    std::vector<double> pauses;
    pauses.reserve(1 << 24);
    std::thread reader([&] {
      while (!done && pauses.size() < pauses.capacity()) {
        const auto start = Clock::now();
        const EpochPointer epoch = store.current();
        if (epoch->number() == 0) std::exit(1);
        pauses.push_back(seconds_since(start) * 1e6);
      }
    });
    for (int i = 0; i < kCommits; ++i) {
      if (!store.commit({edit(i * 701 + 2)}, "bench", "")) std::exit(1);
    }
    done = true;
    reader.join();
    const double p99 = percentile(pauses, 0.99);
    std::printf(
        "taking the epoch during %d commits: p50 %.2f us, p99 %.2f us, worst %.0f us (%zu times)\n",
        kCommits, percentile(pauses, 0.5), p99, pauses.back(), pauses.size());
  }

  std::string folder_;
  EngramLayout layout_;
  std::unique_ptr<ZeroRows> rows_;
};

int run(int argc, char** argv) {
  if (argc != 2 && !(argc == 4 && std::string(argv[2]) == "--edits")) {
    std::fprintf(stderr, "usage: table_edit_bench FOLDER [--edits N]\n");
    return 2;
  }
  const std::int64_t n = argc == 4 ? std::atoll(argv[3]) : 1000000;
  std::filesystem::create_directories(argv[1]);
  std::string folder = std::string(argv[1]) + "/table_edit_bench_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  {
    Bench bench(folder);
    auto empty = bench.open("empty.edits");
    auto full = bench.open("full.edits");
    bench.import(*full, n);
    bench.look_up(*full, n);
    bench.commit(*empty, *full, n);
    bench.swap(*full);
    full.reset();
    const auto start = Clock::now();
    full = bench.open("full.edits");
    std::printf("opening %lld edits again, every hash checked: %.1f s\n", static_cast<long long>(n),
                seconds_since(start));
  }
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace engramd::engine

int main(int argc, char** argv) {
  return engramd::engine::run(argc, argv);
}
