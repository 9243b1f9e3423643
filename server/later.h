// Later: calls a function on the io thread after a delay, unless the handle that it returns is
// dropped before. The daemon's is made of timers (make_later); tests wind their own clock.
// On the io thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <boost/asio/io_context.hpp>

namespace engramd::server {

using LaterHandle = std::shared_ptr<void>;
using Later =
    std::function<LaterHandle(std::chrono::milliseconds delay, std::function<void()> function)>;

Later make_later(boost::asio::io_context& io);

}  // namespace engramd::server
