#include "engine/engram/page_reader.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
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
    if (io_uring_queue_init(static_cast<unsigned>(queue_depth), &reader->ring_, 0) != 0) {
      return nullptr;
    }
    reader->ring_open_ = true;
    const int file = reader->descriptor_.get();
    return io_uring_register_files(&reader->ring_, &file, 1) == 0 ? std::move(reader) : nullptr;
  }
  ~UringReader() override {
    if (ring_open_) io_uring_queue_exit(&ring_);
  }
  UringReader(const UringReader&) = delete;
  UringReader& operator=(const UringReader&) = delete;

  const char* name() const override { return "io_uring"; }
  bool direct_io() const override { return direct_; }

  Result<void> read(std::span<const std::int64_t> offsets_bytes, std::uint8_t* pages,
                    std::stop_token stop) override {
    if (!ring_open_) return environment_error(path_ + ": io_uring failed before; open it again");
    std::size_t submitted = 0, finished = 0;
    std::optional<Error> error;
    while (finished < submitted || (!error && submitted < offsets_bytes.size())) {
      if (!error && stop.stop_requested()) error = stopped();
      while (!error && submitted < offsets_bytes.size() &&
             submitted - finished < static_cast<std::size_t>(queue_depth_)) {
        io_uring_sqe* entry = io_uring_get_sqe(&ring_);
        if (entry == nullptr) break;
        io_uring_prep_read(entry, 0, pages + submitted * kTablePageBytes, kTablePageBytes,
                           static_cast<std::uint64_t>(offsets_bytes[submitted]));
        io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE);
        ++submitted;
      }
      if (submitted == finished) break;  // a stop with nothing in flight
      // Half of the depth at once: fewer system calls than one per page, and the drive never idles.
      const std::size_t in_flight = submitted - finished;
      const bool last = submitted == offsets_bytes.size() || error;
      const auto wait_for = static_cast<unsigned>(last ? in_flight : (in_flight + 1) / 2);
      const int code = io_uring_submit_and_wait(&ring_, wait_for);
      if (code < 0 && code != -EINTR) {
        // The kernel may still write into `pages`: nothing may return before the ring is gone.
        io_uring_queue_exit(&ring_);
        ring_open_ = false;
        return read_failure(path_, -code);
      }
      finished += reap(error);
    }
    if (error) return *error;
    return {};
  }

 private:
  UringReader(std::string path, Descriptor&& descriptor, bool direct, int queue_depth)
      : path_(std::move(path)),
        descriptor_(std::move(descriptor)),
        direct_(direct),
        queue_depth_(queue_depth) {}

  std::size_t reap(std::optional<Error>& error) {
    std::size_t n = 0;
    io_uring_cqe* completion = nullptr;
    while (io_uring_peek_cqe(&ring_, &completion) == 0) {
      if (!error && completion->res < 0) error = read_failure(path_, -completion->res);
      if (!error && completion->res != kTablePageBytes) error = short_read(path_);
      io_uring_cqe_seen(&ring_, completion);
      ++n;
    }
    return n;
  }

  std::string path_;
  Descriptor descriptor_;
  bool direct_;
  int queue_depth_;
  io_uring ring_{};
  bool ring_open_ = false;
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
