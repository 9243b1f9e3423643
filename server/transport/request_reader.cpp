#include "server/transport/request_reader.h"

#include <algorithm>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/transport/header_text.h"
#include "server/transport/http_error.h"
#include "server/transport/last_chunk.h"

namespace engramd::server {
namespace {

namespace http = boost::beast::http;

constexpr std::string_view kHeadEnd = "\r\n\r\n";
// The size line of a chunk with its extensions, or the trailers: what must be whole to be read.
constexpr std::size_t kChunkLineBytesMax = 16384;

std::string_view text_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// A line that starts with a blank goes on with the line before it, for some readers.
bool has_folded_line(std::string_view head) {
  return head.find("\n ") != std::string_view::npos || head.find("\n\t") != std::string_view::npos;
}

struct Problem {
  int status = 0;  // 0: none
  std::string_view message;
};

Problem problem_of(const boost::system::error_code& error) {
  if (error == http::error::header_limit) {
    return {431, "the headers are longer than limits.http_header_bytes_max"};
  }
  if (error == http::error::body_limit) {
    return {413, "the body is longer than limits.http_body_bytes_max"};
  }
  if (error == http::error::bad_version) return {505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  if (error == http::error::bad_method) return {400, "this is not an HTTP request"};
  if (error == http::error::bad_chunk || error == http::error::bad_chunk_extension) {
    return {400, "the body's chunks are malformed"};
  }
  return {400, "the request line or a header is malformed"};
}

// What decides where the body ends must be said once, and in the one way that we read.
Problem framing_problem(const http::request<http::string_body>& message) {
  const auto n_of = [&](http::field field) { return message.count(field); };
  const auto encoding = message.find(http::field::transfer_encoding);
  if (n_of(http::field::content_length) > 1) return {400, "more than one Content-Length"};
  if (n_of(http::field::host) > 1) return {400, "more than one Host header"};
  if (n_of(http::field::host) == 0 && message.version() == 11) return {400, "no Host header"};
  if (encoding == message.end()) return {};
  if (n_of(http::field::content_length) > 0 || n_of(http::field::transfer_encoding) > 1 ||
      message.version() == 10) {
    return {400, "a Transfer-Encoding beside a Content-Length, twice or in HTTP/1.0"};
  }
  if (!same_ignoring_case(trimmed(text_of(encoding->value())), "chunked")) {
    return {501, "expected the Transfer-Encoding chunked, got another one"};
  }
  return {};
}

}  // namespace

struct RequestReader::Parser : http::request_parser<http::string_body> {};

RequestReader::RequestReader(const config::LimitOptions& limits)
    : header_bytes_max_(static_cast<std::size_t>(limits.http_header_bytes_max)),
      body_bytes_max_(static_cast<std::size_t>(limits.http_body_bytes_max)) {}

RequestReader::~RequestReader() = default;

RequestReader::Step RequestReader::next() {
  if (refused_) return Step::kRefused;
  if (!parser_) return read_head();
  if (!parser_->is_done()) return read_body();
  return Step::kComplete;
}

void RequestReader::skip() {
  parser_.reset();
  head_ = {};
}

std::string RequestReader::take_body() {
  std::string body = std::move(parser_->get().body());
  parser_.reset();
  return body;
}

std::size_t RequestReader::body_bytes() const {
  return parser_ ? parser_->get().body().size() : 0;
}

RequestReader::Step RequestReader::read_head() {
  // Empty lines before a request are left-overs of the one before it (RFC 9112, section 2.2).
  while (input_.starts_with("\r\n")) input_.erase(0, 2);
  const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  if (!input_.empty() && input_[0] != '\r' && !is_letter(input_[0])) {
    return refuse(400, "this is not an HTTP request (the port speaks no TLS)");
  }
  const std::size_t from = scanned_bytes_ - std::min(scanned_bytes_, kHeadEnd.size() - 1);
  const std::size_t end = input_.find(kHeadEnd, from);
  if (std::min(end, input_.size()) > header_bytes_max_) {
    const Problem problem = problem_of(make_error_code(http::error::header_limit));
    return refuse(problem.status, problem.message);
  }
  if (end == std::string::npos) {
    scanned_bytes_ = input_.size();
    return Step::kNeedMore;
  }
  scanned_bytes_ = 0;
  const std::size_t head_bytes = end + kHeadEnd.size();
  if (has_folded_line(std::string_view(input_).substr(0, head_bytes))) {
    return refuse(400, "a header goes on over several lines");
  }
  parser_ = std::make_unique<Parser>();
  parser_->header_limit(static_cast<std::uint32_t>(header_bytes_max_ + kHeadEnd.size()));
  parser_->body_limit(body_bytes_max_);
  boost::system::error_code error;
  parser_->put(boost::asio::buffer(input_.data(), head_bytes), error);
  input_.erase(0, head_bytes);
  if (error || !parser_->is_header_done()) {
    const Problem problem = problem_of(error);
    return refuse(problem.status, problem.message);
  }
  parser_->eager(true);
  return take_head();
}

RequestReader::Step RequestReader::take_head() {
  const auto& message = parser_->get();
  const Problem problem = framing_problem(message);
  if (problem.status != 0) return refuse(problem.status, problem.message);
  std::optional<RequestTarget> target = parse_request_target(text_of(message.target()));
  if (!target) {
    return refuse(400, "the address is not a path in valid percent-encoded UTF-8");
  }
  head_ = {};
  head_.request.method = text_of(message.method_string());
  head_.request.path = std::move(target->path);
  head_.request.query = std::move(target->query);
  for (const auto& field : message) {
    head_.request.headers.emplace_back(text_of(field.name_string()), text_of(field.value()));
  }
  for (auto& [name, value] : head_.request.headers) {
    // The authority of a whole address takes the place of Host (RFC 9112, section 3.2.2).
    if (!target->authority.empty() && same_ignoring_case(name, "Host")) value = target->authority;
  }
  head_.is_head = message.method() == http::verb::head;
  if (head_.is_head) head_.request.method = "GET";
  head_.is_http_1_0 = message.version() == 10;
  head_.keep_alive = message.keep_alive();
  head_.has_body = !parser_->is_done();
  if (const auto expect = head_.request.header("Expect")) {
    if (!same_ignoring_case(*expect, "100-continue")) {
      return refuse(417, "expected `Expect: 100-continue` or none");
    }
    head_.expects_continue = !head_.is_http_1_0 && head_.has_body;
  }
  return Step::kHead;
}

RequestReader::Step RequestReader::read_body() {
  while (!parser_->is_done() && !input_.empty()) {
    if (parser_->chunked() && starts_last_chunk(input_)) break;
    boost::system::error_code error;
    const std::size_t n_read = parser_->put(boost::asio::buffer(input_), error);
    input_.erase(0, n_read);
    if (error == http::error::need_more) {
      if (input_.size() > kChunkLineBytesMax) return refuse(400, "a chunk's size line is too long");
      break;
    }
    if (error) {
      const Problem problem = problem_of(error);
      return refuse(problem.status, problem.message);
    }
  }
  return parser_->is_done() ? Step::kComplete : Step::kNeedMore;
}

RequestReader::Step RequestReader::refuse(int status, std::string_view message) {
  refused_ = true;
  input_ = {};
  refusal_ = error_response(status, message);
  return Step::kRefused;
}

}  // namespace engramd::server
