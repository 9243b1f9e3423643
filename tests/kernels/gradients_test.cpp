// Every gradient of the reference against central differences in float64, and every fast one
// against the reference.
#include "kernels/gradients.h"

#include <gtest/gtest.h>

#include "tests/kernels/differentiable_operations.h"
#include "tests/kernels/random_weights.h"

namespace engramd::kernels {
namespace {

using test::Doubles;
using test::Operation;

// (L(x + h) - L(x - h)) / 2h for every element of every input.
std::vector<Doubles> central_differences(const Operation& operation) {
  constexpr double kStep = 1e-5;  // error of the order of h^2 and of 1e-16 / h
  std::vector<Doubles> inputs;
  for (const auto& input : operation.inputs) inputs.emplace_back(input.begin(), input.end());
  std::vector<Doubles> gradient;
  for (Doubles& input : inputs) {
    Doubles& by_input = gradient.emplace_back();
    for (double& x : input) {
      const double before = x;
      x = before + kStep;
      const double above = operation.objective(inputs);
      x = before - kStep;
      by_input.push_back((above - operation.objective(inputs)) / (2 * kStep));
      x = before;
    }
  }
  return gradient;
}

TEST(ReferenceGradients, EqualCentralDifferences) {
  const auto reference = make_reference_gradients();
  for (const Operation& operation : test::differentiable_operations(0)) {
    const auto expected = central_differences(operation);
    const auto got = operation.gradient(*reference, operation.inputs);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].size(), expected[i].size());
      EXPECT_LE(test::nmse(got[i], expected[i]), 1e-12) << operation.name << ", input " << i;
    }
  }
}

class FastGradients : public ::testing::TestWithParam<const char*> {};

TEST_P(FastGradients, EqualTheReference) {
  const auto fast = make_cpu_gradients(GetParam());
  if (!fast) GTEST_SKIP() << "this processor lacks " << GetParam();
  const auto reference = make_reference_gradients();
  for (const int size : {0, 1, 2, 4}) {
    for (const Operation& operation : test::differentiable_operations(size)) {
      const auto expected = operation.gradient(*reference, operation.inputs);
      const auto got = operation.gradient(*fast, operation.inputs);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_LE(test::nmse(got[i], expected[i]), 1e-10)
            << operation.name << ", size " << size << ", input " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, FastGradients,
                         ::testing::Values("avx512", "avx2", "portable"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(GradientsChoice, UnknownNamesAreRefused) {
  EXPECT_EQ(make_cpu_gradients("avx1024"), nullptr);
  EXPECT_NE(make_cpu_gradients("auto"), nullptr);
}

}  // namespace
}  // namespace engramd::kernels
