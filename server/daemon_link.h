// DaemonLink: the way from `engramd --stdio` to the user's daemon: connects to its Unix socket,
// starts it when nobody listens there, and does both again when the connection is lost. On the io
// thread. Not here: what is said over it (bridge).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "config/result.h"

namespace engramd::server {

class DaemonLink {
 public:
  struct Events {
    // `send` may be called until `lost`.
    std::function<void(std::function<void(const std::string& message)> send)> connected;
    std::function<void(const std::string& message)> message;
    std::function<void()> lost;
    std::function<void(const std::string& why)> failed;  // no daemon can be had; last
  };
  using Start = std::function<Result<void>()>;  // starts a daemon; it need not listen yet

  // A daemon's messages may be as long as it likes to make them; it is trusted.
  static std::unique_ptr<DaemonLink> open(boost::asio::io_context& io, std::string socket_path,
                                          Start start, Events events);
  virtual ~DaemonLink() = default;
};

// Starts `program arguments...` that outlives this process and its terminal; what it prints goes to
// the end of log_path.
Result<void> start_detached(const std::string& program, const std::vector<std::string>& arguments,
                            const std::string& log_path);

}  // namespace engramd::server
