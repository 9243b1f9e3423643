#include "server/histogram.h"

#include <algorithm>
#include <cmath>

namespace engramd::server {
namespace {

constexpr double kFirstMs = 0.001;
constexpr double kWidth = 1.1;

}  // namespace

void Histogram::add(double value_ms) {
  const double position = std::log(std::max(value_ms, kFirstMs) / kFirstMs) / std::log(kWidth);
  const int bucket = std::min(static_cast<int>(position), kBuckets - 1);
  ++buckets_[static_cast<std::size_t>(bucket)];
  ++count_;
  sum_ms_ += value_ms;
}

void Histogram::add(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ms_ += other.sum_ms_;
}

double Histogram::percentile(double share) const {
  if (count_ == 0) return 0;
  const double wanted = std::max(1.0, std::ceil(share * static_cast<double>(count_)));
  double seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    // The bucket's geometric middle: at most half a width away from any of its samples.
    if (seen >= wanted) return kFirstMs * std::pow(kWidth, static_cast<double>(i) + 0.5);
  }
  return kFirstMs * std::pow(kWidth, kBuckets);
}

}  // namespace engramd::server
