// RateLimiter: how many requests each client address may send (a token bucket each). On one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace engramd::server {

class RateLimiter {
 public:
  using Clock = std::chrono::steady_clock;

  // A minute's worth may come at once, after a minute of silence.
  explicit RateLimiter(std::int64_t requests_per_minute);

  // Counts one request. Too many: the seconds after which the next one is taken, from 1 to 59.
  std::optional<int> take(const std::string& address, Clock::time_point now);

  std::size_t n_addresses() const { return buckets_.size(); }
  static constexpr std::size_t kAddressesMax = 4096;  // those that are full again are forgotten

 private:
  struct Bucket {
    double requests;  // that may still come
    Clock::time_point at;
  };
  void forget_full_buckets(Clock::time_point now);
  double refilled(const Bucket& bucket, Clock::time_point now) const;

  double capacity_;
  double per_second_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace engramd::server
