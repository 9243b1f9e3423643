#include "server/transport/input_reader.h"

#include <array>
#include <cerrno>
#include <memory>

#include <poll.h>
#include <unistd.h>

namespace engramd::server {
namespace {

constexpr std::size_t kReadBytes = 65536;  // the capacity of a Linux pipe

}  // namespace

InputReader::InputReader(int fd, std::int64_t message_bytes_max, Events events)
    : fd_(fd), events_(std::move(events)), messages_(message_bytes_max) {
  thread_ = std::thread([this] { run(); });
}

InputReader::~InputReader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  gate_.notify_all();
  wake_.signal();
  thread_.join();
}

void InputReader::message_handled() {
  {
    const std::lock_guard lock(mutex_);
    --unhandled_;
  }
  gate_.notify_all();
}

bool InputReader::wait_for_gate() {
  std::unique_lock lock(mutex_);
  gate_.wait(lock, [this] { return stopping_ || unhandled_ < kUnhandledMessagesMax; });
  return !stopping_;
}

void InputReader::run() {
  bool stopped = false;
  const auto hand_on = [this, &stopped](std::string message, Framing framing) {
    if (stopped || !wait_for_gate()) {
      stopped = true;
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      ++unhandled_;
    }
    events_.message(std::move(message), framing);
  };

  // Not zeroed: a short message touches one page of it.
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  while (!stopped) {
    std::array<pollfd, 2> fds = {pollfd{wake_.fd(), POLLIN, 0}, pollfd{fd_, POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    if (fds[0].revents != 0) return;  // only the destructor signals
    if (fds[1].revents == 0) continue;
    const ssize_t count = ::read(fd_, buffer.get(), kReadBytes);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) break;
    messages_.push({buffer.get(), static_cast<std::size_t>(count)}, hand_on);
  }
  messages_.finish(hand_on);
  if (!stopped) events_.ended();
}

}  // namespace engramd::server
