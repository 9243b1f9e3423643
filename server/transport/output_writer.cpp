#include "server/transport/output_writer.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>
#include <unistd.h>

namespace engramd::server {
namespace {

// After POLLOUT a pipe takes PIPE_BUF bytes without blocking (pipe(7)), a socket more; larger
// writes could block and would keep the thread from stopping.
constexpr std::size_t kWriteBytesMax = 4096;

}  // namespace

OutputWriter::OutputWriter(int fd, std::int64_t queue_bytes_max, Events events)
    : fd_(fd), queue_bytes_max_(queue_bytes_max), events_(std::move(events)) {
  thread_ = std::thread([this] { run(); });
}

OutputWriter::~OutputWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.signal();
  thread_.join();
}

void OutputWriter::send(std::string bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || stopping_) return;
    queued_bytes_ += static_cast<std::int64_t>(bytes.size());
    queue_.push_back(std::move(bytes));
  }
  wake_.signal();
}

std::int64_t OutputWriter::queued_bytes() const {
  const std::lock_guard lock(mutex_);
  return queued_bytes_;
}

void OutputWriter::run() {
  while (true) {
    bool has_data = false;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      has_data = !queue_.empty();
      if (queued_bytes_ > queue_bytes_max_) has_data = false, closed_ = true;
      if (closed_) break;
    }
    // Without data only errors are waited for: POLLERR is how a pipe says that its reader has gone.
    const short output_events = has_data ? POLLOUT : 0;
    std::array<pollfd, 2> fds = {pollfd{wake_.fd(), POLLIN, 0}, pollfd{fd_, output_events, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) break;
    if (fds[0].revents != 0) wake_.clear();
    if ((fds[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) break;
    if ((fds[1].revents & POLLOUT) != 0 && !write_some()) break;
  }
  close_output();
}

bool OutputWriter::write_some() {
  bool drained = false;
  {
    std::unique_lock lock(mutex_);
    const std::string& front = queue_.front();
    const char* data = front.data() + front_written_;
    const std::size_t size = std::min(front.size() - front_written_, kWriteBytesMax);
    lock.unlock();  // deque references stay valid: only this thread pops
    const ssize_t written = ::write(fd_, data, size);
    if (written < 0) return errno == EINTR || errno == EAGAIN;
    lock.lock();
    front_written_ += static_cast<std::size_t>(written);
    queued_bytes_ -= written;
    if (front_written_ == queue_.front().size()) {
      queue_.pop_front();
      front_written_ = 0;
    }
    drained = queue_.empty();
  }
  if (drained && events_.drained) events_.drained();
  return true;
}

void OutputWriter::close_output() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    queue_.clear();
    front_written_ = 0;
    queued_bytes_ = 0;
  }
  if (events_.closed) events_.closed();
}

}  // namespace engramd::server
