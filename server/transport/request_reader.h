// RequestReader: the bytes of one HTTP/1 connection to requests, one after the other. Refuses what
// is too large and whatever two parsers could understand differently (request smuggling): a length
// and a transfer encoding, two lengths, folded lines, other encodings than chunked. Pure: no
// sockets, no time. Not here: who may come in (access), answers (http_answer).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "config/options.h"
#include "server/transport/http_exchange.h"

namespace engramd::server {

// A request whose headers are there; its body may still be on its way.
struct RequestHead {
  HttpRequest request;       // without body
  bool is_http_1_0 = false;  // knows no chunks
  bool is_head = false;      // HEAD, which request.method calls GET
  bool keep_alive = false;   // what the client asks for
  bool has_body = false;
  bool expects_continue = false;
};

class RequestReader {
 public:
  enum class Step {
    kNeedMore,  // push() more bytes
    kHead,      // head() is there; next() goes on with the body
    kComplete,  // body() is there; next() goes on with the next request
    kRefused,   // refusal() says why; nothing can be read after this
  };

  explicit RequestReader(const config::LimitOptions& limits);
  ~RequestReader();

  void push(std::string_view bytes) { input_ += bytes; }
  Step next();
  // Goes on with the next request: of kHead without a body.
  void skip();

  RequestHead& head() { return head_; }
  std::string take_body();
  const HttpResponse& refusal() const { return refusal_; }

  bool is_reading_head() const { return parser_ == nullptr; }
  std::size_t buffered_bytes() const { return input_.size(); }  // not yet looked at, or half a head
  std::size_t body_bytes() const;                               // that have arrived

 private:
  struct Parser;  // Beast's

  Step read_head();
  Step read_body();
  Step take_head();
  Step refuse(int status, std::string_view message);

  const std::size_t header_bytes_max_;
  const std::size_t body_bytes_max_;
  std::string input_;
  std::size_t scanned_bytes_ = 0;  // of input_, without the end of a head
  bool refused_ = false;
  std::unique_ptr<Parser> parser_;  // of the request whose head was read
  RequestHead head_;
  HttpResponse refusal_;
};

}  // namespace engramd::server
