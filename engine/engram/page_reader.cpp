#include "engine/engram/page_reader.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <liburing.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/engram/table_file.h"

namespace engramd::engine {
namespace {

// Of a pool: more only queue in the block layer, and beyond some eight per core switching between
// them takes longer than the drive (measured with row_read_bench on two cores).
constexpr int kPoolThreadsMax = 64;
constexpr int kPoolThreadsPerCore = 8;
constexpr std::int64_t kSectorBytes = 512;

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

// After a read of n_bytes that brought the page to `done`: past the page cache only the file's end
// is not at a sector.
bool is_at_end(std::int64_t n_bytes, std::int64_t done, bool direct) {
  return n_bytes == 0 || (direct && done % kSectorBytes != 0);
}

Error stopped() {
  return cancelled("reading table pages was stopped");
}

std::size_t pool_threads(int queue_depth) {
  const auto n_cores = static_cast<int>(std::thread::hardware_concurrency());
  const int n =
      n_cores > 0 ? std::min(kPoolThreadsPerCore * n_cores, kPoolThreadsMax) : kPoolThreadsMax;
  return static_cast<std::size_t>(std::min(queue_depth, n));
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
  int depth() const override { return static_cast<int>(queue_depth_); }

  Result<void> read(std::span<const std::int64_t> offsets_bytes, std::uint8_t* pages,
                    const PagesArrived& arrived, std::stop_token stop) override {
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
      // For half of what is in flight: fewer system calls than one per page, the drive never idles,
      // and what has come is worked on while the rest comes.
      if (const int code = submit_and_wait((in_flight_ + 1) / 2); code != 0) {
        drain();
        return read_failure(path_, code);
      }
      reap();
      if (arrived && !failed_ && !arrived_.empty()) arrived(arrived_);
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
    arrived_.clear();
    io_uring_cqe* completion = nullptr;
    while (io_uring_peek_cqe(&ring_, &completion) == 0) {
      const std::uint64_t index = completion->user_data / kTablePageBytes;
      std::uint64_t done = completion->user_data % kTablePageBytes;
      const int n_bytes = completion->res;
      io_uring_cqe_seen(&ring_, completion);
      if (n_bytes > 0) done += static_cast<std::uint64_t>(n_bytes);
      const bool unfinished = n_bytes == -EINTR || n_bytes == -EAGAIN || done < kTablePageBytes;
      const bool at_end = is_at_end(n_bytes, static_cast<std::int64_t>(done), direct_);
      if (!failed_ && n_bytes < 0 && n_bytes != -EINTR && n_bytes != -EAGAIN) {
        failed_ = read_failure(path_, -n_bytes);
      } else if (!failed_ && at_end) {
        failed_ = short_read(path_);
      }
      if (unfinished && !failed_) {
        start(index, done);
      } else {
        --in_flight_;
        arrived_.push_back(index);
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
  std::vector<std::size_t> arrived_;  // since the last wait; after a failure also what has not
};

// Threads that block in pread and sleep between batches. They start when the first pages have to
// come from the drive; the caller reads too, so a single page costs no hop to another thread.
class PoolReader final : public PageReader {
 public:
  PoolReader(std::string path, Descriptor&& descriptor, bool direct, int queue_depth)
      : path_(std::move(path)),
        descriptor_(std::move(descriptor)),
        direct_(direct),
        threads_max_(pool_threads(queue_depth) - 1) {}
  ~PoolReader() override {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  PoolReader(const PoolReader&) = delete;
  PoolReader& operator=(const PoolReader&) = delete;

  const char* name() const override { return "pread"; }
  bool direct_io() const override { return direct_; }
  int depth() const override { return static_cast<int>(threads_max_) + 1; }

  Result<void> read(std::span<const std::int64_t> offsets_bytes, std::uint8_t* pages,
                    const PagesArrived& arrived, std::stop_token stop) override {
    std::unique_lock lock(mutex_);  // every thread sleeps: nothing is left of the last batch
    offsets_bytes_ = offsets_bytes;
    pages_ = pages;
    stop_ = std::move(stop);
    failure_ = 0;
    find_missing();
    next_ = n_done_ = wanted_ = 0;
    if (missing_.size() > 1) wake_for(missing_.size() - 1);
    hand_over(lock, arrived);  // warm pages
    while (n_done_ < missing_.size()) {
      if (next_ < missing_.size()) {
        read_next(lock);
      } else {
        wanted_ = n_done_ + (missing_.size() - n_done_ + 1) / 2;
        done_.wait(lock, [this] { return n_done_ >= wanted_; });
      }
      hand_over(lock, arrived);
    }
    hand_over(lock, arrived);  // those that came during the last handing over
    if (failure_ == kShort) return short_read(path_);
    if (failure_ != 0) return read_failure(path_, failure_);
    if (stop_.stop_requested()) return stopped();
    return {};
  }

 private:
  static constexpr int kShort = -1;

  // Warm pages cost a copy, not a hop to another thread.
  void find_missing() {
    missing_.clear();
    arrived_.clear();
    for (std::size_t i = 0; i < offsets_bytes_.size(); ++i) {
      const iovec part = {pages_ + i * kTablePageBytes, static_cast<std::size_t>(kTablePageBytes)};
      const bool warm = !direct_ && ::preadv2(descriptor_.get(), &part, 1, offsets_bytes_[i],
                                              RWF_NOWAIT) == kTablePageBytes;
      (warm ? arrived_ : missing_).push_back(i);
    }
  }

  void wake_for(std::size_t n_pages) {
    try {
      while (threads_.size() < std::min(n_pages, threads_max_)) {
        threads_.emplace_back([this] { work(); });
      }
    } catch (const std::system_error&) {
      // No more threads to be had: those that there are, and the caller, read the rest.
    }
    work_.notify_one();  // who claims a page wakes the next, so that waking is shared, too
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [this] { return is_ending_ || next_ < missing_.size(); });
      if (is_ending_) return;
      read_next(lock);
    }
  }

  void read_next(std::unique_lock<std::mutex>& lock) {
    const std::size_t index = missing_[next_++];
    const bool is_more = next_ < missing_.size();
    lock.unlock();
    if (is_more) work_.notify_one();
    const int failure = stop_.stop_requested() ? 0 : read_page(index);
    lock.lock();
    if (failure != 0) failure_ = failure;
    arrived_.push_back(index);
    ++n_done_;
    if (failure_ != 0 || stop_.stop_requested()) {  // nobody claims the rest
      n_done_ += missing_.size() - next_;
      next_ = missing_.size();
    }
    if (n_done_ >= wanted_) done_.notify_one();
  }

  // The lock is released meanwhile: others go on reading.
  void hand_over(std::unique_lock<std::mutex>& lock, const PagesArrived& arrived) {
    if (!arrived || arrived_.empty() || failure_ != 0 || stop_.stop_requested()) return;
    std::swap(arrived_, handed_over_);
    arrived_.clear();
    lock.unlock();
    arrived(handed_over_);
    lock.lock();
  }

  // 0, an errno or kShort.
  int read_page(std::size_t index) const {
    std::uint8_t* page = pages_ + index * kTablePageBytes;
    for (std::int64_t done = 0; done < kTablePageBytes;) {
      const ssize_t n =
          ::pread(descriptor_.get(), page + done, static_cast<std::size_t>(kTablePageBytes - done),
                  offsets_bytes_[index] + done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      done += n;
      if (is_at_end(n, done, direct_)) return kShort;
    }
    return 0;
  }

  std::string path_;
  Descriptor descriptor_;
  bool direct_;
  std::size_t threads_max_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;  // guards what follows; what is read without it changes only between batches
  std::condition_variable work_, done_;
  bool is_ending_ = false;
  std::span<const std::int64_t> offsets_bytes_;
  std::uint8_t* pages_ = nullptr;
  std::stop_token stop_;
  std::vector<std::size_t> missing_;  // indices of the pages to be read
  std::size_t next_ = 0;              // of missing_, to be claimed
  std::size_t n_done_ = 0;
  std::size_t wanted_ = 0;                // of n_done_, for the caller to be woken
  std::vector<std::size_t> arrived_;      // not handed over yet
  std::vector<std::size_t> handed_over_;  // the caller's own
  int failure_ = 0;
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
