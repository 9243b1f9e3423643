// OutputWriter: the one thread that writes protocol bytes to a file descriptor. Raw write(2), whole
// messages in order, a bounded queue; never blocks its callers and can always be stopped, even when
// nobody reads the other end. Notices a reader that has gone while idle.
// Threads: send(), flush() and queued_bytes() from any thread; the callbacks run on the writer's
// own thread and must return at once (post() elsewhere).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "server/transport/wake_event.h"

namespace engramd::server {

class OutputWriter {
 public:
  struct Events {
    std::function<void()> closed;   // the reader has gone, or stopped reading; once
    std::function<void()> drained;  // the queue has become empty
  };

  // The peer is taken for dead when more than queue_bytes_max wait for it.
  OutputWriter(int fd, std::int64_t queue_bytes_max, Events events);
  ~OutputWriter();  // drops what is still queued

  void send(std::string bytes);
  std::int64_t queued_bytes() const;  // handed over and not yet written

 private:
  void run();
  bool write_some();  // false: the output is closed
  void close_output();

  const int fd_;
  const std::int64_t queue_bytes_max_;
  const Events events_;
  WakeEvent wake_;
  mutable std::mutex mutex_;  // guards the five below
  std::deque<std::string> queue_;
  std::size_t front_written_ = 0;  // bytes of queue_.front() that are out
  std::int64_t queued_bytes_ = 0;
  bool closed_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace engramd::server
