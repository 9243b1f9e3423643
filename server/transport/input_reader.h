// InputReader: the one thread that reads protocol bytes from a file descriptor. A thread with
// poll(2) and read(2), because epoll refuses regular files and /dev/null; works for those, pipes,
// sockets and terminals. Reads on only while its gate is open, so that a fast writer fills its own
// pipe and not our memory.
// Threads: the callbacks run on the reader's own thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "server/transport/framing.h"
#include "server/transport/wake_event.h"

namespace engramd::server {

class InputReader {
 public:
  struct Events {
    MessageReader::OnMessage message;
    std::function<void()> ended;  // end of file or a read error; once, last
  };

  InputReader(int fd, std::int64_t message_bytes_max, Events events);
  ~InputReader();  // stops, also in the middle of a read

  // A message that was handed on has been dealt with: one more may be read. At most
  // kUnhandledMessagesMax messages wait in between.
  void message_handled();
  static constexpr int kUnhandledMessagesMax = 64;

 private:
  void run();
  bool wait_for_gate();  // false: stopping

  const int fd_;
  const Events events_;
  MessageReader messages_;
  WakeEvent wake_;
  std::mutex mutex_;  // guards the two below
  int unhandled_ = 0;
  bool stopping_ = false;
  std::condition_variable gate_;
  std::thread thread_;
};

}  // namespace engramd::server
