// Inputs and weights for the tests of kernels, the same in every run.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/backend.h"
#include "kernels/number_formats.h"

namespace engramd::kernels::test {

class Random {
 public:
  explicit Random(std::uint64_t seed = 7) : engine_(seed) {}

  std::vector<float> floats(std::int64_t n, float scale = 1) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& v : values) v = normal_(engine_) * scale;
    return values;
  }
  std::vector<std::uint16_t> bf16(std::int64_t n, float scale = 1) {
    std::vector<std::uint16_t> values;
    for (const float v : floats(n, scale)) values.push_back(encode_bf16(v));
    return values;
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<float> normal_;
};

// A bf16 matrix that owns its bytes.
struct Matrix {
  Matrix(Random& random, std::int64_t out, std::int64_t in, bool with_bias = false)
      : weights(random.bf16(out * in, 1.0F / std::sqrt(static_cast<float>(in)))),
        bias(with_bias ? random.floats(out) : std::vector<float>()) {
    linear.weight = {weights.data(), DType::kBF16, 2, {out, in}};
    linear.bias = with_bias ? bias.data() : nullptr;
  }
  std::vector<std::uint16_t> weights;
  std::vector<float> bias;
  Linear linear;
};

// Normalised mean squared error.
template <class Expected>
double nmse(const std::vector<float>& got, const std::vector<Expected>& expected) {
  double error = 0;
  double power = 1e-30;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += (double{got[i]} - expected[i]) * (double{got[i]} - expected[i]);
    power += double{expected[i]} * expected[i];
  }
  return error / power;
}

}  // namespace engramd::kernels::test
