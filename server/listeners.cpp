#include "server/listeners.h"

#include <chrono>
#include <utility>

#include <boost/asio/post.hpp>

#include "server/api/mcp_http.h"
#include "server/api/mcp_peers.h"
#include "server/api/routes.h"
#include "server/daemon_lock.h"
#include "server/later.h"
#include "server/transport/http_server.h"
#include "server/transport/unix_socket.h"

namespace engramd::server {
namespace {

namespace asio = boost::asio;

McpHttp::Limits mcp_http_limits(const config::Options& options) {
  McpHttp::Limits limits;
  limits.sessions_max = options.limits.http_sessions_max;
  limits.session_idle = std::chrono::milliseconds(options.server.session_timeout_ms);
  limits.json_depth_max = static_cast<int>(options.limits.json_depth_max);
  return limits;
}

class OpenListeners final : public Listeners {
 public:
  OpenListeners(asio::io_context& io, const Services& services, mcp::Dispatcher& dispatcher,
                Warn warn)
      : io_(io),
        options_(services.options),
        warn_(std::move(warn)),
        later_(make_later(io)),
        sockets_(dispatcher, [this] { check_drained(); }),
        mcp_(dispatcher, mcp_http_limits(options_), later_),
        api_(make_router(routes(services))) {}

  Result<void> open(const Settings& settings) {
    const config::ServerOptions& server = options_.server;
    const std::string& state_folder = options_.table.state_folder;
    auto access = make_access(server, state_folder, settings.other_token);
    if (!access) return access.error();
    const auto open_peer = [this](std::shared_ptr<MessagePeer> peer) {
      sockets_.open(std::move(peer));
    };
    auto unix_socket = UnixSocket::listen(io_, socket_path(server.socket, state_folder),
                                          options_.limits, open_peer);
    if (!unix_socket) return unix_socket.error();
    unix_ = std::move(*unix_socket);
    auto http = HttpServer::listen(
        io_, server, options_.limits, std::move(*access),
        {.request = api_, .websocket_paths = {"/mcp", "/ws"}, .websocket = open_peer});
    if (http) {
      http_ = std::move(*http);
    } else if (settings.tcp_optional) {
      warn_(http.error().message);
    } else {
      return http.error();
    }
    return {};
  }

  int port() const override { return http_ ? http_->port() : 0; }

  int n_clients() const override {
    return sockets_.n_peers() + mcp_.n_sessions() + (http_ ? http_->n_connections() : 0);
  }

  void drain(std::function<void()> done) override {
    drained_ = std::move(done);
    unix_->stop_accepting();
    mcp_.end_subscriptions();
    sockets_.end_subscriptions();
    deadline_ = later_(std::chrono::milliseconds(options_.server.shutdown_timeout_ms),
                       [this] { finish_drain(); });
    const auto drained = [this] {
      http_drained_ = true;
      check_drained();
    };
    http_ ? http_->drain(drained) : drained();
  }

  // An MCP client does not go by itself: once nothing of its runs, it is closed.
  void check_drained() override {
    if (!drained_ || !http_drained_ || sockets_.in_flight() > 0) return;
    finish_drain();
  }

 private:
  std::vector<Route> routes(const Services& services) {
    std::vector<Route> all = api_routes(ApiContext(services, later_));
    for (const char* method : {"POST", "GET", "DELETE"}) {
      all.push_back({method, "/mcp", [this](const std::shared_ptr<HttpExchange>& exchange) {
                       mcp_.handle(exchange);
                     }});
    }
    return all;
  }

  void finish_drain() {
    sockets_.close_all();
    deadline_.reset();
    // What was sent last is still on its way: the next turn of the loop takes it out.
    asio::post(io_, std::exchange(drained_, nullptr));
  }

  asio::io_context& io_;
  const config::Options& options_;
  const Warn warn_;
  const Later later_;
  McpPeers sockets_;
  McpHttp mcp_;
  const HttpHandler api_;
  std::unique_ptr<UnixSocket> unix_;
  std::unique_ptr<HttpServer> http_;
  std::function<void()> drained_;  // set while draining
  bool http_drained_ = false;
  LaterHandle deadline_;
};

}  // namespace

Result<std::unique_ptr<Listeners>> Listeners::open(asio::io_context& io, const Services& services,
                                                   mcp::Dispatcher& dispatcher,
                                                   const Settings& settings, Warn warn) {
  auto listeners = std::make_unique<OpenListeners>(io, services, dispatcher, std::move(warn));
  if (auto opened = listeners->open(settings); !opened) return opened.error();
  return std::unique_ptr<Listeners>(std::move(listeners));
}

}  // namespace engramd::server
