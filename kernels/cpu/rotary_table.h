// RotaryTable: cosine and sine per position and pair, computed once: a rotation is then four
// products. Not for several threads while it grows. Private to kernels/cpu.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace engramd::kernels {

class RotaryTable {
 public:
  // [last + 1, width] of positions 0 to last; valid, from any thread, until the next call.
  const float* rows(int width, double theta, std::int32_t last) {
    if (width_ != width || theta_ != theta) {
      values_.clear();
      width_ = width;
      theta_ = theta;
    }
    const auto size = static_cast<std::size_t>(width);
    for (std::size_t p = values_.size() / size; p <= static_cast<std::size_t>(last); ++p) {
      for (int i = 0; i < width; i += 2) {
        const double angle =
            static_cast<double>(p) * std::pow(theta, -static_cast<double>(i) / width);
        values_.push_back(static_cast<float>(std::cos(angle)));
        values_.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    return values_.data();
  }

 private:
  std::vector<float> values_;  // [positions seen, width]
  int width_ = 0;
  double theta_ = 0;
};

// Interleaved pairs (2i, 2i+1) of x, by a row of the table; turn_back is the transpose.
inline void rotate(float* x, int width, const float* rotary) {
  for (int i = 0; i < width; i += 2) {
    const float a = x[i];
    const float b = x[i + 1];
    x[i] = a * rotary[i] - b * rotary[i + 1];
    x[i + 1] = a * rotary[i + 1] + b * rotary[i];
  }
}
inline void turn_back(float* x, int width, const float* rotary) {
  for (int i = 0; i < width; i += 2) {
    const float a = x[i];
    const float b = x[i + 1];
    x[i] = a * rotary[i] + b * rotary[i + 1];
    x[i + 1] = b * rotary[i] - a * rotary[i + 1];
  }
}

}  // namespace engramd::kernels
