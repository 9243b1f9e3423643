#include "server/upstream/circuit_breaker.h"

#include <algorithm>

namespace engramd::server {
namespace {

constexpr int kFailuresToOpen = 3;
constexpr std::chrono::milliseconds kOpenTimeMin{5000};
constexpr std::chrono::milliseconds kOpenTimeMax{300000};

}  // namespace

bool CircuitBreaker::allow(Time now) {
  if (failures_ < kFailuresToOpen) return true;
  if (now < open_until_ || probing_) return false;
  probing_ = true;
  return true;
}

void CircuitBreaker::succeeded() {
  failures_ = 0;
  probing_ = false;
  open_time_ = std::chrono::milliseconds(0);
}

void CircuitBreaker::failed(Time now, std::optional<std::chrono::milliseconds> retry_after) {
  probing_ = false;
  if (++failures_ < kFailuresToOpen) return;
  open_time_ = std::clamp(2 * open_time_, kOpenTimeMin, kOpenTimeMax);
  open_until_ =
      now + std::min(std::max(open_time_, retry_after.value_or(open_time_)), kOpenTimeMax);
}

std::chrono::milliseconds CircuitBreaker::remaining(Time now) const {
  if (failures_ < kFailuresToOpen || now >= open_until_) return std::chrono::milliseconds(0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(open_until_ - now);
}

}  // namespace engramd::server
