// Listeners: everything that `engramd serve` listens on, and what answers there: the TCP port with
// MCP over HTTP and WebSocket and the OpenAI and Anthropic APIs, the Unix socket with MCP. Stops
// gracefully: no new clients, what runs may end, the rest is cut off.
// On the io thread. Not here: what an endpoint does (api/), the process (commands/serve).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "config/result.h"
#include "mcp/dispatcher.h"
#include "server/tools/services.h"

namespace engramd::server {

class Listeners {
 public:
  struct Settings {
    std::string other_token;    // accepted like the one in the token file; empty: none
    bool tcp_optional = false;  // without the TCP port, with a warning, when somebody else has it
  };

  using Warn = std::function<void(const std::string& what)>;

  // All references outlive this. Errors: an address or socket that cannot be had, a token file that
  // others can read.
  static Result<std::unique_ptr<Listeners>> open(boost::asio::io_context& io,
                                                 const Services& services,
                                                 mcp::Dispatcher& dispatcher,
                                                 const Settings& settings, Warn warn);
  virtual ~Listeners() = default;

  virtual int port() const = 0;       // 0: none
  virtual int n_clients() const = 0;  // connections, and MCP sessions over HTTP
  // `done` once every client has gone; those that still run after options.shutdown_timeout_ms are
  // cut off.
  virtual void drain(std::function<void()> done) = 0;
  virtual void check_drained() = 0;  // a call has ended
};

}  // namespace engramd::server
