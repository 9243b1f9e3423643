// ConnectionContext: what the connections of one HttpServer share, and the list of them.
// On the io thread. For http_server, http_connection and websocket_connection.
#pragma once

#include <array>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include <boost/asio/io_context.hpp>

#include "config/options.h"
#include "server/transport/access.h"
#include "server/transport/http_exchange.h"
#include "server/transport/http_server.h"
#include "server/transport/rate_limiter.h"

namespace engramd::server {

class Connection {
 public:
  virtual ~Connection() = default;
  virtual void drain() = 0;  // ends when what is in hand is done
  virtual void abort() = 0;  // ends now; no handler is called any more
};

struct ConnectionContext {
  ConnectionContext(boost::asio::io_context& io_context, config::ServerOptions server_options,
                    config::LimitOptions limit_options, Access who_may_come, HttpHandlers handler);

  void add(const std::shared_ptr<Connection>& connection);
  void remove(Connection* connection);  // of one that has ended; twice does nothing
  void drain_all();
  void abort_all();

  std::string make_request_id();  // "req_" and 24 hexadecimal digits, unique in this daemon
  std::string_view date();        // now, as HTTP writes it

  boost::asio::io_context& io;
  const config::ServerOptions server;
  const config::LimitOptions limits;
  const Access access;
  HttpHandlers handlers;
  RateLimiter rate_limiter;
  bool draining = false;
  std::function<void()> on_empty;  // while draining, after the last connection
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;
  std::array<char, 65536> read_buffer;  // of whichever connection reads right now

 private:
  std::uint64_t request_id_prefix_;
  std::uint32_t n_requests_ = 0;
  std::time_t date_time_ = 0;
  std::string date_;
};

}  // namespace engramd::server
