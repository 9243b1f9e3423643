#include "server/transport/deadline.h"

#include <utility>

namespace engramd::server {

void Deadline::set(std::chrono::milliseconds from_now, std::weak_ptr<void> owner,
                   std::function<void()> on_expiry) {
  expiry_ = Clock::now() + from_now;
  owner_ = std::move(owner);
  on_expiry_ = std::move(on_expiry);
  if (!armed_ || expiry_ < timer_.expiry()) arm();
}

void Deadline::cancel() {
  clear();
  armed_ = false;
  timer_.cancel();
}

void Deadline::arm() {
  armed_ = true;
  timer_.expires_at(expiry_);
  timer_.async_wait([this, owner = owner_](const boost::system::error_code& error) {
    const std::shared_ptr<void> alive = owner.lock();
    if (!error && alive) on_timer();
  });
}

void Deadline::on_timer() {
  armed_ = false;
  if (!on_expiry_) return;
  if (Clock::now() < expiry_) return arm();
  std::exchange(on_expiry_, nullptr)();
}

}  // namespace engramd::server
