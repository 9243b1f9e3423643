#include "engine/runtime/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace engramd::engine {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, std::string());
}

std::string StopMatcher::push(const std::string& text) {
  if (!matched_.empty()) return {};
  if (stops_.empty()) return text;
  pending_ += text;
  std::size_t first = std::string::npos;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = pending_.find(stop);
    if (at == std::string::npos) continue;
    if (at + stop.size() > end || (at + stop.size() == end && at > first)) continue;
    first = at;
    end = at + stop.size();
    matched_ = stop;
  }
  if (first != std::string::npos) {
    std::string before = pending_.substr(0, first);
    pending_.clear();
    return before;
  }
  std::size_t held = 0;  // the longest tail that begins some stop
  for (const std::string& stop : stops_) {
    std::size_t length = std::min(stop.size() - 1, pending_.size());
    while (length > held &&
           pending_.compare(pending_.size() - length, length, stop, 0, length) != 0) {
      --length;
    }
    held = std::max(held, length);
  }
  std::string ready = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, ready.size());
  return ready;
}

std::string StopMatcher::flush() {
  return std::exchange(pending_, {});
}

}  // namespace engramd::engine
