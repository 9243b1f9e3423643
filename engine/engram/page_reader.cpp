#include "engine/engram/page_reader.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <liburing.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/engram/table_file.h"
#include "kernels/cpu/thread_pool.h"

namespace engramd::engine {
namespace {

constexpr int kPoolThreadsMax = 64;  // more only queue in the block layer
constexpr std::uint64_t kSectorBytes = 512;

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Error short_read(const std::string& path) {
  return environment_error(path +
                           ": became shorter while it was open; table files must be replaced by "
                           "rename, never cut: restore it and open it again");
}

Error read_failure(const std::string& path, int code) {
  errno = code;
  return file_failure(path, "cannot read");
}

Error stopped() {
  return cancelled("reading table pages was stopped");
}

class UringReader final : public PageReader {
 public:
  static std::unique_ptr<UringReader> make(std::string path, Descriptor&& descriptor, bool direct,
                                           int queue_depth) {
    std::unique_ptr<UringReader> reader(
        new UringReader(std::move(path), std::move(descriptor), direct, queue_depth));
    return reader->open_ring() ? std::move(reader) : nullptr;
  }
  ~UringReader() override { close_ring(); }
  UringReader(const UringReader&) = delete;
  UringReader& operator=(const UringReader&) = delete;

  const char* name() const override { return "io_uring"; }
  bool direct_io() const override { return direct_; }

  Result<void> read(std::span<const std::int64_t> offsets_bytes, std::uint8_t* pages,
                    std::stop_token stop) override {
    if (!ring_open_ && !open_ring()) {
      return environment_error(path_ + ": io_uring failed and cannot be set up again; reopen it");
    }
    offsets_bytes_ = offsets_bytes;
    pages_ = pages;
    failed_.reset();
    std::size_t next = 0;
    for (;;) {
      if (!failed_ && stop.stop_requested()) failed_ = stopped();
      while (!failed_ && next < offsets_bytes.size() && in_flight_ < queue_depth_) {
        start(next++, 0);
        ++in_flight_;
      }
      if (in_flight_ == 0) break;
      // Half of the depth at once: fewer system calls than one per page, and the drive never idles.
      const bool last = failed_ || next == offsets_bytes.size();
      if (const int code = submit_and_wait(last ? in_flight_ : (in_flight_ + 1) / 2); code != 0) {
        drain();
        return read_failure(path_, code);
      }
      reap();
    }
    if (failed_) return *failed_;
    return {};
  }

 private:
  // Of submissions that the kernel puts off (short of memory) with nothing in flight to wait for.
  static constexpr int kAttemptsMax = 1000;

  UringReader(std::string path, Descriptor&& descriptor, bool direct, int queue_depth)
      : path_(std::move(path)),
        descriptor_(std::move(descriptor)),
        direct_(direct),
        queue_depth_(static_cast<unsigned>(queue_depth)) {}

  bool open_ring() {
    if (io_uring_queue_init(queue_depth_, &ring_, 0) != 0) return false;
    ring_open_ = true;
    const int file = descriptor_.get();
    if (io_uring_register_files(&ring_, &file, 1) == 0) return true;
    close_ring();
    return false;
  }
  void close_ring() {
    if (ring_open_) io_uring_queue_exit(&ring_);
    ring_open_ = false;
  }

  // The rest of a page of which `done` bytes have come. The tag holds both.
  void start(std::uint64_t index, std::uint64_t done) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    ENGRAMD_ASSERT(entry != nullptr);  // never more than queue_depth_ at once
    const std::uint64_t page_bytes = kTablePageBytes;
    io_uring_prep_read(entry, 0, pages_ + index * page_bytes + done,
                       static_cast<unsigned>(page_bytes - done),
                       static_cast<std::uint64_t>(offsets_bytes_[index]) + done);
    io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(entry, index * page_bytes + done);
  }

  unsigned in_kernel() const { return in_flight_ - io_uring_sq_ready(&ring_); }

  // 0, or the errno of a failure that trying again does not cure.
  int submit_and_wait(unsigned n_pages) {
    for (int attempt = 0; attempt < kAttemptsMax;) {
      const int code = io_uring_submit_and_wait(&ring_, n_pages);
      if (code >= 0) return 0;
      if (code != -EINTR && code != -EAGAIN && code != -EBUSY) return -code;
      if (code != -EINTR && in_kernel() > 0) {
        io_uring_cqe* completion = nullptr;  // its end makes room
        if (io_uring_wait_cqe(&ring_, &completion) == 0) return 0;
      }
      if (code != -EINTR) ++attempt;
    }
    return EAGAIN;
  }

  // The kernel may still write into pages_: nothing may return before the reads it has taken are
  // over. Those that it has not go with the ring; the next read() makes a new one.
  void drain() {
    for (unsigned left = in_kernel(); left > 0;) {
      io_uring_cqe* completion = nullptr;
      if (io_uring_wait_cqe(&ring_, &completion) != 0) {
        std::this_thread::yield();  // reads end whatever becomes of the waiting
        continue;
      }
      io_uring_cqe_seen(&ring_, completion);
      --left;
    }
    in_flight_ = 0;
    close_ring();
  }

  void reap() {
    io_uring_cqe* completion = nullptr;
    while (io_uring_peek_cqe(&ring_, &completion) == 0) {
      const std::uint64_t index = completion->user_data / kTablePageBytes;
      std::uint64_t done = completion->user_data % kTablePageBytes;
      const int n_bytes = completion->res;
      io_uring_cqe_seen(&ring_, completion);
      if (n_bytes > 0) done += static_cast<std::uint64_t>(n_bytes);
      const bool unfinished = n_bytes == -EINTR || n_bytes == -EAGAIN || done < kTablePageBytes;
      // Past the page cache only the file's end is not at a sector.
      const bool at_end = n_bytes == 0 || (direct_ && done % kSectorBytes != 0);
      if (!failed_ && n_bytes < 0 && n_bytes != -EINTR && n_bytes != -EAGAIN) {
        failed_ = read_failure(path_, -n_bytes);
      } else if (!failed_ && at_end) {
        failed_ = short_read(path_);
      }
      if (unfinished && !failed_) {
        start(index, done);
      } else {
        --in_flight_;
      }
    }
  }

  std::string path_;
  Descriptor descriptor_;
  bool direct_;
  unsigned queue_depth_;
  io_uring ring_{};
  bool ring_open_ = false;

  // Of the read() that runs.
  std::span<const std::int64_t> offsets_bytes_;
  std::uint8_t* pages_ = nullptr;
  unsigned in_flight_ = 0;  // taken by the kernel or about to be
  std::optional<Error> failed_;
};

class PoolReader final : public PageReader {
 public:
  PoolReader(std::string path, Descriptor&& descriptor, bool direct, int queue_depth)
      : path_(std::move(path)),
        descriptor_(std::move(descriptor)),
        direct_(direct),
        pool_(std::min(queue_depth, kPoolThreadsMax)) {}

  const char* name() const override { return "pread"; }
  bool direct_io() const override { return direct_; }

  Result<void> read(std::span<const std::int64_t> offsets_bytes, std::uint8_t* pages,
                    std::stop_token stop) override {
    // Warm pages cost a copy, not a hop to another thread.
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < offsets_bytes.size(); ++i) {
      const iovec part = {pages + i * kTablePageBytes, static_cast<std::size_t>(kTablePageBytes)};
      const bool warm = !direct_ && ::preadv2(descriptor_.get(), &part, 1, offsets_bytes[i],
                                              RWF_NOWAIT) == kTablePageBytes;
      if (!warm) missing.push_back(i);
    }
    std::atomic<int> failure{0};  // errno of a failed page; kShort for a short one
    if (missing.empty()) return {};
    pool_.parallel(static_cast<std::int64_t>(missing.size()), [&](std::int64_t item) {
      if (failure.load(std::memory_order_relaxed) != 0 || stop.stop_requested()) return;
      const std::size_t i = missing[static_cast<std::size_t>(item)];
      ssize_t n = 0;
      do {
        n = ::pread(descriptor_.get(), pages + i * kTablePageBytes, kTablePageBytes,
                    offsets_bytes[i]);
      } while (n < 0 && errno == EINTR);
      if (n != kTablePageBytes) failure.store(n < 0 ? errno : kShort, std::memory_order_relaxed);
    });
    const int code = failure.load();
    if (code == kShort) return short_read(path_);
    if (code != 0) return read_failure(path_, code);
    if (stop.stop_requested()) return stopped();
    return {};
  }

 private:
  static constexpr int kShort = -1;
  std::string path_;
  Descriptor descriptor_;
  bool direct_;
  kernels::ThreadPool pool_;
};

// O_DIRECT is refused by some file systems at open, by others (overlays) only at the first read.
int open_direct(const std::string& again) {
  const int descriptor = ::open(again.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (descriptor < 0) return -1;
  const PageBuffer page = make_page_buffer(1);
  if (::pread(descriptor, page.get(), kTablePageBytes, 0) == kTablePageBytes) return descriptor;
  ::close(descriptor);
  return -1;
}

}  // namespace

Result<std::unique_ptr<PageReader>> make_page_reader(const std::string& path, int descriptor,
                                                     const PageReaderOptions& options) {
  ENGRAMD_ASSERT(options.queue_depth >= 1 && options.queue_depth <= 4096);
  // The open file, not its name: that may belong to another generation by now.
  const std::string again = "/proc/self/fd/" + std::to_string(descriptor);
  const int direct = options.direct_io ? open_direct(again) : -1;
  const bool is_direct = direct >= 0;
  Descriptor file(is_direct ? direct : ::open(again.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return file_failure(path, "cannot open");
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM);  // no read-ahead: rows have no neighbours
  if (options.use_io_uring) {
    Descriptor copy(::dup(file.get()));
    auto reader = UringReader::make(path, std::move(copy), is_direct, options.queue_depth);
    if (reader) return std::unique_ptr<PageReader>(std::move(reader));
  }
  return std::unique_ptr<PageReader>(
      std::make_unique<PoolReader>(path, std::move(file), is_direct, options.queue_depth));
}

void FreeDeleter::operator()(void* pointer) const {
  std::free(pointer);
}

PageBuffer make_page_buffer(std::int64_t n_pages) {
  const auto n_bytes =
      static_cast<std::size_t>(std::max<std::int64_t>(n_pages, 1) * kTablePageBytes);
  void* memory = std::aligned_alloc(kTablePageBytes, n_bytes);
  ENGRAMD_ASSERT(memory != nullptr);
  return PageBuffer(static_cast<std::uint8_t*>(memory));
}

}  // namespace engramd::engine
