// WebSocketConnection: one client's WebSocket, from the handshake on, over the socket of the
// HttpConnection that it was. Whole text messages in and out (RFC 6455 without extensions).
// On the io thread; keeps itself alive by what it waits for. Not here: who may come in (checked by
// http_connection before), MCP.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/websocket/stream.hpp>

#include "server/transport/connection_context.h"
#include "server/transport/deadline.h"
#include "server/transport/message_peer.h"

namespace engramd::server {

bool is_websocket_upgrade(const HttpRequest& request);
// What is wrong with such a request; nothing: it can be accepted.
std::optional<HttpResponse> websocket_refusal(const HttpRequest& request);

class WebSocketConnection : public Connection,
                            public MessagePeer,
                            public std::enable_shared_from_this<WebSocketConnection> {
 public:
  WebSocketConnection(std::shared_ptr<ConnectionContext> context,
                      boost::asio::ip::tcp::socket socket);
  ~WebSocketConnection() override;

  // Answers the handshake, then hands itself to the handler.
  void accept(const HttpRequest& request);
  void drain() override;
  void abort() override;

  void listen(Events events) override;
  void send(std::string message) override;
  std::int64_t queued_bytes() const override { return queued_bytes_; }
  void close() override;

 private:
  void on_accepted();
  void read();
  void on_message();
  void write();
  void on_written(std::size_t n_bytes);
  void ping_later();
  void ping();
  // Says good-bye once everything is sent, and waits for the peer's answer for a while.
  void close_with(boost::beast::websocket::close_code code);
  void end_before_long();  // unless the peer is quicker
  void end();

  const std::shared_ptr<ConnectionContext> context_;
  boost::beast::websocket::stream<boost::asio::ip::tcp::socket, false> stream_;
  std::shared_ptr<const Events> events_;
  std::string message_;  // being read, into input_
  using Input = decltype(boost::asio::dynamic_buffer(std::declval<std::string&>()));
  std::optional<Input> input_;
  std::deque<std::string> queue_;
  std::size_t front_written_ = 0;  // bytes of queue_.front() that are out
  std::int64_t queued_bytes_ = 0;
  Deadline write_deadline_;
  Deadline ping_deadline_;
  Deadline close_deadline_;
  int n_pings_unanswered_ = 0;
  bool accepted_ = false;
  bool reading_ = false;  // an asynchronous operation is under way
  bool writing_ = false;
  bool pinging_ = false;
  bool close_sent_ = false;
  boost::beast::websocket::close_code close_code_ = boost::beast::websocket::close_code::none;
  bool ended_ = false;
};

}  // namespace engramd::server
