// Every kernel against the scalar reference, over shapes that fill no warp, no tile and no block of
// the cache, with the threads of each block run in three different orders.
#include <gtest/gtest.h>

#include "tests/kernels/cuda/executor_backend.h"
#include "tests/kernels/cuda/kernel_cases.h"

namespace engramd::kernels::cuda {
namespace {

class KernelsTest : public ::testing::TestWithParam<Schedule> {
 protected:
  // Every count of tokens in one order; the others need fewer to meet every way through a kernel.
  static CaseSize size() {
    return GetParam() == Schedule::kForward ? CaseSize::kRagged : CaseSize::kMiddle;
  }
  void check(const std::vector<KernelCase>& cases) {
    HostedBackend backend(make_executor_backend(GetParam()));
    for (const KernelCase& tested : cases) {
      EXPECT_LE(normalised_error(tested.run(backend), tested.expected), tested.tolerance)
          << tested.name << ", " << tested.expected.size() << " values";
    }
    EXPECT_EQ(backend.inner().weight_bytes(), 0);
  }
};

TEST_P(KernelsTest, Operations) {
  check(backend_cases(size()));
}
TEST_P(KernelsTest, QuantizedWeights) {
  check(quantized_cases(CaseSize::kRagged));
}
TEST_P(KernelsTest, SoftmaxAndGroupLimitedRouting) {
  check(routing_cases(CaseSize::kRagged));
}
TEST_P(KernelsTest, GroupedQueryAttention) {
  check(grouped_attention_cases(CaseSize::kRagged));
}
TEST_P(KernelsTest, EngramHashAndRows) {
  check(engram_cases(CaseSize::kRagged));
}
TEST_P(KernelsTest, Sampling) {
  check(sampling_cases(CaseSize::kRagged));
}

std::string name_of(Schedule schedule) {
  if (schedule == Schedule::kForward) return "forward";
  return schedule == Schedule::kReverse ? "reverse" : "shuffled";
}

INSTANTIATE_TEST_SUITE_P(Orders, KernelsTest,
                         ::testing::Values(Schedule::kForward, Schedule::kReverse,
                                           Schedule::kShuffled),
                         [](const auto& instance) { return name_of(instance.param); });

}  // namespace
}  // namespace engramd::kernels::cuda
