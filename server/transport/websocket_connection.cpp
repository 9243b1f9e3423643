#include "server/transport/websocket_connection.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>

#include "server/transport/header_text.h"
#include "server/transport/http_error.h"

namespace engramd::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr std::string_view kSubprotocol = "mcp";
// A peer that has this much to read is not read from until it has.
constexpr std::int64_t kPauseReadingBytes = 1 << 20;
// Longer messages go out in fragments of this size, so that a slow peer's progress can be seen.
constexpr std::size_t kFragmentBytes = 65536;
constexpr int kPingsUnansweredMax = 2;

bool has_header_token(const HttpRequest& request, std::string_view name, std::string_view token) {
  const auto value = request.header(name);
  return value && has_token_ignoring_case(*value, token);
}

bool offers_subprotocol(const HttpRequest& request) {
  for (const auto& [name, value] : request.headers) {
    if (same_ignoring_case(name, "Sec-WebSocket-Protocol") && has_token(value, kSubprotocol)) {
      return true;
    }
  }
  return false;
}

boost::beast::string_view beast_text(std::string_view text) {
  return {text.data(), text.size()};
}

// Back to the form in which Beast takes a handshake.
http::request<http::empty_body> handshake_of(const HttpRequest& request) {
  http::request<http::empty_body> handshake(http::verb::get, beast_text(request.path), 11);
  for (const auto& [name, value] : request.headers) {
    handshake.insert(beast_text(name), beast_text(value));
  }
  return handshake;
}

}  // namespace

bool is_websocket_upgrade(const HttpRequest& request) {
  return request.method == "GET" && has_header_token(request, "Upgrade", "websocket") &&
         has_header_token(request, "Connection", "upgrade");
}

std::optional<HttpResponse> websocket_refusal(const HttpRequest& request) {
  if (request.header("Sec-WebSocket-Version") != "13") {
    HttpResponse response = error_response(426, "expected Sec-WebSocket-Version 13");
    response.headers = {{"Sec-WebSocket-Version", "13"}};
    return response;
  }
  constexpr std::size_t kKeyBytes = 24;  // base64 of 16 bytes
  const auto key = request.header("Sec-WebSocket-Key");
  if (!key || key->size() != kKeyBytes) {
    return error_response(400, "expected a Sec-WebSocket-Key of 16 bytes in base64");
  }
  return std::nullopt;
}

WebSocketConnection::WebSocketConnection(std::shared_ptr<ConnectionContext> context,
                                         asio::ip::tcp::socket socket)
    : context_(std::move(context)),
      stream_(std::move(socket)),
      write_deadline_(context_->io),
      ping_deadline_(context_->io),
      close_deadline_(context_->io) {}

WebSocketConnection::~WebSocketConnection() {
  context_->remove(this);
}

void WebSocketConnection::accept(const HttpRequest& request) {
  context_->add(shared_from_this());
  const bool echo = offers_subprotocol(request);
  stream_.set_option(websocket::stream_base::decorator([echo](websocket::response_type& response) {
    response.set(http::field::server, "engramd");
    if (echo) response.set(http::field::sec_websocket_protocol, beast_text(kSubprotocol));
  }));
  stream_.read_message_max(static_cast<std::uint64_t>(context_->limits.message_bytes_max));
  stream_.text(true);
  stream_.control_callback([this](websocket::frame_type type, boost::beast::string_view) {
    n_pings_unanswered_ = 0;
    if (type == websocket::frame_type::close) end_before_long();  // Beast waits for its FIN
  });
  end_before_long();
  stream_.async_accept(handshake_of(request), [self = shared_from_this()](error_code error) {
    if (self->ended_) return;
    if (error) return self->end();
    self->on_accepted();
  });
}

void WebSocketConnection::on_accepted() {
  accepted_ = true;
  close_deadline_.clear();
  if (context_->draining) return close_with(websocket::close_code::going_away);
  context_->handlers.websocket(shared_from_this());
  ping_later();
  read();
}

void WebSocketConnection::abort() {
  events_.reset();
  end();
}

void WebSocketConnection::drain() {
  close_with(websocket::close_code::going_away);
}

void WebSocketConnection::listen(Events events) {
  events_ = std::make_shared<const Events>(std::move(events));
}

// ---- reading ----

void WebSocketConnection::read() {
  if (reading_ || ended_ || close_sent_ || queued_bytes_ > kPauseReadingBytes) return;
  reading_ = true;
  input_.emplace(asio::dynamic_buffer(message_));
  stream_.async_read(*input_, [self = shared_from_this()](error_code error, std::size_t) {
    self->reading_ = false;
    if (self->ended_) return;
    if (!error) return self->on_message();
    // For a message that is too long or no UTF-8 Beast has said the close code already.
    if (!self->close_sent_) self->end();
  });
}

void WebSocketConnection::on_message() {
  n_pings_unanswered_ = 0;
  if (close_code_ != websocket::close_code::none) {  // nobody listens any more
    message_.clear();
    return read();
  }
  if (!stream_.got_text()) return close_with(websocket::close_code::unknown_data);
  const auto events = events_;  // close() inside lets go of them
  if (events && events->message) events->message(std::exchange(message_, {}));
  message_.clear();
  read();
}

// ---- sending ----

void WebSocketConnection::send(std::string message) {
  if (ended_ || close_code_ != websocket::close_code::none) return;
  const config::LimitOptions& limits = context_->limits;
  if (queued_bytes_ > limits.send_queue_bytes_max) return end();
  queued_bytes_ += static_cast<std::int64_t>(message.size());
  queue_.push_back(std::move(message));
  write();
}

void WebSocketConnection::write() {
  if (writing_ || ended_ || close_sent_ || queue_.empty()) return;
  writing_ = true;
  write_deadline_.set(milliseconds(context_->server.write_timeout_ms), weak_from_this(),
                      [this] { end(); });
  const std::string& message = queue_.front();
  const std::size_t n_bytes = std::min(kFragmentBytes, message.size() - front_written_);
  const bool is_last = front_written_ + n_bytes == message.size();
  stream_.async_write_some(is_last, asio::buffer(message.data() + front_written_, n_bytes),
                           [self = shared_from_this(), n_bytes](error_code error, std::size_t) {
                             self->writing_ = false;
                             if (self->ended_) return;
                             if (error) return self->end();
                             self->on_written(n_bytes);
                           });
}

void WebSocketConnection::on_written(std::size_t n_bytes) {
  write_deadline_.clear();
  queued_bytes_ -= static_cast<std::int64_t>(n_bytes);
  front_written_ += n_bytes;
  if (front_written_ == queue_.front().size()) {
    queue_.pop_front();
    front_written_ = 0;
  }
  if (queue_.empty() && close_code_ != websocket::close_code::none) {
    return close_with(close_code_);
  }
  write();
  read();
}

void WebSocketConnection::ping_later() {
  const config::ServerOptions& server = context_->server;
  ping_deadline_.set(milliseconds(server.websocket_ping_ms), weak_from_this(), [this] { ping(); });
}

void WebSocketConnection::ping() {
  if (ended_ || close_sent_) return;
  // Not while we do not read ourselves: then the time limit for writing decides.
  if (reading_) {
    if (n_pings_unanswered_ >= kPingsUnansweredMax) return end();
    ++n_pings_unanswered_;
  }
  ping_later();
  if (std::exchange(pinging_, true)) return;
  stream_.async_ping({}, [self = shared_from_this()](error_code) { self->pinging_ = false; });
}

// ---- the end ----

void WebSocketConnection::close() {
  events_.reset();
  close_with(websocket::close_code::going_away);
}

void WebSocketConnection::close_with(websocket::close_code code) {
  if (ended_ || close_sent_ || !accepted_) return;
  close_code_ = code;
  if (!queue_.empty()) return;
  close_sent_ = true;
  end_before_long();
  stream_.async_close(code, [self = shared_from_this()](error_code) { self->end(); });
}

void WebSocketConnection::end_before_long() {
  close_deadline_.set(milliseconds(context_->server.write_timeout_ms), weak_from_this(),
                      [this] { end(); });
}

void WebSocketConnection::end() {
  if (std::exchange(ended_, true)) return;
  const auto self = shared_from_this();
  write_deadline_.cancel();
  ping_deadline_.cancel();
  close_deadline_.cancel();
  error_code ignored;
  stream_.next_layer().close(ignored);
  context_->remove(this);
  const auto events = std::exchange(events_, nullptr);
  if (events && events->closed) events->closed();
}

}  // namespace engramd::server
