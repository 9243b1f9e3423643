#include "server/transport/http_answer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/beast/http/status.hpp>

#include "config/assert.h"
#include "server/transport/http_error.h"

namespace engramd::server {
namespace {

// Longer bodies go out as a piece of their own instead of being copied behind the head.
constexpr std::size_t kCopiedBodyBytesMax = 65536;

void add_header(std::string& text, std::string_view name, std::string_view value) {
  text.append(name).append(": ");
  // A line end in a value would begin a header, or an answer, of somebody else's making.
  for (const char c : value) text += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
  text += "\r\n";
}

bool has_no_body(int status) {
  return status == 204 || status == 304;
}

std::string chunk_of(std::string_view piece) {
  std::array<char, 20> size;
  const auto end = std::to_chars(size.data(), size.data() + size.size(), piece.size(), 16).ptr;
  std::string chunk;
  chunk.reserve(piece.size() + size.size() + 4);
  chunk.append(size.data(), end).append("\r\n").append(piece).append("\r\n");
  return chunk;
}

}  // namespace

HttpAnswer::HttpAnswer(boost::asio::io_context& io, std::shared_ptr<AnswerSink> sink,
                       RequestHead head, HttpHeaders headers)
    : io_(io), sink_(std::move(sink)), head_(std::move(head)), headers_(std::move(headers)) {}

HttpAnswer::~HttpAnswer() {
  if (sink_ && state_ == State::kStreaming) sink_->give_up();
  if (sink_) respond(error_response(500, "the request was dropped without an answer"));
}

std::string HttpAnswer::head_text(const HttpResponse& response, std::string_view framing) const {
  std::string text = head_.is_http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  const auto reason =
      boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(response.status));
  text.append(std::to_string(response.status)).append(" ");
  text.append(reason.data(), reason.size()).append("\r\n");
  add_header(text, "Date", sink_->date());
  text += "Server: engramd\r\nX-Content-Type-Options: nosniff\r\n";
  if (!response.content_type.empty()) add_header(text, "Content-Type", response.content_type);
  for (const auto& [name, value] : headers_) add_header(text, name, value);
  for (const auto& [name, value] : response.headers) add_header(text, name, value);
  text += framing;
  if (!keep_alive_) {
    text += "Connection: close\r\n";
  } else if (head_.is_http_1_0) {
    text += "Connection: keep-alive\r\n";
  }
  text += "\r\n";
  return text;
}

void HttpAnswer::respond(HttpResponse response) {
  ENGRAMD_ASSERT(state_ == State::kOpen);
  state_ = State::kFinished;
  on_gone_ = nullptr;
  if (!sink_) return;
  keep_alive_ = head_.keep_alive && sink_->may_keep_alive();
  const std::string length = "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
  std::string text = head_text(response, has_no_body(response.status) ? "" : length);
  const bool sends_body = !head_.is_head && !has_no_body(response.status);
  if (sends_body && response.body.size() <= kCopiedBodyBytesMax) {
    text += response.body;
    sink_->send(std::move(text));
  } else {
    sink_->send(std::move(text));
    if (sends_body) sink_->send(std::move(response.body));
  }
  end();
}

void HttpAnswer::start(HttpResponse head) {
  ENGRAMD_ASSERT(state_ == State::kOpen);
  state_ = State::kStreaming;
  if (!sink_) return;
  // An HTTP/1.0 client knows the end by the end of the connection.
  chunked_ = !head_.is_http_1_0;
  keep_alive_ = chunked_ && head_.keep_alive && sink_->may_keep_alive();
  std::string text = head_text(head, chunked_ ? "Transfer-Encoding: chunked\r\n" : "");
  if (head_.is_head) {
    sink_->send(std::move(text));
    end();
    return tell_gone();
  }
  if (!head.body.empty()) text += chunked_ ? chunk_of(head.body) : head.body;
  sink_->send(std::move(text));
}

void HttpAnswer::write(std::string piece) {
  ENGRAMD_ASSERT(state_ == State::kStreaming);
  if (!sink_ || piece.empty()) return;
  if (sink_->queued_bytes() > sink_->queue_bytes_max()) return sink_->give_up();
  sink_->send(chunked_ ? chunk_of(piece) : std::move(piece));
}

void HttpAnswer::finish() {
  ENGRAMD_ASSERT(state_ == State::kStreaming);
  state_ = State::kFinished;
  on_gone_ = nullptr;
  if (!sink_) return;
  if (chunked_) sink_->send("0\r\n\r\n");
  end();
}

void HttpAnswer::end() {
  const auto sink = std::exchange(sink_, nullptr);
  sink->end_answer(keep_alive_);
}

std::int64_t HttpAnswer::queued_bytes() const {
  return sink_ ? sink_->queued_bytes() : 0;
}

void HttpAnswer::on_gone(std::function<void()> function) {
  on_gone_ = std::move(function);
  if (gone_) tell_gone();
}

void HttpAnswer::gone() {
  sink_.reset();
  tell_gone();
}

void HttpAnswer::tell_gone() {
  gone_ = true;
  if (!on_gone_) return;
  boost::asio::post(io_, [weak = weak_from_this(), function = std::exchange(on_gone_, nullptr)] {
    if (!weak.expired()) function();
  });
}

}  // namespace engramd::server
