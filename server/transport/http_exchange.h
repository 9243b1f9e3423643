// HttpExchange: one HTTP request and the answer to it, as the APIs in server/api/ see them. The
// transport has already refused what is too large, too slow, from a foreign host or origin, or
// without the right token; a handler decides what the request means.
// On the io thread. Not here: sockets (http_connection), JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace engramd::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string id;  // made by us, for logs; the answer says it as `x-request-id`
  std::string
      method;         // as sent: "GET"; also "GET" for HEAD, whose answer goes out without its body
  std::string path;   // decoded, UTF-8, without the query: "/v1/models/engram-nano"
  std::string query;  // after the '?', not decoded
  HttpHeaders headers;
  std::string body;

  // The first header of that name, whatever its case, without outer whitespace.
  std::optional<std::string_view> header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = {};  // empty: none
  std::string body = {};          // with start(): the first piece
  HttpHeaders headers = {};       // besides those that the transport writes
};

// Shared handle: a handler may answer later and keeps it so long. Dropped without an answer, the
// client gets a 500. After the client has gone every call does nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;

  // The whole answer. Exactly one of respond() and start() is called, once.
  virtual void respond(HttpResponse response) = 0;

  // An answer in pieces, as they come: the head at once, then any number of write(), then finish().
  virtual void start(HttpResponse head) = 0;
  virtual void write(std::string piece) = 0;
  virtual void finish() = 0;
  // Handed over and not yet taken by the client. A write() that finds more than
  // limits.send_queue_bytes_max waiting ends the connection: who produces without end looks here
  // first.
  virtual std::int64_t queued_bytes() const = 0;

  // Called once when the client goes before the answer was handed over, never inside another call
  // of this class, and only while somebody holds the exchange. Set after that, it is called too.
  // Replaces the function that was set before. HEAD with start(): called as soon as the head is
  // out.
  virtual void on_gone(std::function<void()> function) = 0;
};

using HttpHandler = std::function<void(std::shared_ptr<HttpExchange> exchange)>;

}  // namespace engramd::server
