#include "server/histogram.h"

#include <gtest/gtest.h>

namespace engramd::server {
namespace {

TEST(Histogram, PercentilesAreWithinFivePercent) {
  Histogram histogram;
  for (int i = 1; i <= 1000; ++i) histogram.add(i);
  EXPECT_NEAR(histogram.percentile(0.50), 500, 25);
  EXPECT_NEAR(histogram.percentile(0.99), 990, 50);
  EXPECT_EQ(histogram.count(), 1000);
}

TEST(Histogram, EmptyAndExtremeValuesStayInBounds) {
  Histogram histogram;
  EXPECT_EQ(histogram.percentile(0.5), 0);
  histogram.add(0);
  histogram.add(-1);
  histogram.add(1e300);
  EXPECT_GT(histogram.percentile(1.0), 3e6);
  EXPECT_LT(histogram.percentile(0.1), 0.002);
}

TEST(Histogram, Adds) {
  Histogram low;
  Histogram high;
  low.add(1);
  high.add(100);
  high.add(100);
  low.add(high);
  EXPECT_EQ(low.count(), 3);
  EXPECT_NEAR(low.percentile(0.5), 100, 5);
}

}  // namespace
}  // namespace engramd::server
