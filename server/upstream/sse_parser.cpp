#include "server/upstream/sse_parser.h"

#include <utility>

namespace engramd::server {

bool SseParser::push(std::string_view bytes) {
  for (const char c : bytes) {
    if (std::exchange(after_cr_, false) && c == '\n') continue;
    if (c == '\r' || c == '\n') {
      after_cr_ = c == '\r';
      if (!end_line()) return false;
    } else {
      if (line_.size() >= event_bytes_max_) return false;
      line_ += c;
    }
  }
  return true;
}

void SseParser::finish() {
  if (!line_.empty()) end_line();
  dispatch();
}

std::optional<SseEvent> SseParser::next() {
  if (events_.empty()) return std::nullopt;
  SseEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

bool SseParser::end_line() {
  const std::string whole = std::exchange(line_, {});
  std::string_view line = whole;
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // of byte order
  if (std::exchange(first_line_, false) && line.starts_with(kMark)) {
    line.remove_prefix(kMark.size());
  }
  if (line.empty()) {
    dispatch();
    return true;
  }
  const auto colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") event_.name = value;
  if (field != "data") return true;
  if (event_.data.size() + value.size() >= event_bytes_max_) return false;
  if (std::exchange(has_data_, true)) event_.data += '\n';
  event_.data += value;
  return true;
}

void SseParser::dispatch() {
  SseEvent event = std::exchange(event_, {});
  has_data_ = false;
  if (!event.data.empty()) events_.push_back(std::move(event));
}

}  // namespace engramd::server
