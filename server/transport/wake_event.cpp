#include "server/transport/wake_event.h"

#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

#include "config/assert.h"

namespace engramd::server {

WakeEvent::WakeEvent() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  ENGRAMD_ASSERT(fd_ >= 0);  // only out of descriptors at start, when nothing else could work
}

WakeEvent::~WakeEvent() {
  ::close(fd_);
}

void WakeEvent::signal() {
  const std::uint64_t one = 1;
  // The only failure is a full counter, which is readable anyway.
  [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
}

void WakeEvent::clear() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read_bytes = ::read(fd_, &count, sizeof count);
}

}  // namespace engramd::server
