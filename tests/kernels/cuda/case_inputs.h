// Random inputs of kernel cases, and matrices that own their bytes.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/backend.h"
#include "kernels/number_formats.h"

namespace engramd::kernels::cuda {

class CaseInputs {
 public:
  explicit CaseInputs(std::uint64_t seed) : engine_(seed) {}

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

struct CaseMatrix {
  CaseMatrix(CaseInputs& inputs, std::int64_t out, std::int64_t in, bool with_bias = false)
      : weights(inputs.bf16(out * in, 1.0F / std::sqrt(static_cast<float>(in)))),
        bias(with_bias ? inputs.floats(out) : std::vector<float>()),
        out_features(out),
        in_features(in) {}
  Linear linear() const {
    return {{weights.data(), DType::kBF16, 2, {out_features, in_features}},
            bias.empty() ? nullptr : bias.data()};
  }

  std::vector<std::uint16_t> weights;
  std::vector<float> bias;
  std::int64_t out_features, in_features;
};

}  // namespace engramd::kernels::cuda
