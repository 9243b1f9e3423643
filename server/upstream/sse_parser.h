// SseParser: bytes of a text/event-stream to its events (WHATWG HTML, section 9.2), in whatever
// pieces they arrive. Lines end in LF, CR or CRLF in any mix; comments, ids and retry times are
// left out, events without data too. Bounded. Pure; one per stream.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace engramd::server {

struct SseEvent {
  std::string name;  // of `event:`, or empty
  std::string data;  // its lines, joined by line feeds

  bool operator==(const SseEvent&) const = default;
};

class SseParser {
 public:
  explicit SseParser(std::size_t event_bytes_max) : event_bytes_max_(event_bytes_max) {}

  // False: a line or an event is longer than the limit; nothing can be read after that.
  bool push(std::string_view bytes);
  // The stream is over: an event whose blank line never came counts, as some servers end so.
  void finish();
  std::optional<SseEvent> next();

 private:
  bool end_line();
  void dispatch();

  const std::size_t event_bytes_max_;
  std::string line_;
  bool after_cr_ = false;
  bool first_line_ = true;
  SseEvent event_;
  bool has_data_ = false;
  std::deque<SseEvent> events_;
};

}  // namespace engramd::server
