// Row files end to end: written, opened, damaged, cut, interrupted, verified.
#include "engine/engram/table_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engram/addresser.h"
#include "engine/engram/checkpoint_tables.h"
#include "engine/engram/crc32c.h"
#include "engine/engram/table_rows.h"
#include "engine/engram/table_verify.h"
#include "engine/engram/table_writer.h"

namespace engramd::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kBundledModel[] = ENGRAMD_SOURCE_DIR "/install/models/engram-nano";
const std::string kSomeMap(64, 'a');

// Rows whose every byte is known from layer, row and column.
class PatternContent final : public TableContent {
 public:
  explicit PatternContent(std::int64_t row_bytes, std::string identity = "pattern")
      : row_bytes_(row_bytes), identity_(std::move(identity)) {}
  static std::uint8_t byte(int layer, std::int64_t row, std::int64_t i) {
    return static_cast<std::uint8_t>((row * 131 + i * 7 + layer * 59 + row / 251) % 251);
  }
  std::vector<std::uint8_t> image(int layer, std::int64_t row) const {
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = 0; i < row_bytes_; ++i) bytes.push_back(byte(layer, row, i));
    return bytes;
  }
  Result<void> rows(int layer, std::int64_t first, std::int64_t count,
                    std::uint8_t* images) override {
    for (std::int64_t row = first; row < first + count; ++row) {
      const auto bytes = image(layer, row);
      images = std::copy(bytes.begin(), bytes.end(), images);
    }
    rows_asked += count;
    return {};
  }
  Result<void> owner_tags(int layer, std::int64_t first, std::span<std::uint16_t> tags) override {
    for (std::size_t i = 0; i < tags.size(); ++i) {
      tags[i] = static_cast<std::uint16_t>(first + static_cast<std::int64_t>(i) + layer);
    }
    return {};
  }
  std::string identity() const override { return identity_; }

  std::int64_t rows_asked = 0;

 private:
  std::int64_t row_bytes_;
  std::string identity_;
};

EngramLayout small_layout(std::int64_t buckets, int head_dim = 32) {
  EngramLayoutConfig config;
  config.layer_ids = {1, 3};
  config.max_ngram_size = 3;
  config.n_heads = 2;
  config.head_dim = head_dim;
  config.hashed_vocab_size = 1000;
  auto layout = make_bucket_layout(config, buckets);
  EXPECT_TRUE(layout.has_value()) << layout.error().message;
  return *layout;
}

TableHeader small_header(RowCodec codec = RowCodec::kF8E4M3E8M0, std::int64_t buckets = 401,
                         bool owner = true, int head_dim = 32) {
  auto header = make_table_header(small_layout(buckets, head_dim), {codec, head_dim, 0.5F}, owner,
                                  kSomeMap, 7);
  EXPECT_TRUE(header.has_value()) << header.error().message;
  return *header;
}

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_all(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class TableFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("engramd_table_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name = "table.engram") const { return folder_ / name; }

  std::string write_pattern(const TableHeader& header, const std::string& name = "table.engram") {
    PatternContent content(header.row_bytes());
    const auto written = write_table(path(name), header, content);
    EXPECT_TRUE(written.has_value()) << written.error().message;
    return path(name);
  }

  fs::path folder_;
};

// Every row of every layer through read(), in an awkward order with duplicates.
void expect_pattern(TableRows& table) {
  const TableHeader& header = table.header();
  const PatternContent content(header.row_bytes());
  const auto row_bytes = static_cast<std::size_t>(header.row_bytes());
  std::vector<RowKey> keys;
  for (std::int64_t i = 0; i < header.sections[0].n_rows; ++i) {
    const std::int64_t row = i * 7919 % header.sections[0].n_rows;
    keys.push_back({1, row});
    keys.push_back({0, row});
    if (i % 10 == 0) keys.push_back({1, row});
  }
  std::vector<std::uint8_t> images(keys.size() * row_bytes);
  const auto read = table.read(keys, images.data(), {});
  ASSERT_TRUE(read.has_value()) << read.error().message;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto expected = content.image(keys[i].layer, keys[i].row);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), images.data() + i * row_bytes))
        << "layer " << keys[i].layer << " row " << keys[i].row;
  }
}

TEST(Crc32c, KnownValuesBothWays) {
  // RFC 3720, appendix B.4.
  const std::string zeros(32, '\0'), ones(32, '\xFF');
  EXPECT_EQ(crc32c(zeros.data(), 32), 0x8A9136AAU);
  EXPECT_EQ(crc32c(ones.data(), 32), 0x62A8AB43U);
  EXPECT_EQ(crc32c_portable(zeros.data(), 32), 0x8A9136AAU);
  EXPECT_EQ(crc32c("123456789", 9), 0xE3069283U);
  for (std::size_t n = 0; n < 33; ++n) {  // every tail, and in two parts
    EXPECT_EQ(crc32c(ones.data(), n, 5), crc32c_portable(ones.data(), n, 5));
    EXPECT_EQ(crc32c("456789", 6, crc32c("123", 3)), 0xE3069283U);
  }
}

TEST_F(TableFileTest, EveryCodecInEveryModeGivesTheRowsBack) {
  for (int codec = 0; codec <= static_cast<int>(RowCodec::kI8Scale); ++codec) {
    const TableHeader header = small_header(static_cast<RowCodec>(codec));
    const std::string file = write_pattern(header, "codec" + std::to_string(codec));
    for (const bool map : {true, false}) {
      TableOpenOptions options;
      options.map = map;
      const auto table = TableRows::open(file, options);
      ASSERT_TRUE(table.has_value()) << table.error().message;
      EXPECT_EQ((*table)->plan().mode, map ? TableMode::kMapped : TableMode::kResident);
      expect_pattern(**table);
      const RowBytes row = (*table)->source(1).resident(42);
      const auto expected = PatternContent(header.row_bytes()).image(1, 42);
      EXPECT_EQ(std::memcmp(row.codes, expected.data(), expected.size()), 0);
      EXPECT_EQ(row.scales != nullptr, header.format.scales_bytes() > 0);
    }
    for (const bool uring : {true, false}) {
      for (const std::int64_t cache_bytes : {0, 5000, 1 << 20}) {
        TableOpenOptions options;
        options.cache_levels = 1;
        options.cache_bytes = cache_bytes;
        options.reader.use_io_uring = uring;
        options.reader.queue_depth = 8;
        const auto table = TableRows::open(file, options);
        ASSERT_TRUE(table.has_value()) << table.error().message;
        EXPECT_EQ((*table)->source(0).resident(0).codes, nullptr);
        expect_pattern(**table);
        expect_pattern(**table);
      }
    }
  }
}

TEST_F(TableFileTest, RowsWiderThanHalfAPageAndRowsThatFillIt) {
  for (const int head_dim : {600, 1024}) {
    const TableHeader header = small_header(RowCodec::kF32, 17, false, head_dim);
    EXPECT_EQ(header.rows_per_page, 1);
    const auto table = TableRows::open(write_pattern(header, std::to_string(head_dim)), {});
    ASSERT_TRUE(table.has_value());
    expect_pattern(**table);
  }
  const auto wide =
      make_table_header(small_layout(17, 1025), {RowCodec::kF32, 1025, 1}, false, kSomeMap, 1);
  ASSERT_FALSE(wide.has_value());
  EXPECT_THAT(wide.error().message, HasSubstr("does not fit a page"));
}

TEST_F(TableFileTest, HeaderSaysWhatWasWritten) {
  const TableHeader header = small_header(RowCodec::kF8E4M3TensorScale);
  const auto file = TableFile::open(write_pattern(header));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->header().generation, 7U);
  EXPECT_EQ(file->header().format.tensor_scale, 0.5F);
  EXPECT_EQ(file->header().token_map_sha256, kSomeMap);
  EXPECT_EQ(layout_sha256(file->header().layout), layout_sha256(header.layout));
  EXPECT_EQ(file->header().layout.layers[1].offsets, header.layout.layers[1].offsets);
  EXPECT_TRUE(check_table_matches(file->header(), header.layout, kSomeMap).has_value());
  const auto tags = file->read_owner_tags(1);
  ASSERT_TRUE(tags.has_value());
  ASSERT_EQ(tags->size(), static_cast<std::size_t>(header.sections[1].n_rows));
  EXPECT_EQ((*tags)[1234], 1235);
  EXPECT_FALSE(fs::exists(path("table.engram.partial")));
}

TEST_F(TableFileTest, TheLayoutOfEveryVariantComesBackWhole) {
  for (const EngramVariant variant :
       {EngramVariant::kDemo, EngramVariant::kDeepSeekV41, EngramVariant::kQwen4Exp,
        EngramVariant::kBundled, EngramVariant::kPeft}) {
    EngramLayoutConfig config;
    config.variant = variant;
    config.layer_ids = {1, 3};
    config.n_heads = 2;
    config.head_dim = 32;
    config.vocab_size = {211, 223};
    config.hashed_vocab_size = 1000;
    if (variant == EngramVariant::kQwen4Exp) {
      config.eos_token_ids = {7};
      config.multipliers = {{3, 5, 7}, {11, 13, 17}};
    }
    const auto layout = make_layout(config);
    ASSERT_TRUE(layout.has_value()) << name_of(variant) << ": " << layout.error().message;
    const auto header =
        make_table_header(*layout, {RowCodec::kF16, 32}, false, kSomeMap, 1).value();
    const std::string bytes = serialize_table_header(header);
    const auto parsed = parse_table_header(bytes, header.file_bytes);
    ASSERT_TRUE(parsed.has_value()) << name_of(variant) << ": " << parsed.error().message;
    EXPECT_EQ(parsed->layout.config.variant, variant);
    const std::vector<std::int32_t> classes = {5, 9, 2, 7, 7, 11, 4, 30};
    std::vector<std::int64_t> rows(classes.size() * 4), again(rows.size());
    for (int layer = 0; layer < 2; ++layer) {
      Addresser(*layout, 2).rows(layer, classes, 0, 8, rows.data());
      Addresser(parsed->layout, 2).rows(layer, classes, 0, 8, again.data());
      EXPECT_EQ(again, rows) << name_of(variant);
    }
  }
}

TEST_F(TableFileTest, ATableOfAnotherModelIsRefused) {
  const TableHeader header = small_header();
  const auto other_layout = check_table_matches(header, small_layout(409), kSomeMap);
  ASSERT_FALSE(other_layout.has_value());
  EXPECT_THAT(other_layout.error().message, HasSubstr("layout"));
  const auto other_map = check_table_matches(header, header.layout, std::string(64, 'b'));
  ASSERT_FALSE(other_map.has_value());
  EXPECT_THAT(other_map.error().message, HasSubstr("token map"));
}

TEST_F(TableFileTest, EveryFlippedByteOfTheHeaderIsRefused) {
  const std::string good = read_all(write_pattern(small_header()));
  const auto file_bytes = static_cast<std::int64_t>(good.size());
  ASSERT_TRUE(parse_table_header(good, file_bytes).has_value());
  for (std::size_t i = 0; i < static_cast<std::size_t>(kTablePageBytes); ++i) {
    std::string bad = good.substr(0, static_cast<std::size_t>(kTablePageBytes));
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    ASSERT_FALSE(parse_table_header(bad, file_bytes).has_value()) << "byte " << i;
  }
}

// A forger who repairs the checksum gets no further than the fields' own checks.
TEST_F(TableFileTest, EveryFlippedFieldWithARepairedChecksumIsRefused) {
  const std::string good = read_all(write_pattern(small_header()));
  const auto file_bytes = static_cast<std::int64_t>(good.size());
  // Tensor scale, generation, content checksum and token map say nothing about the sizes: opening
  // compares them with the rows and the model.
  constexpr std::size_t kFreeBegin = 24, kFreeEnd = 76;
  for (std::size_t i = 0; i < static_cast<std::size_t>(kTablePageBytes) - 4; ++i) {
    if (i >= kFreeBegin && i < kFreeEnd && !(i >= 28 && i < 32)) continue;
    std::string bad = good.substr(0, static_cast<std::size_t>(kTablePageBytes));
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    const std::uint32_t crc = crc32c(bad.data(), bad.size() - 4);
    std::memcpy(bad.data() + bad.size() - 4, &crc, 4);
    ASSERT_FALSE(parse_table_header(bad, file_bytes).has_value()) << "byte " << i;
  }
}

TEST_F(TableFileTest, CutGrownAndForeignFilesAreRefused) {
  const std::string file = write_pattern(small_header());
  const std::string good = read_all(file);
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, std::size_t{4096}, good.size() - 1}) {
    write_all(path("cut"), good.substr(0, n));
    EXPECT_FALSE(TableRows::open(path("cut"), {}).has_value()) << n;
  }
  write_all(path("grown"), good + "x");
  EXPECT_THAT(TableRows::open(path("grown"), {}).error().message, HasSubstr("appended"));
  const auto foreign = TableRows::open(std::string(kBundledModel) + "/model.safetensors", {});
  ASSERT_FALSE(foreign.has_value());
  EXPECT_THAT(foreign.error().message, HasSubstr("table import"));
  EXPECT_FALSE(TableRows::open(folder_, {}).has_value());
  EXPECT_EQ(TableRows::open(path("none"), {}).error().kind, ErrorKind::kNotFound);
}

TEST_F(TableFileTest, PagesOfAnotherFileBehindTheHeaderAreFound) {
  const std::string mine = read_all(write_pattern(small_header()));
  PatternContent other(small_header().row_bytes());
  TableHeader header = small_header();
  ZeroContent zeros = *ZeroContent::make(header.format);
  ASSERT_TRUE(write_table(path("zeros"), header, zeros).has_value());
  const std::string theirs = read_all(path("zeros"));
  write_all(path("swapped"), mine.substr(0, 4096) + theirs.substr(4096));
  const auto table = TableRows::open(path("swapped"), {});
  ASSERT_FALSE(table.has_value());
  EXPECT_THAT(table.error().message, HasSubstr("checksums"));
}

TEST_F(TableFileTest, ADamagedPageIsFoundByEveryModeAndByVerify) {
  const TableHeader header = small_header();
  const std::string file = write_pattern(header);
  std::string bytes = read_all(file);
  // Row 500 of layer index 1.
  const std::int64_t damaged = header.sections[1].data_offset_bytes +
                               500 / header.rows_per_page * kTablePageBytes +
                               500 % header.rows_per_page * header.row_bytes();
  bytes[static_cast<std::size_t>(damaged)] ^= 1;
  write_all(file, bytes);

  TableOpenOptions copy;
  copy.map = false;
  const auto refused = TableRows::open(file, copy);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("layer 3, rows"));

  TableOpenOptions on_demand;
  on_demand.cache_levels = 1;
  for (const TableOpenOptions& options : {TableOpenOptions{}, on_demand}) {
    const auto table = TableRows::open(file, options);
    ASSERT_TRUE(table.has_value());
    std::vector<std::uint8_t> image(static_cast<std::size_t>(header.row_bytes()));
    const std::int64_t bad = 500, good = 500 - header.rows_per_page;
    EXPECT_EQ((*table)->source(1).resident(bad).codes, nullptr);
    const auto read = (*table)->source(1).read({&bad, 1}, image.data(), {});
    ASSERT_FALSE(read.has_value());
    EXPECT_THAT(read.error().message, HasSubstr("is damaged"));
    EXPECT_TRUE((*table)->source(1).read({&good, 1}, image.data(), {}).has_value());
    EXPECT_TRUE((*table)->source(0).read({&bad, 1}, image.data(), {}).has_value());
  }

  const auto report = verify_table(*TableFile::open(file));
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->n_pages, header.n_pages());
  EXPECT_EQ(report->n_damaged, 1);
  EXPECT_THAT(report->damaged, testing::ElementsAre(HasSubstr("layer 3, rows")));
}

TEST_F(TableFileTest, AFileCutWhileItIsReadIsAnErrorNotACrash) {
  const std::string file = write_pattern(small_header());
  for (const bool uring : {true, false}) {
    TableOpenOptions options;
    options.cache_levels = 1;
    options.reader.use_io_uring = uring;
    const std::string copy = path(uring ? "u" : "p");
    fs::copy_file(file, copy);
    const auto table = TableRows::open(copy, options);
    ASSERT_TRUE(table.has_value());
    fs::resize_file(copy, 8192);
    std::vector<std::uint8_t> image(4096);
    const std::int64_t row = 1000;
    const auto read = (*table)->source(1).read({&row, 1}, image.data(), {});
    ASSERT_FALSE(read.has_value());
    EXPECT_THAT(read.error().message, HasSubstr("shorter"));
  }
}

TEST_F(TableFileTest, AnInterruptedWriteGoesOnWhereItStopped) {
  const TableHeader header = small_header(RowCodec::kF32, 20011);  // 80044 rows per layer
  PatternContent first(header.row_bytes()), second(header.row_bytes());
  std::stop_source stop;
  TableWriteOptions options;
  options.stop = stop.get_token();
  options.sync_bytes = 1 << 20;
  options.progress = [&](const TableProgress& progress) {
    if (progress.pages_done >= progress.pages_total / 2) stop.request_stop();
  };
  const auto stopped = write_table(path(), header, first, options);
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kCancelled);
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_FALSE(TableFile::open(path() + ".partial").has_value()) << "half a table was opened";

  ASSERT_TRUE(write_table(path(), header, second).has_value());
  EXPECT_LT(second.rows_asked, header.n_rows());
  EXPECT_GE(first.rows_asked + second.rows_asked, header.n_rows());
  EXPECT_EQ(verify_table(*TableFile::open(path()))->n_damaged, 0);
  expect_pattern(**TableRows::open(path(), {}));
  EXPECT_FALSE(fs::exists(path() + ".partial"));
}

TEST_F(TableFileTest, APartialFileOfOtherContentIsNotContinued) {
  const TableHeader header = small_header(RowCodec::kF32, 20011);
  PatternContent first(header.row_bytes(), "old checkpoint");
  std::stop_source stop;
  TableWriteOptions options;
  options.stop = stop.get_token();
  options.progress = [&](const TableProgress&) { stop.request_stop(); };
  ASSERT_FALSE(write_table(path(), header, first, options).has_value());
  PatternContent second(header.row_bytes(), "new checkpoint");
  ASSERT_TRUE(write_table(path(), header, second).has_value());
  EXPECT_EQ(second.rows_asked, header.n_rows());
}

TEST_F(TableFileTest, AnExistingTableAndASecondWriterAreRefused) {
  const TableHeader header = small_header();
  write_pattern(header);
  PatternContent content(header.row_bytes());
  EXPECT_THAT(write_table(path(), header, content).error().message, HasSubstr("exists already"));
  write_all(path("other.partial"), "");
  const int held = ::open(path("other.partial").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX | LOCK_NB), 0);
  EXPECT_THAT(write_table(path("other"), header, content).error().message,
              HasSubstr("another process"));
  ::close(held);
}

TEST_F(TableFileTest, ZeroRowsDecodeToZeroAndTakeNoDiskSpace) {
  const TableHeader header = small_header(RowCodec::kF16, 100003, false);
  ZeroContent zeros = *ZeroContent::make(header.format);
  ASSERT_TRUE(write_table(path(), header, zeros).has_value());
  const auto table = TableRows::open(path(), {});
  ASSERT_TRUE(table.has_value()) << table.error().message;
  std::vector<float> values(32, 1.0F);
  decode_row(RowCodec::kF16, (*table)->source(1).resident(400000).codes, values);
  EXPECT_THAT(values, testing::Each(0.0F));
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, status.st_size / 10);
}

TEST_F(TableFileTest, TheBundledModelImportsBitForBit) {
  auto tables = open_checkpoint_tables(kBundledModel);
  ASSERT_TRUE(tables.has_value()) << tables.error().message;
  CheckpointContent content(*tables, kBundledModel);
  auto header = content.header();
  ASSERT_TRUE(header.has_value()) << header.error().message;
  EXPECT_EQ(header->format.codec, RowCodec::kF8E4M3E8M0);
  ASSERT_TRUE(write_table(path(), *header, content).has_value());
  const auto file = TableRows::open(path(), {});
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_TRUE(check_table_matches((*file)->header(), tables->layout, sha256_hex(tables->token_map))
                  .has_value());
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const RowSource& from = tables->layers[layer];
    const RowSource& to = (*file)->source(static_cast<int>(layer));
    ASSERT_EQ(from.n_rows(), to.n_rows());
    for (std::int64_t row = 0; row < from.n_rows(); ++row) {
      const RowBytes a = from.resident(row), b = to.resident(row);
      ASSERT_EQ(std::memcmp(a.codes, b.codes, 32), 0) << row;
      ASSERT_EQ(*a.scales, *b.scales) << row;
    }
    const auto tags = (*file)->file().read_owner_tags(static_cast<int>(layer));
    ASSERT_TRUE(tags.has_value());
    EXPECT_TRUE(std::equal(tags->begin(), tags->end(), tables->layers[layer].owner()));
  }
}

}  // namespace
}  // namespace engramd::engine
