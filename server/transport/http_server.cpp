#include "server/transport/http_server.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/resource.h>

#include "server/transport/connection_context.h"
#include "server/transport/header_text.h"
#include "server/transport/http_connection.h"
#include "server/transport/http_error.h"

namespace engramd::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Without file descriptors or memory for a further connection, the next try comes this much later.
constexpr std::chrono::milliseconds kAcceptPause{100};

Result<asio::ip::address> parse_address(std::string_view host) {
  if (host == "localhost") return asio::ip::address_v4::loopback();
  error_code error;
  const auto address = asio::ip::make_address(without_brackets(host), error);
  if (!error) return address;
  return invalid_argument(
      "server.host: expected localhost, an IPv4 address or an IPv6 address in "
      "brackets, got \"" +
      std::string(host) + "\"");
}

// Every connection takes a descriptor; the soft limit is often 1024, for programs with select(2).
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// The answer to a connection too many: no parser, no queue, whatever the client wants.
std::string too_many_connections_answer() {
  const HttpResponse response = error_response(
      503, "more connections than limits.connections_max; close some or try again later");
  return "HTTP/1.1 503 Service Unavailable\r\nServer: engramd\r\nRetry-After: 1\r\n"
         "Content-Type: application/json\r\nContent-Length: " +
         std::to_string(response.body.size()) + "\r\nConnection: close\r\n\r\n" + response.body;
}

class Listener : public HttpServer {
 public:
  Listener(tcp::acceptor acceptor, std::shared_ptr<ConnectionContext> context)
      : shared_(std::make_shared<Shared>(std::move(acceptor), std::move(context))) {
    accept(shared_);
  }
  ~Listener() override {
    shared_->close();
    shared_->context->abort_all();
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const override { return shared_->port; }
  int n_connections() const override {
    return static_cast<int>(shared_->context->connections.size());
  }

  void drain(std::function<void()> done) override {
    shared_->close();
    ConnectionContext& context = *shared_->context;
    context.on_empty = [&io = context.io, done = std::move(done)] { asio::post(io, done); };
    context.drain_all();
    if (context.connections.empty() && context.on_empty) {
      std::exchange(context.on_empty, nullptr)();
    }
  }

 private:
  // Outlives the server until the last asynchronous operation has come back.
  struct Shared {
    Shared(tcp::acceptor listening, std::shared_ptr<ConnectionContext> connection_context)
        : acceptor(std::move(listening)),
          port(acceptor.local_endpoint().port()),
          context(std::move(connection_context)),
          pause(context->io) {}
    void close() {
      error_code ignored;
      acceptor.close(ignored);
      pause.cancel();
    }

    tcp::acceptor acceptor;
    const int port;
    const std::shared_ptr<ConnectionContext> context;
    asio::steady_timer pause;
    const std::string refusal = too_many_connections_answer();
  };

  static void accept(const std::shared_ptr<Shared>& shared) {
    if (!shared->acceptor.is_open()) return;
    shared->acceptor.async_accept([shared](error_code error, tcp::socket socket) {
      if (!shared->acceptor.is_open()) return;
      if (error && error != asio::error::connection_aborted) return accept_later(shared);
      if (!error) take(*shared, std::move(socket));
      accept(shared);
    });
  }

  static void accept_later(const std::shared_ptr<Shared>& shared) {
    shared->pause.expires_after(kAcceptPause);
    shared->pause.async_wait([shared](error_code error) {
      if (!error) accept(shared);
    });
  }

  static void take(Shared& shared, tcp::socket socket) {
    ConnectionContext& context = *shared.context;
    error_code error;
    const tcp::endpoint peer = socket.remote_endpoint(error);
    if (error) return;  // has gone already
    const auto n_connections = static_cast<std::int64_t>(context.connections.size());
    if (n_connections >= context.limits.connections_max) {
      socket.non_blocking(true, error);
      socket.write_some(asio::buffer(shared.refusal), error);
      socket.shutdown(tcp::socket::shutdown_send, error);
      return;
    }
    socket.set_option(tcp::no_delay(true), error);
    std::make_shared<HttpConnection>(shared.context, std::move(socket), peer.address().to_string())
        ->start();
  }

  const std::shared_ptr<Shared> shared_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(asio::io_context& io,
                                                       const config::ServerOptions& options,
                                                       const config::LimitOptions& limits,
                                                       Access access, HttpHandlers handlers) {
  const Result<asio::ip::address> address = parse_address(options.host);
  if (address.has_error()) return address.error();
  const tcp::endpoint endpoint(*address, static_cast<std::uint16_t>(options.port));
  tcp::acceptor acceptor(io);
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return environment_error("cannot listen on " + options.host + " port " +
                             std::to_string(options.port) + ": " + error.message() +
                             "; stop what uses it or choose another one with --port");
  }
  raise_descriptor_limit();
  auto context = std::make_shared<ConnectionContext>(io, options, limits, std::move(access),
                                                     std::move(handlers));
  return std::unique_ptr<HttpServer>(
      std::make_unique<Listener>(std::move(acceptor), std::move(context)));
}

}  // namespace engramd::server
