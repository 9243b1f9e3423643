// The kernels that repeat on a GPU what engine/ does on the processor, against engine/ itself: the
// distribution that the sampler draws from, and the rows of N-grams.
#include <cmath>

#include <gtest/gtest.h>

#include "engine/engram/addresser.h"
#include "engine/runtime/sampler.h"
#include "kernels/cuda/engram.cuh"
#include "kernels/cuda/sampling.cuh"
#include "tests/engine/model/golden.h"
#include "tests/kernels/cuda/case_inputs.h"
#include "tests/kernels/cuda/device_copies.h"

namespace engramd::engine {
namespace {

using namespace kernels::cuda;

TEST(CudaAgreement, TheSamplersDistributionIsTheProcessors) {
  constexpr std::int64_t kVocabSize = 700;
  CaseInputs inputs(31);
  const struct {
    double temperature;
    int top_k;
    double top_p, min_p;
  } cases[] = {{0, 0, 1, 0},    {1, 0, 1, 0},     {0.8, 40, 1, 0},       {1.3, 0, 0.9, 0},
               {1, 12, 0.7, 0}, {0.7, 0, 1, 0.1}, {0.9, 50, 0.95, 0.05}, {1, 900, 0.5, 0}};
  BlockExecutor device;
  for (const auto& c : cases) {
    for (const bool ties : {false, true}) {
      auto logits = inputs.floats(kVocabSize, 3);
      for (float& x : logits) x = ties ? std::round(x) : x;
      logits[3] = NAN;
      logits[4] = -INFINITY;
      SamplingOptions options;
      options.temperature = c.temperature;
      options.top_k = c.top_k;
      options.top_p = c.top_p;
      options.min_p = c.min_p;
      const auto expected = Sampler(options, kVocabSize).probabilities(logits);
      DeviceCopies copies(device);
      SampleKernel kernel;
      kernel.vocab_size = kVocabSize;
      kernel.shapes = copies.in(std::vector<SamplingShape>{
          {c.temperature > 0 ? static_cast<float>(1 / c.temperature) : 0.0F, c.top_k,
           static_cast<float>(c.top_p), static_cast<float>(c.min_p)}});
      kernel.logits = copies.in(logits);
      kernel.random = copies.in(std::vector<float>{0.5F});
      kernel.weights = copies.out<float>(kVocabSize);
      kernel.tokens = copies.out<std::int32_t>(1);
      device.launch(kernel, {});
      const auto weights = copies.fetch(kernel.weights);
      double total = 0;
      for (const float w : weights) total += w;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        EXPECT_NEAR(weights[i] / total, expected[i], 1e-6)
            << i << " at temperature " << c.temperature << ", top-k " << c.top_k << ", top-p "
            << c.top_p << ", min-p " << c.min_p;
      }
      const auto token = static_cast<std::size_t>(copies.fetch(kernel.tokens).front());
      EXPECT_GT(expected[token], 0);
    }
  }
}

TEST(CudaAgreement, TheRowsOfNgramsAreTheProcessors) {
  const EngramLayout& layout = testing::bundled_model().layout;
  const Addresser addresser(layout, testing::bundled_model().pad_class());
  CaseInputs inputs(32);
  std::vector<std::int32_t> classes;
  for (int i = 0; i < 200; ++i) {
    classes.push_back(i % 13 == 7 ? kDeadClass : static_cast<std::int32_t>(inputs.below(9006)));
  }
  constexpr std::int64_t kBegin = 11;  // a chunk that looks back
  constexpr std::int64_t kBefore = 2;  // as far as the widest N-gram
  const auto n_positions = static_cast<std::int64_t>(classes.size()) - kBegin;
  BlockExecutor device;
  for (int layer = 0; layer < static_cast<int>(layout.layers.size()); ++layer) {
    const EngramLayer& address = layout.layers[static_cast<std::size_t>(layer)];
    std::vector<std::int64_t> expected(static_cast<std::size_t>(n_positions * layout.n_columns()));
    addresser.rows(layer, classes, kBegin, kBegin + n_positions, expected.data());
    DeviceCopies copies(device);
    EngramHashKernel kernel;
    kernel.max_ngram_size = layout.config.max_ngram_size;
    kernel.n_heads = layout.config.n_heads;
    kernel.n_before = kBefore;
    kernel.n_positions = n_positions;
    kernel.blank_class = testing::bundled_model().pad_class();
    kernel.classes =
        copies.in(std::vector<std::int32_t>(classes.begin() + (kBegin - kBefore), classes.end()));
    kernel.multipliers = copies.in(address.multipliers);
    kernel.primes = copies.in(address.primes);
    kernel.offsets = copies.in(address.offsets);
    kernel.rows = copies.out<std::int64_t>(static_cast<std::int64_t>(expected.size()));
    device.launch(kernel, {.blocks_x = ceil_divide(kernel.rows.size, EngramHashKernel::kThreads)});
    EXPECT_EQ(copies.fetch(kernel.rows), expected) << layer;
  }
}

}  // namespace
}  // namespace engramd::engine
