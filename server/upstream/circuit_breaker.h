// CircuitBreaker: whether a remote that keeps failing is asked at all. Opens after some failures in
// a row, or when most of a minute's answers failed, for a time that doubles with each further
// failure; then lets one probe through. Pure: the caller brings the time. On the io thread.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

namespace engramd::server {

class CircuitBreaker {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Whether to ask now; false until what allow() let through as a probe has ended.
  bool allow(Time now);
  void succeeded(Time now);
  // retry_after: what the server asked for; it waits at least so long.
  void failed(Time now, std::optional<std::chrono::milliseconds> retry_after);
  // Ended without telling anything about the server: cancelled, or the request itself was wrong.
  void ended() { probing_ = false; }

  bool is_closed() const { return !open_ && failures_ == 0; }  // nothing to remember
  std::chrono::milliseconds remaining(Time now) const;         // 0: closed

 private:
  struct Outcome {
    Time at;
    bool failed = false;
  };
  void note(Time now, bool failed);
  bool mostly_failed() const;

  std::vector<Outcome> recent_;
  int failures_ = 0;  // in a row
  bool open_ = false;
  bool probing_ = false;
  std::chrono::milliseconds open_time_{0};
  Time open_until_{};
};

}  // namespace engramd::server
