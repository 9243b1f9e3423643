#include "server/transport/http_connection.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <boost/asio/buffer.hpp>

#include "server/transport/header_text.h"
#include "server/transport/http_error.h"
#include "server/transport/websocket_connection.h"

namespace engramd::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;

// Requests that are sent ahead of answers wait in the client's socket beyond this.
constexpr std::size_t kPipelinedBytesMax = 65536;
// One writev(2) takes this many pieces of an answer.
constexpr std::size_t kPiecesPerWrite = 16;

}  // namespace

HttpConnection::HttpConnection(std::shared_ptr<ConnectionContext> context,
                               asio::ip::tcp::socket socket, std::string address)
    : context_(std::move(context)),
      socket_(std::move(socket)),
      address_(std::move(address)),
      reader_(context_->limits),
      read_deadline_(context_->io),
      write_deadline_(context_->io) {}

HttpConnection::~HttpConnection() {
  context_->remove(this);
}

void HttpConnection::start() {
  context_->add(shared_from_this());
  error_code ignored;
  socket_.non_blocking(true, ignored);
  wait_for(Waiting::kFirstByte);
  wait_readable();
}

void HttpConnection::drain() {
  const auto self = shared_from_this();
  const bool idle =
      !answer_ && queue_.empty() && reader_.is_reading_head() && reader_.buffered_bytes() == 0;
  if (idle || waiting_ == Waiting::kClose) end();
}

void HttpConnection::abort() {
  const auto self = shared_from_this();
  if (answer_) std::exchange(answer_, nullptr)->let_go();
  end();
}

// ---- reading ----

// Waits without a buffer: ten thousand silent clients cost no memory.
void HttpConnection::wait_readable() {
  const bool full = (answer_ || !queue_.empty()) && waiting_ != Waiting::kClose &&
                    reader_.buffered_bytes() >= kPipelinedBytesMax;
  if (reading_ || ended_ || input_ended_ || full) return;
  reading_ = true;
  socket_.async_wait(asio::socket_base::wait_read, [self = shared_from_this()](error_code error) {
    self->reading_ = false;
    if (self->ended_) return;
    if (error) return self->on_input_ended();
    self->read_available();
  });
}

void HttpConnection::read_available() {
  error_code error;
  auto& buffer = context_->read_buffer;
  const std::size_t n_bytes = socket_.read_some(asio::buffer(buffer), error);
  if (error == asio::error::would_block) return wait_readable();
  if (error) return on_input_ended();
  if (waiting_ == Waiting::kClose) return wait_readable();  // nobody wants it any more
  reader_.push({buffer.data(), n_bytes});
  advance();
  wait_readable();
}

// A client that only ends its sending half and waits (`nc`) gets the answers that are ready; one
// whose answer is still being made has gone, for all that can be seen.
void HttpConnection::on_input_ended() {
  input_ended_ = true;
  if (answer_ || queue_.empty()) end();
}

void HttpConnection::advance() {
  while (!ended_ && !answer_ && queue_.empty() && !close_after_) {
    switch (reader_.next()) {
      case RequestReader::Step::kNeedMore:
        return await_more();
      case RequestReader::Step::kHead:
        take_head();
        break;
      case RequestReader::Step::kComplete:
        dispatch();
        break;
      case RequestReader::Step::kRefused:
        refusing_ = true;
        answer_with(reader_.refusal());
        break;
    }
  }
}

void HttpConnection::await_more() {
  if (input_ended_) return end();
  if (!reader_.is_reading_head()) return wait_for(Waiting::kBody);
  if (reader_.buffered_bytes() > 0) return wait_for(Waiting::kHead);
  if (context_->draining) return end();
  if (waiting_ != Waiting::kFirstByte) wait_for(Waiting::kNextRequest);
}

void HttpConnection::wait_for(Waiting what) {
  if (waiting_ == what && read_deadline_.is_set()) return;
  waiting_ = what;
  if (what == Waiting::kAnswer) return read_deadline_.clear();
  const config::ServerOptions& server = context_->server;
  const bool is_idle = what == Waiting::kNextRequest;
  const bool is_closing = what == Waiting::kClose;
  const milliseconds limit(is_idle      ? server.idle_timeout_ms
                           : is_closing ? server.write_timeout_ms
                                        : server.header_timeout_ms);
  body_bytes_seen_ = reader_.body_bytes();
  read_deadline_.set(limit, weak_from_this(), [this] { on_too_slow(); });
}

void HttpConnection::on_too_slow() {
  if (waiting_ == Waiting::kBody) return check_body_progress();
  if (waiting_ != Waiting::kHead) return end();
  refusing_ = true;
  answer_with(error_response(408, "the headers took longer than server.header_timeout_ms"));
}

void HttpConnection::check_body_progress() {
  const config::LimitOptions& limits = context_->limits;
  const auto n_bytes = static_cast<std::int64_t>(reader_.body_bytes() - body_bytes_seen_);
  const std::int64_t window_ms = context_->server.header_timeout_ms;
  if (n_bytes * 1000 >= limits.http_body_bytes_per_second_min * window_ms) {
    return wait_for(Waiting::kBody);
  }
  refusing_ = true;
  answer_with(
      error_response(408, "the body came more slowly than limits.http_body_bytes_per_second_min"));
}

// ---- requests ----

void HttpConnection::take_head() {
  RequestHead& head = reader_.head();
  head.request.id = context_->make_request_id();
  if (std::optional<HttpResponse> refused = refusal_of_head()) {
    refusing_ = head.has_body;
    answer_with(std::move(*refused));
  } else if (is_websocket_upgrade(head.request)) {
    upgrade();
  } else if (head.expects_continue && reader_.buffered_bytes() == 0) {
    send("HTTP/1.1 100 Continue\r\n\r\n");
  }
}

std::optional<HttpResponse> HttpConnection::refusal_of_head() {
  const HttpRequest& request = reader_.head().request;
  if (const auto wait_s = context_->rate_limiter.take(address_, RateLimiter::Clock::now())) {
    HttpResponse response = error_response(
        429, "more requests than limits.requests_per_minute from this address", "rate_limit");
    response.headers = {{"Retry-After", std::to_string(*wait_s)}};
    return response;
  }
  if (auto answer = preflight_answer(context_->access, request)) return answer;
  if (auto refused = refusal(context_->access, request)) return refused;
  if (!is_websocket_upgrade(request)) return std::nullopt;
  const auto& paths = context_->handlers.websocket_paths;
  if (std::find(paths.begin(), paths.end(), request.path) == paths.end()) {
    return error_response(404, "no WebSocket at " + request.path);
  }
  if (reader_.head().has_body || reader_.buffered_bytes() > 0) {
    return error_response(400, "a WebSocket client waits for the handshake's answer (RFC 6455)");
  }
  return websocket_refusal(request);
}

void HttpConnection::upgrade() {
  error_code ignored;
  socket_.cancel(ignored);  // the wait for more input
  const auto websocket = std::make_shared<WebSocketConnection>(context_, std::move(socket_));
  websocket->accept(reader_.head().request);
  end();
}

void HttpConnection::dispatch() {
  std::string body = reader_.take_body();
  RequestHead head = std::exchange(reader_.head(), {});
  head.request.body = std::move(body);
  HttpHeaders headers = cors_headers(context_->access, head.request);
  headers.emplace_back("x-request-id", head.request.id);
  wait_for(Waiting::kAnswer);
  auto answer = std::make_shared<HttpAnswer>(context_->io, shared_from_this(), std::move(head),
                                             std::move(headers));
  answer_ = answer.get();
  context_->handlers.request(std::move(answer));
  if (input_ended_ && answer_) end();
}

// What the transport itself has to say to a request.
void HttpConnection::answer_with(HttpResponse response) {
  RequestHead head = std::exchange(reader_.head(), {});
  if (head.request.id.empty()) head.request.id = context_->make_request_id();
  HttpHeaders headers = cors_headers(context_->access, head.request);
  headers.emplace_back("x-request-id", head.request.id);
  if (!refusing_) reader_.skip();
  wait_for(Waiting::kAnswer);
  const auto answer = std::make_shared<HttpAnswer>(context_->io, shared_from_this(),
                                                   std::move(head), std::move(headers));
  answer_ = answer.get();
  answer->respond(std::move(response));
}

bool HttpConnection::may_keep_alive() const {
  return !refusing_ && !context_->draining;
}

// ---- sending ----

void HttpConnection::send(std::string bytes) {
  if (ended_) return;
  queued_bytes_ += static_cast<std::int64_t>(bytes.size());
  queue_.push_back(std::move(bytes));
  write_some();
}

void HttpConnection::end_answer(bool keep_alive) {
  answer_ = nullptr;
  close_after_ = !keep_alive;
  if (queue_.empty()) on_queue_empty();
}

void HttpConnection::write_some() {
  if (writing_ || ended_ || queue_.empty()) return;
  writing_ = true;
  if (!write_deadline_.is_set()) {
    write_deadline_.set(milliseconds(context_->server.write_timeout_ms), weak_from_this(),
                        [this] { end(); });
  }
  std::array<asio::const_buffer, kPiecesPerWrite> buffers;
  const std::size_t n_pieces = std::min(queue_.size(), buffers.size());
  for (std::size_t i = 0; i < n_pieces; ++i) buffers[i] = asio::buffer(queue_[i]);
  buffers[0] += front_written_;
  socket_.async_write_some(buffers,
                           [self = shared_from_this()](error_code error, std::size_t n_bytes) {
                             self->writing_ = false;
                             if (self->ended_) return;
                             if (error) return self->end();
                             self->on_written(n_bytes);
                           });
}

void HttpConnection::on_written(std::size_t n_bytes) {
  write_deadline_.clear();
  queued_bytes_ -= static_cast<std::int64_t>(n_bytes);
  front_written_ += n_bytes;
  while (!queue_.empty() && front_written_ >= queue_.front().size()) {
    front_written_ -= queue_.front().size();
    queue_.pop_front();
  }
  if (!queue_.empty()) return write_some();
  on_queue_empty();
}

void HttpConnection::on_queue_empty() {
  if (answer_) return;
  if (!close_after_) {
    advance();
    return wait_readable();
  }
  if (input_ended_) return end();
  // Closed now, with input unread, the kernel would take the answer back from the client: it has
  // time to read it and to close.
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  if (context_->draining) return end();
  wait_for(Waiting::kClose);
  wait_readable();
}

void HttpConnection::end() {
  if (std::exchange(ended_, true)) return;
  const auto self = shared_from_this();
  read_deadline_.cancel();
  write_deadline_.cancel();
  error_code ignored;
  socket_.close(ignored);
  if (answer_) std::exchange(answer_, nullptr)->gone();
  context_->remove(this);
}

}  // namespace engramd::server
