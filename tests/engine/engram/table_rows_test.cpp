// What opening a table takes and refuses, and the cache in front of the file.
#include "engine/engram/table_rows.h"

#include <cstring>
#include <filesystem>
#include <random>
#include <span>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/engram/table_writer.h"

namespace engramd::engine {
namespace {

using ::testing::HasSubstr;

// As the users' config.toml: orders 2..5, 2,000,000 buckets of 512 halves, one head.
TableHeader users_header() {
  EngramLayoutConfig config;
  config.layer_ids = {1};
  config.max_ngram_size = 5;
  config.n_heads = 1;
  config.head_dim = 512;
  config.hashed_vocab_size = 98627;
  return *make_table_header(*make_bucket_layout(config, 2000000), {RowCodec::kF16, 512, 1}, false,
                            std::string(64, '0'), 1);
}

TEST(TableMemory, TheUsersSizeArithmetic) {
  const TableHeader header = users_header();
  EXPECT_EQ(header.n_rows() * header.row_bytes(), 4LL * 2000000 * 512 * 2);
  EXPECT_EQ(header.rows_per_page, 4);
}

TEST(TableMemory, ALimitChoosesTheModeAndIsNeverExceeded) {
  const TableHeader header = users_header();
  TableOpenOptions options;
  EXPECT_EQ(plan_table_memory(header, options)->mode, TableMode::kMapped);
  options.map = false;
  EXPECT_EQ(plan_table_memory(header, options)->mode, TableMode::kResident);
  options.host_memory_bytes_max = 9'000'000'000;
  EXPECT_EQ(plan_table_memory(header, options)->mode, TableMode::kResident);
  for (const std::int64_t limit : {8'000'000'000L, 100'000'000L, 20'000'000L}) {
    options.host_memory_bytes_max = limit;
    const auto plan = plan_table_memory(header, options);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    EXPECT_EQ(plan->mode, TableMode::kFile);
    EXPECT_TRUE(plan->direct_io);  // the page cache would hold rows beyond the limit
    EXPECT_LE(plan->total_bytes(), limit);
  }
}

TEST(TableMemory, RefusalsNameBothNumbersAndTheRemedy) {
  TableOpenOptions options;
  options.host_memory_bytes_max = 8'000'000'000;
  options.cache_levels = 2;
  const auto full = plan_table_memory(users_header(), options);
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().kind, ErrorKind::kLimitExceeded);
  EXPECT_THAT(full.error().message, HasSubstr("8.200 GB"));
  EXPECT_THAT(full.error().message, HasSubstr("8.000 GB"));
  EXPECT_THAT(full.error().message, HasSubstr("cache_levels = 3"));
  options.host_memory_bytes_max = 1'000'000;
  options.cache_levels = 3;
  const auto tiny = plan_table_memory(users_header(), options);
  ASSERT_FALSE(tiny.has_value());
  EXPECT_THAT(tiny.error().message, HasSubstr("raise the limit"));
  options = {};
  options.map = false;
  options.available_memory_bytes = 4'000'000'000;
  EXPECT_EQ(plan_table_memory(users_header(), options)->mode, TableMode::kFile);
  options.cache_levels = 2;
  EXPECT_THAT(plan_table_memory(users_header(), options).error().message,
              HasSubstr("4.000 GB are available"));
}

TEST(HotRowsTest, EqualsAMapAndStaysWithinItsBytes) {
  HotRows cache(1000, 8);
  ASSERT_GT(cache.capacity(), 20);
  EXPECT_LE(cache.bytes(), 1000);
  std::mt19937_64 random(1);
  std::int64_t hits = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto key = static_cast<std::int64_t>(random() % 60);
    if (const std::uint8_t* image = cache.find(key)) {
      ++hits;
      std::int64_t stored = 0;
      std::memcpy(&stored, image, 8);
      ASSERT_EQ(stored, key * 77);
    } else {
      const std::int64_t value = key * 77;
      cache.insert(key, reinterpret_cast<const std::uint8_t*>(&value));
      ASSERT_NE(cache.find(key), nullptr);
    }
  }
  EXPECT_GT(hits, 5000);
  HotRows none(0, 8);
  none.insert(1, nullptr);
  EXPECT_EQ(none.find(1), nullptr);
}

TEST(HotRowsTest, RowsThatCameBackOutliveAScan) {
  HotRows cache(4000, 8);
  const std::uint8_t image[8] = {};
  for (std::int64_t key = 0; key < 10; ++key) {
    cache.insert(key, image);
    cache.find(key);
  }
  for (std::int64_t key = 1000; key < 1000 + cache.capacity() - 10; ++key) cache.insert(key, image);
  cache.insert(5000, image);  // the hand passes the ten and takes a row that never came back
  for (std::int64_t key = 0; key < 10; ++key) EXPECT_NE(cache.find(key), nullptr) << key;
}

// Bytes that tell rows and layers apart.
class CountedContent final : public TableContent {
 public:
  explicit CountedContent(std::int64_t row_bytes) : row_bytes_(row_bytes) {}
  static std::uint8_t byte(int layer, std::int64_t row, std::int64_t at) {
    return static_cast<std::uint8_t>((row * 37 + at * 11 + layer * 101) % 253);
  }
  Result<void> rows(int layer, std::int64_t first, std::int64_t count,
                    std::uint8_t* images) override {
    for (std::int64_t i = 0; i < count * row_bytes_; ++i) {
      images[i] = byte(layer, first + i / row_bytes_, i % row_bytes_);
    }
    return {};
  }
  Result<void> owner_tags(int, std::int64_t, std::span<std::uint16_t>) override { return {}; }
  std::string identity() const override { return "counted"; }

 private:
  std::int64_t row_bytes_;
};

// Two layers of 6,000 rows of 256 fp8 and 8 scales, 15 to a page.
struct CountedTable {
  CountedTable()
      : path(std::filesystem::temp_directory_path() /
             ("engramd_counted_rows_" + std::to_string(::getpid()))) {
    EngramLayoutConfig config;
    config.layer_ids = {1, 3};
    config.max_ngram_size = 4;
    config.n_heads = 2;
    config.head_dim = 256;
    config.hashed_vocab_size = 1000;
    header = *make_table_header(*make_bucket_layout(config, 1000), {RowCodec::kF8E4M3E8M0, 256, 1},
                                false, std::string(64, '0'), 1);
    CountedContent content(header.row_bytes());
    EXPECT_TRUE(write_table(path, header, content).has_value());
  }
  ~CountedTable() { std::filesystem::remove(path); }
  bool is_image(const std::uint8_t* image, int layer, std::int64_t row) const {
    for (std::int64_t i = 0; i < header.row_bytes(); ++i) {
      if (image[i] != CountedContent::byte(layer, row, i)) return false;
    }
    return true;
  }
  void damage_page_of(int layer, std::int64_t row) const {
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    const std::uint8_t wrong = 254;
    const auto at = header.sections[static_cast<std::size_t>(layer)].data_offset_bytes +
                    row / header.rows_per_page * kTablePageBytes;
    EXPECT_EQ(::pwrite(file, &wrong, 1, at), 1);
    ::close(file);
  }

  std::string path;
  TableHeader header;
};

TEST(TableRowsTest, ManyRowsAtOnceLieWhereTheirImagesAre) {
  const CountedTable counted;
  for (const bool map : {true, false}) {
    TableOpenOptions options;
    options.map = map;
    const auto table = TableRows::open(counted.path, options);
    ASSERT_TRUE(table.has_value()) << table.error().message;
    for (const int layer : {0, 1}) {
      RowSource& source = (*table)->source(layer);
      std::vector<std::int64_t> rows;
      for (std::int64_t row = source.n_rows() - 1; row >= 0; row -= 7) rows.push_back(row);
      std::vector<RowBytes> places(rows.size());
      source.resident_rows(rows, places.data());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        ASSERT_TRUE(counted.is_image(places[i].codes, layer, rows[i])) << rows[i];
        ASSERT_EQ(places[i].scales, places[i].codes + 256);
        ASSERT_EQ(places[i].codes, source.resident(rows[i]).codes);
      }
    }
  }
}

TEST(TableRowsTest, AWarmUpThatDoesNotGetOnEndsAndSaysSo) {
  const CountedTable counted;
  TableOpenOptions options;
  EXPECT_EQ((*TableRows::open(counted.path, options))->warning(), "");
  options.warm_up_patience_s = 0;
  options.warm_up_bytes_per_s_min = 1e18;  // no drive is that fast
  const auto slow = TableRows::open(counted.path, options);
  ASSERT_TRUE(slow.has_value());
  EXPECT_NE((*slow)->warning().find("the warm-up does not get on: 0.001 GB of 0.00"),
            std::string::npos)
      << (*slow)->warning();
  EXPECT_NE((*slow)->warning().find("engram.table.prefetch = false"), std::string::npos);
  std::vector<std::uint8_t> image(static_cast<std::size_t>(counted.header.row_bytes()));
  const RowKey last{1, counted.header.sections[1].n_rows - 1};
  ASSERT_TRUE((*slow)->read({&last, 1}, image.data(), {}).has_value());
  EXPECT_TRUE(counted.is_image(image.data(), 1, last.row)) << "read at its first use";
}

TEST(TableRowsTest, OnlyTheRowsOfADamagedPageHaveNoPlace) {
  const CountedTable counted;
  counted.damage_page_of(1, 3000);
  const auto table = TableRows::open(counted.path, {});
  ASSERT_TRUE(table.has_value());
  ASSERT_EQ((*table)->plan().mode, TableMode::kMapped);
  const std::int64_t rows[] = {2999, 3000, 3014, 3015};
  RowBytes places[4];
  (*table)->source(1).resident_rows(rows, places);
  EXPECT_NE(places[0].codes, nullptr);
  EXPECT_EQ(places[1].codes, nullptr);
  EXPECT_EQ(places[2].codes, nullptr);
  EXPECT_NE(places[3].codes, nullptr);
}

TableOpenOptions file_mode(bool use_io_uring) {
  TableOpenOptions options;
  options.cache_levels = 1;
  options.cache_bytes = 0;
  options.reader = {.queue_depth = 32, .direct_io = true, .use_io_uring = use_io_uring};
  return options;
}

// More pages than one chunk holds, in no order, rows of one page and rows twice among them.
std::vector<RowKey> mixed_keys(const TableHeader& header) {
  std::mt19937_64 random(3);
  std::vector<RowKey> keys;
  for (int i = 0; i < 9000; ++i) {
    const int layer = static_cast<int>(random() % 2);
    const auto n_rows =
        static_cast<std::uint64_t>(header.sections[static_cast<std::size_t>(layer)].n_rows);
    keys.push_back({layer, static_cast<std::int64_t>(random() % n_rows)});
  }
  return keys;
}

TEST(TableRowsTest, RowsOfManyPagesComeFromTheFileInTheOrderAsked) {
  const CountedTable counted;
  const std::vector<RowKey> keys = mixed_keys(counted.header);
  const auto row_bytes = static_cast<std::size_t>(counted.header.row_bytes());
  for (const bool use_io_uring : {true, false}) {
    const auto table = TableRows::open(counted.path, file_mode(use_io_uring));
    ASSERT_TRUE(table.has_value()) << table.error().message;
    std::vector<std::uint8_t> images(keys.size() * row_bytes);
    ASSERT_TRUE((*table)->read(keys, images.data(), {}).has_value());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_TRUE(counted.is_image(images.data() + i * row_bytes, keys[i].layer, keys[i].row)) << i;
    }
    EXPECT_LE((*table)->stats().pages_read, counted.header.n_data_pages());  // each page once
    EXPECT_LE((*table)->stats().depth_max, 32);                              // not the chunk's size
  }
}

TEST(TableRowsTest, ADamagedPageAmongOthersIsNamedAndTheRestStaysReadable) {
  const CountedTable counted;
  counted.damage_page_of(1, 3000);
  const std::vector<RowKey> keys = mixed_keys(counted.header);
  std::vector<std::uint8_t> images(keys.size() *
                                   static_cast<std::size_t>(counted.header.row_bytes()));
  for (const bool use_io_uring : {true, false}) {
    const auto table = TableRows::open(counted.path, file_mode(use_io_uring));
    ASSERT_TRUE(table.has_value()) << table.error().message;
    const auto read = (*table)->read(keys, images.data(), {});
    ASSERT_FALSE(read.has_value());
    EXPECT_THAT(read.error().message, HasSubstr(counted.path));
    EXPECT_THAT(read.error().message, HasSubstr("page"));
    const RowKey whole = {1, 3015};
    ASSERT_TRUE((*table)->read({&whole, 1}, images.data(), {}).has_value());
    EXPECT_TRUE(counted.is_image(images.data(), 1, 3015));
  }
}

TEST(TableRowsTest, CountsByLevelAndOrderAndStopsOnRequest) {
  EngramLayoutConfig config;
  config.layer_ids = {1};
  config.max_ngram_size = 3;
  config.n_heads = 1;
  config.head_dim = 64;
  config.hashed_vocab_size = 1000;
  const auto header = make_table_header(*make_bucket_layout(config, 1000), {RowCodec::kF32, 64, 1},
                                        false, std::string(64, '0'), 1);
  const std::string path =
      std::filesystem::temp_directory_path() / ("engramd_table_rows_" + std::to_string(::getpid()));
  ZeroContent zeros = *ZeroContent::make(header->format);
  ASSERT_TRUE(write_table(path, *header, zeros).has_value());
  TableOpenOptions options;
  options.cache_levels = 1;
  const auto opened = TableRows::open(path, options);
  std::filesystem::remove(path);  // stays readable while open
  ASSERT_TRUE(opened.has_value());
  TableRows& table = **opened;
  std::vector<std::uint8_t> images(4 * 256);
  // Rows 0..999 belong to order 2, the rest to order 3; rows 5 and 6 share a page.
  const RowKey keys[] = {{0, 5}, {0, 6}, {0, 1500}, {0, 1500}};
  ASSERT_TRUE(table.read(keys, images.data(), {}).has_value());
  ASSERT_TRUE(table.read(std::span(keys).first(1), images.data(), {}).has_value());
  const TableReadStats stats = table.stats();
  EXPECT_EQ(stats.pages_read, 2);
  EXPECT_EQ(stats.bytes_read, 8192);
  EXPECT_EQ(stats.n_rows, 5);
  EXPECT_EQ(stats.orders[0].file_reads, 2);
  EXPECT_EQ(stats.orders[0].cache_hits, 1);
  EXPECT_EQ(stats.orders[1].file_reads, 2);
  std::stop_source stop;
  stop.request_stop();
  const RowKey other = {0, 900};
  const auto stopped = table.read({&other, 1}, images.data(), stop.get_token());
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kCancelled);
}

}  // namespace
}  // namespace engramd::engine
