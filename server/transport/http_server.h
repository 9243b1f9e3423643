// HttpServer: the daemon's TCP port. Accepts connections, speaks HTTP/1.1 (keep-alive, pipelining,
// chunked bodies, Expect: 100-continue) on each, refuses what the limits and the access rules
// refuse, hands each request to the handler and each WebSocket upgrade to the other. One slow, rude
// or vanished client costs the others nothing. On the io thread. Not here: what a path means
// (server/api/), one connection (http_connection), who may come in (access).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "config/options.h"
#include "config/result.h"
#include "server/transport/access.h"
#include "server/transport/http_exchange.h"
#include "server/transport/message_peer.h"

namespace engramd::server {

struct HttpHandlers {
  HttpHandler request;
  std::vector<std::string> websocket_paths;  // an upgrade elsewhere is a 404
  MessagePeerHandler websocket;
};

class HttpServer {
 public:
  // Listens on options.host and options.port (0: any free one). Errors name the address and what to
  // do.
  static Result<std::unique_ptr<HttpServer>> listen(boost::asio::io_context& io,
                                                    const config::ServerOptions& options,
                                                    const config::LimitOptions& limits,
                                                    Access access, HttpHandlers handlers);
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
  virtual int n_connections() const = 0;
  // No new connections; those that are idle close now, the others after the answer in hand (which
  // says `Connection: close`); WebSockets close with 1001. `done` once all are closed.
  virtual void drain(std::function<void()> done) = 0;
};

}  // namespace engramd::server
