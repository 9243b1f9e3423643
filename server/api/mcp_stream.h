// McpStream: the answer to one MCP POST (or the listening GET of a legacy session): JSON when the
// answer is there at once, else server-sent events. In a legacy session the client may go and ask
// for the rest later (Last-Event-ID), so the latest events are kept. On the io thread. Not here:
// which messages belong to it (mcp_http).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "server/transport/http_exchange.h"

namespace engramd::server {

class McpStream {
 public:
  // Kept for a client that comes back; older events are gone.
  static constexpr std::size_t kKeptEventsMax = 256;
  static constexpr std::int64_t kKeptBytesMax = 4 << 20;

  // name: of the events' ids; empty: events have none and nothing is kept (the modern era).
  // priming: the first event is an empty one with an id (2025-11-25 basic/transports).
  McpStream(std::shared_ptr<HttpExchange> exchange, std::string name, bool priming);

  // `status`: of the answer as a whole, when nothing was sent before.
  void send(std::string message, bool last, int status);
  // No answer comes any more.
  void end();
  // The answer takes time: the client gets the head now.
  void open_events();
  void keep_alive();

  bool is_open() const { return exchange_ != nullptr; }  // somebody reads it
  bool is_done() const { return done_; }
  void on_gone(std::function<void()> function);  // the reader
  void reader_gone() { exchange_.reset(); }
  // Goes on for another reader, from behind event number `after`; ends for the one before.
  void resume(std::shared_ptr<HttpExchange> exchange, std::uint64_t after);
  HttpHeaders headers;  // of the answer

 private:
  struct Event {
    std::uint64_t number;
    std::string data;
  };
  void write(const Event& event);
  void finish();

  std::shared_ptr<HttpExchange> exchange_;
  const std::string name_;
  const bool priming_;
  bool events_open_ = false;
  bool done_ = false;
  std::uint64_t n_events_ = 0;
  std::deque<Event> kept_;
  std::int64_t kept_bytes_ = 0;
};

}  // namespace engramd::server
