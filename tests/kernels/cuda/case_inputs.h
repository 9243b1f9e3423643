// What kernel cases hold: random inputs, and matrices that own their bytes.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/random_weights.h"

namespace engramd::kernels::cuda {

using CaseInputs = test::Random;

// As test::Matrix, but a lambda may hold a copy.
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
