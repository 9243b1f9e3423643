// Deadline: a moment after which a function is called, for the time limits of a connection. Cheap
// to move further away (a comparison; the timer under it is set again only when it fires), because
// that happens with every request. On the io thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <boost/asio/steady_timer.hpp>

namespace engramd::server {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(boost::asio::io_context& io) : timer_(io) {}

  // Calls on_expiry once, unless clear() or set() comes first. The deadline is part of `owner`,
  // which lives while the function runs; without an owner nothing is called any more.
  void set(std::chrono::milliseconds from_now, std::weak_ptr<void> owner,
           std::function<void()> on_expiry);
  void clear() { on_expiry_ = nullptr; }
  void cancel();  // also lets go of the timer, for the end of the owner
  bool is_set() const { return on_expiry_ != nullptr; }

 private:
  void arm();
  void on_timer();

  boost::asio::steady_timer timer_;
  bool armed_ = false;  // timer_ runs, maybe for an earlier moment than expiry_
  Clock::time_point expiry_;
  std::weak_ptr<void> owner_;
  std::function<void()> on_expiry_;
};

}  // namespace engramd::server
