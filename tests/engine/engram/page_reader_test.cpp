// Page readers beside the kernel's moods: submissions that fail, are interrupted or put off, pages
// that come in pieces. io_uring_submit_and_wait is wrapped by the linker (CMakeLists.txt); a named
// pipe stands in for the drive where the test decides when a page comes.
#include "engine/engram/page_reader.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engram/table_file.h"

namespace {

// What the next calls of io_uring_submit_and_wait answer, after taking the entries or not.
struct Mood {
  int code = 0;  // 0: as the kernel says
  int n_calls = 0;
  bool takes_entries = false;
};
std::atomic<int> g_calls{0};
Mood g_mood;

}  // namespace

// The names are the linker's. NOLINTBEGIN(readability-identifier-naming)
extern "C" int __real_io_uring_submit_and_wait(io_uring* ring, unsigned n);
extern "C" int __wrap_io_uring_submit_and_wait(io_uring* ring, unsigned n) {
  if (g_mood.n_calls == 0) return __real_io_uring_submit_and_wait(ring, n);
  --g_mood.n_calls;
  if (g_mood.takes_entries) io_uring_submit(ring);
  const int code = g_mood.code;
  ++g_calls;
  g_calls.notify_all();
  return code;
}
// NOLINTEND(readability-identifier-naming)

namespace engramd::engine {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kPage = kTablePageBytes;
constexpr auto kReady = std::future_status::ready;

std::vector<std::uint8_t> page_of(std::size_t index) {
  std::vector<std::uint8_t> page(kPage);
  for (std::size_t i = 0; i < kPage; ++i) page[i] = static_cast<std::uint8_t>(index * 31 + i % 251);
  return page;
}

class Pages : public ::testing::Test {
 protected:
  void SetUp() override {
    g_mood = {};
    g_calls = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("engramd_page_reader_" + std::to_string(::getpid()));
  }
  void TearDown() override {
    if (file_ >= 0) ::close(file_);
    std::filesystem::remove(path_);
  }
  std::unique_ptr<PageReader> open_file(std::size_t n_pages, PageReaderOptions options) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (std::size_t i = 0; i < n_pages; ++i) write_page(i, kPage);
    return *make_page_reader(path_, file_, options);
  }
  // nullptr where io_uring is refused.
  std::unique_ptr<PageReader> open_pipe(int queue_depth) {
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    file_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    auto reader = *make_page_reader(path_, file_, {.queue_depth = queue_depth});
    return std::strcmp(reader->name(), "io_uring") == 0 ? std::move(reader) : nullptr;
  }
  void write_page(std::size_t index, std::size_t n_bytes) {
    ASSERT_EQ(::write(file_, page_of(index).data(), n_bytes), static_cast<ssize_t>(n_bytes));
  }

  std::string path_;
  int file_ = -1;
};

void expect_pages(const PageBuffer& pages, std::span<const std::int64_t> offsets) {
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const auto wanted = page_of(static_cast<std::size_t>(offsets[i]) / kPage);
    ASSERT_EQ(std::memcmp(pages.get() + i * kPage, wanted.data(), kPage), 0) << i;
  }
}

std::vector<std::int64_t> every_third(std::size_t n, std::size_t n_pages) {
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < n; ++i) {
    offsets.push_back(static_cast<std::int64_t>(i * 3 % n_pages * kPage));
  }
  return offsets;
}

TEST_F(Pages, EveryReaderReadsThemAtAnyDepth) {
  for (const bool use_io_uring : {true, false}) {
    for (const bool direct_io : {true, false}) {
      for (const int queue_depth : {1, 7, 128}) {
        auto reader = open_file(
            50, {.queue_depth = queue_depth, .direct_io = direct_io, .use_io_uring = use_io_uring});
        const auto offsets = every_third(120, 50);
        const PageBuffer pages = make_page_buffer(120);
        const auto read = reader->read(offsets, pages.get(), {}, {});
        ASSERT_TRUE(read.has_value()) << read.error().message;
        expect_pages(pages, offsets);
      }
    }
  }
}

TEST_F(Pages, EveryPageArrivesOnceAndIsThereByThen) {
  for (const bool use_io_uring : {true, false}) {
    for (const bool direct_io : {true, false}) {
      auto reader =
          open_file(50, {.queue_depth = 16, .direct_io = direct_io, .use_io_uring = use_io_uring});
      const auto offsets = every_third(120, 50);
      const PageBuffer pages = make_page_buffer(120);
      std::vector<int> times(120, 0);
      const PagesArrived arrived = [&](std::span<const std::size_t> indices) {
        for (const std::size_t i : indices) {
          ++times[i];
          const auto wanted = page_of(static_cast<std::size_t>(offsets[i]) / kPage);
          EXPECT_EQ(std::memcmp(pages.get() + i * kPage, wanted.data(), kPage), 0) << i;
        }
      };
      ASSERT_TRUE(reader->read(offsets, pages.get(), arrived, {}).has_value());
      EXPECT_EQ(times, std::vector<int>(120, 1));
    }
  }
}

TEST_F(Pages, PagesArriveWhileOthersAreOnTheirWay) {
  auto reader = open_pipe(4);
  if (!reader) GTEST_SKIP() << "io_uring is refused here";
  const std::vector<std::int64_t> offsets(4, 0);
  const PageBuffer pages = make_page_buffer(4);
  std::promise<void> some;
  std::size_t n_arrived = 0;
  const PagesArrived arrived = [&](std::span<const std::size_t> indices) {
    if (n_arrived == 0) some.set_value();
    n_arrived += indices.size();
  };
  auto read = std::async(std::launch::async, [&] {
    return reader->read(offsets, pages.get(), arrived, {}).has_value();
  });
  for (int i = 0; i < 2; ++i) write_page(5, kPage);
  EXPECT_EQ(some.get_future().wait_for(std::chrono::seconds(20)), kReady);
  for (int i = 0; i < 2; ++i) write_page(5, kPage);
  ASSERT_TRUE(read.get());
  EXPECT_EQ(n_arrived, 4U);
}

TEST_F(Pages, AFileThatBecameShorterIsRefusedAndReadAgainOnceItIsWhole) {
  for (const bool use_io_uring : {true, false}) {
    for (const bool direct_io : {true, false}) {
      for (const off_t cut : {2 * 4096 + 1000, 2 * 4096 + 512, 2 * 4096}) {
        auto reader =
            open_file(4, {.queue_depth = 8, .direct_io = direct_io, .use_io_uring = use_io_uring});
        const auto offsets = every_third(4, 4);
        const PageBuffer pages = make_page_buffer(4);
        ASSERT_EQ(::ftruncate(file_, cut), 0);
        const auto read = reader->read(offsets, pages.get(), {}, {});
        ASSERT_FALSE(read.has_value());
        EXPECT_THAT(read.error().message, HasSubstr("became shorter"));
        ::lseek(file_, 0, SEEK_SET);
        for (std::size_t i = 0; i < 4; ++i) write_page(i, kPage);
        ASSERT_TRUE(reader->read(offsets, pages.get(), {}, {}).has_value());
        expect_pages(pages, offsets);
      }
    }
  }
}

TEST_F(Pages, AFailedSubmissionReturnsOnlyWhenNoReadIsInFlight) {
  auto reader = open_pipe(4);
  if (!reader) GTEST_SKIP() << "io_uring is refused here";
  const std::vector<std::int64_t> offsets(4, 0);
  const PageBuffer pages = make_page_buffer(4);
  for (int round = 0; round < 30; ++round) {
    std::memset(pages.get(), 0, 4 * kPage);
    g_calls = 0;
    g_mood = {.code = -EBADF, .n_calls = 1, .takes_entries = true};
    auto read = std::async(std::launch::async,
                           [&] { return reader->read(offsets, pages.get(), {}, {}).has_value(); });
    g_calls.wait(0);  // four reads are in flight, and the call has failed
    for (int i = 0; i < 4; ++i) write_page(5, kPage);
    EXPECT_FALSE(read.get());
    expect_pages(pages, std::vector<std::int64_t>(4, 5 * kPage));
    // The reader is as good as new.
    write_page(6, kPage);
    ASSERT_TRUE(reader->read(std::span(offsets).first(1), pages.get(), {}, {}).has_value());
    expect_pages(pages, std::vector<std::int64_t>{6 * kPage});
    if (HasFailure()) return;  // what was left in the pipe would confuse the next round
  }
}

TEST_F(Pages, EntriesThatAFailedSubmissionLeftBehindAreNeverRead) {
  auto reader = open_file(40, {.queue_depth = 8});
  if (std::strcmp(reader->name(), "io_uring") != 0) GTEST_SKIP() << "io_uring is refused here";
  g_mood = {.code = -EBADF, .n_calls = 1};
  const PageBuffer pages = make_page_buffer(8);
  ASSERT_FALSE(reader->read(every_third(8, 40), pages.get(), {}, {}).has_value());
  std::memset(pages.get(), 77, 8 * kPage);
  const PageBuffer others = make_page_buffer(20);
  ASSERT_TRUE(reader->read(every_third(20, 40), others.get(), {}, {}).has_value());
  expect_pages(others, every_third(20, 40));
  for (std::size_t i = 0; i < 8 * kPage; ++i) ASSERT_EQ(pages.get()[i], 77);
}

TEST_F(Pages, InterruptedAndPutOffSubmissionsAreTriedAgain) {
  for (const int code : {-EINTR, -EAGAIN, -EBUSY}) {
    for (const bool takes_entries : {false, true}) {
      auto reader = open_file(50, {.queue_depth = 8, .direct_io = true});
      g_mood = {.code = code, .n_calls = 5, .takes_entries = takes_entries};
      const auto offsets = every_third(50, 50);
      const PageBuffer pages = make_page_buffer(50);
      const auto read = reader->read(offsets, pages.get(), {}, {});
      ASSERT_TRUE(read.has_value()) << read.error().message;
      expect_pages(pages, offsets);
      g_mood = {};
    }
  }
}

TEST_F(Pages, APageThatComesInPiecesIsCompleted) {
  auto reader = open_pipe(4);
  if (!reader) GTEST_SKIP() << "io_uring is refused here";
  const PageBuffer pages = make_page_buffer(1);
  const std::int64_t offset = 0;
  std::size_t sent = 0;
  auto read = std::async(std::launch::async, [&] {
    return reader->read({&offset, 1}, pages.get(), {}, {}).has_value();
  });
  for (const std::size_t n : {1000UL, 1UL, 2000UL, kPage - 3001}) {
    ASSERT_EQ(::write(file_, page_of(0).data() + sent, n), static_cast<ssize_t>(n));
    sent += n;
    for (int left = 1; left > 0 && read.wait_for(std::chrono::seconds(0)) != kReady;) {
      ASSERT_EQ(::ioctl(file_, FIONREAD, &left), 0);  // until the piece has been taken
    }
  }
  ASSERT_TRUE(read.get());
  expect_pages(pages, std::vector<std::int64_t>{0});
}

TEST_F(Pages, AStopWaitsForWhatIsInFlightAndReadsNoMore) {
  auto reader = open_pipe(2);
  if (!reader) GTEST_SKIP() << "io_uring is refused here";
  g_mood = {.code = -EINTR, .n_calls = 1, .takes_entries = true};
  std::stop_source stop;
  const std::vector<std::int64_t> offsets(4, 0);
  const PageBuffer pages = make_page_buffer(4);
  auto read = std::async(std::launch::async,
                         [&] { return reader->read(offsets, pages.get(), {}, stop.get_token()); });
  g_calls.wait(0);  // two of the four are in flight
  stop.request_stop();
  for (int i = 0; i < 2; ++i) write_page(5, kPage);
  const auto result = read.get();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, ErrorKind::kCancelled);
  expect_pages(pages, std::vector<std::int64_t>(2, 5 * kPage));
}

TEST_F(Pages, APoolReadsBatchAfterBatchAndObeysAStop) {
  auto reader = open_file(50, {.queue_depth = 64, .use_io_uring = false});
  ASSERT_STREQ(reader->name(), "pread");
  auto direct = *make_page_reader(path_, file_,
                                  {.queue_depth = 64, .direct_io = true, .use_io_uring = false});
  const PageBuffer pages = make_page_buffer(50);
  for (std::size_t n = 0; n < 100; ++n) {
    const auto offsets = every_third(n % 51, 50);
    for (PageReader* each : {reader.get(), direct.get()}) {
      std::memset(pages.get(), 0, 50 * kPage);
      ASSERT_TRUE(each->read(offsets, pages.get(), {}, {}).has_value());
      expect_pages(pages, offsets);
    }
  }
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = direct->read(every_third(50, 50), pages.get(), {}, stop.get_token());
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kCancelled);
  ASSERT_TRUE(direct->read(every_third(50, 50), pages.get(), {}, {}).has_value());
  expect_pages(pages, every_third(50, 50));
}

}  // namespace
}  // namespace engramd::engine
