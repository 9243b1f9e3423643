#include "server/upstream/response_reader.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/transport/header_text.h"
#include "server/transport/last_chunk.h"

namespace engramd::server {
namespace {

namespace http = boost::beast::http;

constexpr std::uint32_t kHeadBytesMax = 65536;
constexpr std::size_t kChunkLineBytesMax = 16384;
constexpr std::string_view kStart = "HTTP/1.";
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::string_view kTimeout = "timeout=";  // of Keep-Alive

std::string text_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

struct ResponseReader::Parser : http::response_parser<http::string_body> {};

ResponseReader::ResponseReader(std::size_t body_bytes_max) : body_bytes_max_(body_bytes_max) {
  begin();
}

ResponseReader::~ResponseReader() = default;

void ResponseReader::begin() {
  parser_ = std::make_unique<Parser>();
  parser_->header_limit(kHeadBytesMax);
  parser_->body_limit(body_bytes_max_);
}

bool ResponseReader::push(std::string_view bytes) {
  input_ += bytes;
  while (!has_head()) {
    if (!read_head()) return false;
    if (!has_head()) return true;
    if (parser_->get().result_int() / 100 == 1) begin();  // 100 Continue: the answer follows
  }
  return read_body();
}

// Beast gets a head at once: piece by piece it would find out later what is wrong with it.
bool ResponseReader::read_head() {
  if (!input_.starts_with(kStart.substr(0, input_.size()))) {
    problem_ = "it does not start as HTTP does";
    return false;
  }
  const std::size_t end = input_.find(kHeadEnd);
  if (std::min(end, input_.size()) > kHeadBytesMax) {
    problem_ = "its headers are longer than 64 KiB";
    return false;
  }
  if (end == std::string::npos) return true;
  boost::system::error_code error;
  parser_->put(boost::asio::buffer(input_.data(), end + kHeadEnd.size()), error);
  input_.erase(0, end + kHeadEnd.size());
  if (error || !parser_->is_header_done()) {
    problem_ = "its status line or a header is malformed";
    return false;
  }
  parser_->eager(true);
  return true;
}

bool ResponseReader::read_body() {
  while (!input_.empty() && !parser_->is_done()) {
    if (parser_->chunked() && starts_last_chunk(input_)) break;
    boost::system::error_code error;
    const std::size_t n_read = parser_->put(boost::asio::buffer(input_), error);
    input_.erase(0, n_read);
    if (error == http::error::need_more) {
      if (input_.size() <= kChunkLineBytesMax) break;
      problem_ = "a chunk's size line is too long";
      return false;
    }
    if (error) {
      problem_ = error.message();
      return false;
    }
  }
  return true;
}

bool ResponseReader::finish() {
  boost::system::error_code error;
  if (has_head() && !parser_->is_done()) parser_->put_eof(error);
  return !error && parser_->is_done();
}

bool ResponseReader::has_head() const {
  return parser_->is_header_done();
}

UpstreamAnswerHead ResponseReader::head() const {
  const auto& message = parser_->get();
  const auto header = [&message](const char* name) -> std::optional<std::string> {
    const auto found = message.find(name);
    if (found == message.end()) return std::nullopt;
    return text_of(found->value());
  };
  UpstreamAnswerHead head;
  head.status = message.result_int();
  head.content_type = header("Content-Type").value_or("");
  head.content_encoding = lower_case(header("Content-Encoding").value_or(""));
  if (head.content_encoding == "identity") head.content_encoding.clear();
  head.retry_after = header("Retry-After");
  head.retry_after_ms = header("retry-after-ms");
  head.should_retry = header("x-should-retry");
  return head;
}

std::string ResponseReader::take_body() {
  std::string body = std::exchange(parser_->get().body(), {});
  return body;
}

bool ResponseReader::is_complete() const {
  return parser_->is_done();
}

bool ResponseReader::keeps_alive() const {
  return is_complete() && input_.empty() && parser_->get().keep_alive();
}

std::optional<int> ResponseReader::keep_alive_s() const {
  const std::string header = lower_case(text_of(parser_->get()["Keep-Alive"]));
  const std::size_t found = header.find(kTimeout);
  if (found == std::string::npos) return std::nullopt;
  int seconds = 0;
  const char* const start = header.data() + found + kTimeout.size();
  const auto read = std::from_chars(start, header.data() + header.size(), seconds);
  return read.ec == std::errc() ? std::optional(seconds) : std::nullopt;
}

}  // namespace engramd::server
