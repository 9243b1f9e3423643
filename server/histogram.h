// Histogram: durations in logarithmic buckets, bounded memory, percentiles within 5 %.
// Plain value; one thread at a time.
#pragma once

#include <array>
#include <cstdint>

namespace engramd::server {

class Histogram {
 public:
  void add(double value_ms);
  void add(const Histogram& other);
  std::int64_t count() const { return count_; }
  double sum_ms() const { return sum_ms_; }
  // The value below which `share` (0..1) of the samples lie; 0 without samples.
  double percentile(double share) const;

 private:
  // Buckets of 10 % width from 1 microsecond up to an hour: ln(3.6e9) / ln(1.1) = 231.
  static constexpr int kBuckets = 232;
  std::array<std::uint32_t, kBuckets> buckets_{};
  std::int64_t count_ = 0;
  double sum_ms_ = 0;
};

}  // namespace engramd::server
