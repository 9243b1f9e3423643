#include "server/upstream/circuit_breaker.h"

#include <algorithm>

namespace engramd::server {
namespace {

constexpr int kFailuresToOpen = 3;
// More than half of what was answered in a minute, when that is enough to tell.
constexpr std::chrono::seconds kWindow{60};
constexpr std::ptrdiff_t kOutcomesMin = 5;
constexpr std::chrono::milliseconds kOpenTimeMin{5000};
constexpr std::chrono::milliseconds kOpenTimeMax{300000};

}  // namespace

bool CircuitBreaker::allow(Time now) {
  if (!open_) return true;
  if (now < open_until_ || probing_) return false;
  probing_ = true;
  return true;
}

void CircuitBreaker::note(Time now, bool failed) {
  std::erase_if(recent_, [now](const Outcome& outcome) { return now - outcome.at > kWindow; });
  recent_.push_back({now, failed});
  probing_ = false;
}

bool CircuitBreaker::mostly_failed() const {
  const auto n = static_cast<std::ptrdiff_t>(recent_.size());
  const auto n_failed = std::count_if(recent_.begin(), recent_.end(),
                                      [](const Outcome& outcome) { return outcome.failed; });
  return n >= kOutcomesMin && 2 * n_failed > n;
}

void CircuitBreaker::succeeded(Time now) {
  note(now, false);
  if (open_) recent_.clear();  // what the probe told is newer
  failures_ = 0;
  open_ = false;
  open_time_ = std::chrono::milliseconds(0);
}

void CircuitBreaker::failed(Time now, std::optional<std::chrono::milliseconds> retry_after) {
  note(now, true);
  if (++failures_ < kFailuresToOpen && !open_ && !mostly_failed()) return;
  open_ = true;
  open_time_ = std::clamp(2 * open_time_, kOpenTimeMin, kOpenTimeMax);
  open_until_ =
      now + std::min(std::max(open_time_, retry_after.value_or(open_time_)), kOpenTimeMax);
}

std::chrono::milliseconds CircuitBreaker::remaining(Time now) const {
  if (!open_ || now >= open_until_) return std::chrono::milliseconds(0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(open_until_ - now);
}

}  // namespace engramd::server
