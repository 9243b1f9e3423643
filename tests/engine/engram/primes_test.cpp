#include "engine/engram/primes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::engine {
namespace {

using ::testing::ElementsAre;

TEST(IsPrime, AgreesWithTrialDivision) {
  for (std::int64_t n = -3; n < 20000; ++n) {
    bool expected = n >= 2;
    for (std::int64_t d = 2; d * d <= n; ++d) expected = expected && n % d != 0;
    ASSERT_EQ(is_prime(n), expected) << n;
  }
}

TEST(IsPrime, LargeNumbers) {
  EXPECT_TRUE(is_prime(9223372036854775783));   // greatest int64 prime
  EXPECT_FALSE(is_prime(9223372036854775807));  // 7^2 * 73 * 127 * 337 * 92737 * 649657
  EXPECT_FALSE(is_prime(3825123056546413051));  // strong pseudoprime to the bases 2 .. 23
  EXPECT_FALSE(is_prime(3215031751));           // strong pseudoprime to the bases 2, 3, 5, 7
}

TEST(SearchPrimes, NeverUsesAPrimeTwice) {
  const auto primes = search_primes(2, {10, 10}, 2);
  ASSERT_TRUE(primes.has_value());
  EXPECT_THAT((*primes)[0], ElementsAre(ElementsAre(11, 13), ElementsAre(17, 19)));
  EXPECT_THAT((*primes)[1], ElementsAre(ElementsAre(23, 29), ElementsAre(31, 37)));
}

TEST(SearchPrimes, EachOrderRestartsAtItsOwnBase) {
  const auto primes = search_primes(2, {14, 11}, 2);
  ASSERT_TRUE(primes.has_value());
  EXPECT_THAT((*primes)[0], ElementsAre(ElementsAre(17, 19), ElementsAre(11, 13)));
  EXPECT_THAT((*primes)[1], ElementsAre(ElementsAre(23, 29), ElementsAre(31, 37)));
}

TEST(SearchPrimes, TheBaseItselfCounts) {
  const auto primes = search_primes(1, {2}, 2);
  ASSERT_TRUE(primes.has_value());
  EXPECT_THAT((*primes)[0], ElementsAre(ElementsAre(2, 3)));
}

TEST(SearchPrimes, RefusesWhatWouldNotEnd) {
  EXPECT_FALSE(search_primes(1, {1}, 1).has_value());
  EXPECT_FALSE(search_primes(1, {(std::int64_t{1} << 40) + 1}, 1).has_value());
  EXPECT_FALSE(search_primes(1000, {100, 100}, 64).has_value());
  EXPECT_TRUE(search_primes(1, {std::int64_t{1} << 40}, 8).has_value());
}

}  // namespace
}  // namespace engramd::engine
