#include "server/exit_deadline.h"

#include <chrono>
#include <cstdlib>

namespace engramd::server {

ExitDeadline::ExitDeadline(int deadline_ms, int exit_code) {
  thread_ = std::thread([this, deadline_ms, exit_code] {
    std::unique_lock lock(mutex_);
    const bool in_time =
        wake_.wait_for(lock, std::chrono::milliseconds(deadline_ms), [this] { return cancelled_; });
    if (!in_time) std::_Exit(exit_code);
  });
}

ExitDeadline::~ExitDeadline() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

}  // namespace engramd::server
