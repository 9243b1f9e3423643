// The whole forward pass of the bundled model on the GPU's kernels, run by the block executor or,
// in tests/device, by a GPU, against the golden outputs of its reference implementation (fp32,
// torch).
#include <algorithm>

#include "kernels/cuda/cuda_backend.h"
#include "tests/engine/model/golden.h"
#ifndef ENGRAMD_ON_GPU
#include "tests/kernels/cuda/executor_backend.h"
#endif

namespace engramd::engine::testing {
namespace {

#ifdef ENGRAMD_ON_GPU

enum class Schedule { kForward, kReverse, kShuffled };  // the hardware's own
std::unique_ptr<kernels::Backend> cuda_backend(Schedule = Schedule::kForward,
                                               bool bfloat16_activations = false) {
  return kernels::make_cuda_backend(0, bfloat16_activations);
}

#else

using kernels::cuda::Schedule;
std::unique_ptr<kernels::Backend> cuda_backend(Schedule schedule = Schedule::kForward,
                                               bool bfloat16_activations = false) {
  auto backend = kernels::cuda::make_executor_backend(schedule, bfloat16_activations);
  backend->device().keep_memory_open();
  return backend;
}

#endif

constexpr double kLogitsTolerance = 1e-4;  // as the fast CPU backends
constexpr double kGateTolerance = 2e-2;

TEST(GoldenCudaTest, LogitsOfPromptsAndOfSingleTokens) {
  const Golden golden;
  Bench bench(cuda_backend());
  const auto vocab_size = static_cast<std::size_t>(bench.model->config.vocab_size);
  for (const std::string name : {"bos", "two", "capital_en", "capital_zh", "mixed", "specials"}) {
    const auto ids = golden.values<TokenId>(name + ".input_ids");
    const auto expected = golden.values<float>(name + ".logits");
    const auto logits = bench.logits(*bench.sequence(ids));
    ASSERT_EQ(logits.size(), ids.size() * vocab_size);
    EXPECT_LE(
        nmse(logits.data() + logits.size() - expected.size(), expected.data(), expected.size()),
        kLogitsTolerance)
        << name;
    const auto off = bench.logits(*bench.sequence(ids, false));
    const auto expected_off = golden.values<float>(name + ".logits_engram_off");
    EXPECT_LE(nmse(off.data() + off.size() - vocab_size, expected_off.data(), vocab_size),
              kLogitsTolerance)
        << name << " without Engram";
    if (ids.size() > 12) continue;
    const auto one_by_one = bench.logits(*bench.sequence(ids), 1);  // other kernels, same numbers
    EXPECT_LE(nmse(one_by_one.data(), logits.data(), logits.size()), 1e-9) << name;
  }
}

TEST(GoldenCudaTest, HiddenStatesExpertsAndGates) {
  const Golden golden;
  Bench bench(cuda_backend(Schedule::kReverse));
  const std::string name = "alexander";
  ForwardTrace trace;
  trace.want_hidden = trace.want_experts = true;
  bench.logits(*bench.sequence(golden.values<TokenId>(name + ".input_ids")), 0, &trace);
  int n_compared = 0;
  for (std::size_t layer = 0; layer < bench.model->layers.size(); ++layer) {
    const std::string suffix = "." + std::to_string(layer);
    if (golden.has(name + ".hidden" + suffix)) {
      const auto hidden = golden.values<float>(name + ".hidden" + suffix);
      EXPECT_LE(nmse(trace.hidden[layer].data(), hidden.data(), hidden.size()), kLogitsTolerance);
      ++n_compared;
    }
    if (!golden.has(name + ".experts" + suffix)) continue;
    const auto experts = golden.values<std::uint8_t>(name + ".experts" + suffix);
    EXPECT_EQ(std::vector<std::int32_t>(experts.begin(), experts.end()), trace.experts[layer]);
    ++n_compared;
  }
  EXPECT_GT(n_compared, 5);
  for (std::size_t index = 0; index < trace.engram.size(); ++index) {
    const std::string suffix = "." + std::to_string(bench.model->layout.layers[index].layer_id);
    const auto gate = golden.values<float>(name + ".gate" + suffix);
    const auto dot = golden.values<float>(name + ".dot" + suffix);
    const auto share = golden.values<float>(name + ".residual_share" + suffix);
    ASSERT_EQ(trace.engram[index].gate.size(), gate.size());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      if (std::fabs(dot[i]) < 1e-4) continue;  // the sign of the root flips there
      EXPECT_NEAR(trace.engram[index].gate[i], gate[i], kGateTolerance) << suffix << " " << i;
    }
    EXPECT_LE(nmse(trace.engram[index].residual_share.data(), share.data(), share.size()),
              kLogitsTolerance * 10);
  }
}

TEST(GoldenCudaTest, GreedyContinuation) {
  const Golden golden;
  Bench bench(cuda_backend(Schedule::kShuffled));
  const auto vocab_size = static_cast<std::size_t>(bench.model->config.vocab_size);
  auto sequence = bench.sequence(golden.values<TokenId>("capital_en.input_ids"));
  for (const TokenId expected : golden.values<TokenId>("capital_en.greedy")) {
    const auto logits = bench.logits(*sequence, sequence->size() - sequence->n_cached());
    const float* last = logits.data() + logits.size() - vocab_size;
    ASSERT_EQ(std::max_element(last, last + vocab_size) - last, expected) << sequence->size();
    sequence->append(expected);
    ASSERT_TRUE(sequence->reserve(sequence->size()));
  }
}

TEST(GoldenCudaTest, ABatchEqualsItsSequencesAlone) {
  const Golden golden;
  Bench bench(cuda_backend());
  const auto vocab_size = static_cast<std::size_t>(bench.model->config.vocab_size);
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<SequenceSlice> slices;
  std::vector<float> alone;
  for (const std::string name : {"capital_zh", "two"}) {
    const auto ids = golden.values<TokenId>(name + ".input_ids");
    const auto logits = bench.logits(*bench.sequence(ids));
    alone.insert(alone.end(), logits.end() - static_cast<std::ptrdiff_t>(vocab_size), logits.end());
    sequences.push_back(bench.sequence(ids));
    slices.push_back({sequences.back().get(), 0, sequences.back()->size()});
  }
  const auto together = bench.step.run(slices, bench.tables->view(), {});
  ASSERT_TRUE(together.has_value());
  ASSERT_EQ(together->size(), alone.size());
  EXPECT_LE(nmse(together->data(), alone.data(), alone.size()), 1e-9);  // rounding may differ
}

TEST(GoldenCudaTest, NarrowCachesAndRoundedActivationsStayClose) {
  const auto ids = Golden().values<TokenId>("mixed.input_ids");
  Bench exact(cuda_backend());
  const auto expected = exact.logits(*exact.sequence(ids));
  const auto error_of = [&](kernels::DType cache, bool bfloat16_activations) {
    Bench bench(cuda_backend(Schedule::kForward, bfloat16_activations), bundled_model(), cache);
    const auto logits = bench.logits(*bench.sequence(ids));
    return nmse(logits.data(), expected.data(), expected.size());
  };
  EXPECT_LE(error_of(kernels::DType::kBF16, false), 1e-3);
  EXPECT_LE(error_of(kernels::DType::kF8E4M3, false), 2e-2);
  const double rounded = error_of(kernels::DType::kF32, true);
  EXPECT_LE(rounded, 1e-3);
  EXPECT_GT(rounded, 0);
}

}  // namespace
}  // namespace engramd::engine::testing
