#include "server/later.h"

#include <utility>

#include <boost/asio/steady_timer.hpp>

namespace engramd::server {

Later make_later(boost::asio::io_context& io) {
  return [&io](std::chrono::milliseconds delay, std::function<void()> function) -> LaterHandle {
    auto timer = std::make_shared<boost::asio::steady_timer>(io, delay);
    // Weakly: a handler that was already due when the handle was dropped must not run.
    timer->async_wait([weak = std::weak_ptr(timer),
                       function = std::move(function)](const boost::system::error_code& error) {
      if (!error && !weak.expired()) function();
    });
    return timer;
  };
}

}  // namespace engramd::server
