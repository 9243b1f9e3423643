#include "server/transport/rate_limiter.h"

#include <algorithm>
#include <cmath>

namespace engramd::server {

RateLimiter::RateLimiter(std::int64_t requests_per_minute)
    : capacity_(static_cast<double>(requests_per_minute)), per_second_(capacity_ / 60.0) {}

std::optional<int> RateLimiter::take(const std::string& address, Clock::time_point now) {
  if (buckets_.size() >= kAddressesMax && !buckets_.contains(address)) forget_full_buckets(now);
  Bucket& bucket = buckets_.try_emplace(address, Bucket{capacity_, now}).first->second;
  bucket = {refilled(bucket, now), now};
  if (bucket.requests >= 1.0) {
    bucket.requests -= 1.0;
    return std::nullopt;
  }
  constexpr double kSecondsMax = 59;  // SDKs ignore a Retry-After of a minute and more
  return static_cast<int>(
      std::clamp(std::ceil((1.0 - bucket.requests) / per_second_), 1.0, kSecondsMax));
}

double RateLimiter::refilled(const Bucket& bucket, Clock::time_point now) const {
  const std::chrono::duration<double> passed = now - bucket.at;
  return std::min(capacity_, bucket.requests + passed.count() * per_second_);
}

// When nobody is silent, one address gets its allowance anew: memory stays bounded.
void RateLimiter::forget_full_buckets(Clock::time_point now) {
  std::erase_if(buckets_,
                [&](const auto& entry) { return refilled(entry.second, now) >= capacity_; });
  if (buckets_.size() >= kAddressesMax) buckets_.erase(buckets_.begin());
}

}  // namespace engramd::server
