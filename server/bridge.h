// Bridge: what `engramd --stdio` puts between its client and the user's daemon. It answers the
// handshake and the fixed lists itself, at once, whether the daemon is up or not, forwards
// everything else, and tells a daemon that comes back what the client had said before (initialize,
// log level, subscriptions). Requests that a daemon took with it are answered with an error that
// says so. A Dispatcher, so that the stdio transport cannot tell it from the real one; one
// connection only. On the io thread. Not here: finding and starting the daemon (daemon_link).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "mcp/dispatcher.h"

namespace engramd::server {

class Bridge final : public mcp::Dispatcher {
 public:
  // Messages that wait for the daemon beyond these are refused.
  struct Limits {
    std::int64_t waiting_max = 256;
    std::int64_t message_bytes_max = 16 << 20;
    int json_depth_max = 64;
  };

  // `local` has the same registry as the daemon; it answers the handshake, and everything else only
  // after serve_here(). It outlives this.
  Bridge(mcp::Dispatcher& local, Limits limits);
  ~Bridge() override;

  // The daemon is there: what waited goes out through `send`, one message a call.
  void daemon_connected(std::function<void(const std::string& message)> send);
  void daemon_message(const std::string& message);
  void daemon_lost();
  // There is none and there will be none: from now on everything is served here, by `local`, what
  // waits included.
  void serve_here();

  std::unique_ptr<mcp::Connection> connect(mcp::Sink send) override;
  void announce(mcp::Change) override {}  // the daemon does that

 private:
  class Client;
  struct State;

  const std::shared_ptr<State> state_;
};

}  // namespace engramd::server
