#include "server/transport/rate_limiter.h"

#include <gtest/gtest.h>

namespace engramd::server {
namespace {

using std::chrono::seconds;

TEST(RateLimiter, GivesAMinutesWorthAndThenItsPace) {
  RateLimiter limiter(60);
  RateLimiter::Clock::time_point now;
  for (int i = 0; i < 60; ++i) EXPECT_FALSE(limiter.take("a", now).has_value()) << i;
  EXPECT_EQ(limiter.take("a", now), 1);
  EXPECT_FALSE(limiter.take("b", now).has_value()) << "somebody else's";
  now += seconds(2);
  EXPECT_FALSE(limiter.take("a", now).has_value());
  EXPECT_FALSE(limiter.take("a", now).has_value());
  EXPECT_TRUE(limiter.take("a", now).has_value());
}

TEST(RateLimiter, NeverAsksForAMinuteOrMore) {
  RateLimiter limiter(1);
  const RateLimiter::Clock::time_point now;
  EXPECT_FALSE(limiter.take("a", now).has_value());
  EXPECT_EQ(limiter.take("a", now), 59);
}

TEST(RateLimiter, ForgetsTheSilent) {
  RateLimiter limiter(60);
  RateLimiter::Clock::time_point now;
  for (std::size_t i = 0; i < RateLimiter::kAddressesMax; ++i) {
    limiter.take(std::to_string(i), now);
  }
  now += seconds(60);
  limiter.take("one more", now);
  EXPECT_EQ(limiter.n_addresses(), 1u);
}

TEST(RateLimiter, StaysBoundedWhenNobodyIsSilent) {
  RateLimiter limiter(60);
  const RateLimiter::Clock::time_point now;
  for (std::size_t i = 0; i < 2 * RateLimiter::kAddressesMax; ++i) {
    limiter.take(std::to_string(i), now);
  }
  EXPECT_EQ(limiter.n_addresses(), RateLimiter::kAddressesMax);
}

}  // namespace
}  // namespace engramd::server
