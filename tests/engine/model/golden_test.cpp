// The bundled model against the golden outputs of its reference implementation (fp32, torch), for
// the scalar reference and every fast backend this processor can run.
#include "tests/engine/model/golden.h"

#include <algorithm>

namespace engramd::engine::testing {
namespace {

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (make_backend(GetParam()) == nullptr) GTEST_SKIP() << "this processor lacks " << GetParam();
  }
  bool reference() const { return GetParam() == "reference"; }
  double logits_tolerance() const { return reference() ? 1e-9 : 1e-4; }
  double gate_tolerance() const { return reference() ? 1e-5 : 2e-2; }

  Golden golden_;
};

TEST_P(GoldenTest, LogitsOfEveryCase) {
  Bench bench(make_backend(GetParam()));
  const auto vocab_size = static_cast<std::size_t>(bench.model->config.vocab_size);
  for (const std::string& name : golden_cases()) {
    const auto ids = golden_.values<TokenId>(name + ".input_ids");
    const auto expected = golden_.values<float>(name + ".logits");
    const auto logits = bench.logits(*bench.sequence(ids));
    ASSERT_EQ(logits.size(), ids.size() * vocab_size);
    EXPECT_LE(
        nmse(logits.data() + logits.size() - expected.size(), expected.data(), expected.size()),
        logits_tolerance())
        << name;
    const auto off = bench.logits(*bench.sequence(ids, false));
    const auto expected_off = golden_.values<float>(name + ".logits_engram_off");
    EXPECT_LE(nmse(off.data() + off.size() - vocab_size, expected_off.data(), vocab_size),
              logits_tolerance())
        << name << " without Engram";
  }
}

TEST_P(GoldenTest, HiddenStatesAndExperts) {
  Bench bench(make_backend(GetParam()));
  const int n_layers = bench.model->config.num_hidden_layers;
  for (const std::string& name : golden_cases()) {
    const auto ids = golden_.values<TokenId>(name + ".input_ids");
    ForwardTrace trace;
    trace.want_hidden = trace.want_experts = true;
    bench.logits(*bench.sequence(ids), 0, &trace);
    for (int layer = 0; layer < n_layers; ++layer) {
      const auto l = static_cast<std::size_t>(layer);
      const std::string suffix = "." + std::to_string(layer);
      if (golden_.has(name + ".hidden" + suffix)) {
        const auto hidden = golden_.values<float>(name + ".hidden" + suffix);
        EXPECT_LE(nmse(trace.hidden[l].data(), hidden.data(), hidden.size()), logits_tolerance())
            << name << suffix;
      }
      if (!golden_.has(name + ".experts" + suffix)) continue;
      const auto experts = golden_.values<std::uint8_t>(name + ".experts" + suffix);
      EXPECT_EQ(std::vector<std::int32_t>(experts.begin(), experts.end()), trace.experts[l])
          << name << suffix;
    }
  }
}

TEST_P(GoldenTest, GatesDotsAndShares) {
  Bench bench(make_backend(GetParam()));
  for (const std::string& name : golden_cases()) {
    const auto ids = golden_.values<TokenId>(name + ".input_ids");
    ForwardTrace trace;
    bench.logits(*bench.sequence(ids), 0, &trace);
    for (std::size_t index = 0; index < trace.engram.size(); ++index) {
      const std::string suffix = "." + std::to_string(bench.model->layout.layers[index].layer_id);
      const auto gate = golden_.values<float>(name + ".gate" + suffix);
      const auto dot = golden_.values<float>(name + ".dot" + suffix);
      const auto share = golden_.values<float>(name + ".residual_share" + suffix);
      const auto value_norm = golden_.values<float>(name + ".value_norm" + suffix);
      const ForwardTrace::Engram& seen = trace.engram[index];
      ASSERT_EQ(seen.gate.size(), gate.size());
      for (std::size_t i = 0; i < gate.size(); ++i) {
        if (std::fabs(dot[i]) < 1e-4) continue;  // the sign of the root flips there
        EXPECT_NEAR(seen.gate[i], gate[i], gate_tolerance()) << name << suffix << " " << i;
      }
      EXPECT_LE(nmse(seen.dot.data(), dot.data(), dot.size()), logits_tolerance() * 10);
      EXPECT_LE(nmse(seen.residual_share.data(), share.data(), share.size()),
                logits_tolerance() * 10);
      EXPECT_LE(nmse(seen.value_norm.data(), value_norm.data(), value_norm.size()), 1e-9);
    }
  }
}

TEST_P(GoldenTest, GreedyContinuations) {
  Bench bench(make_backend(GetParam()));
  const auto vocab_size = static_cast<std::size_t>(bench.model->config.vocab_size);
  for (const std::string& name : golden_cases()) {
    auto sequence = bench.sequence(golden_.values<TokenId>(name + ".input_ids"));
    for (const TokenId expected : golden_.values<TokenId>(name + ".greedy")) {
      const auto logits = bench.logits(*sequence, sequence->size() - sequence->n_cached());
      const float* last = logits.data() + logits.size() - vocab_size;
      const auto best = std::max_element(last, last + vocab_size) - last;
      std::vector<float> sorted(last, last + vocab_size);
      std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
      if (!reference() && last[best] - sorted[1] < 0.02F)
        break;  // a coin toss in another arithmetic
      ASSERT_EQ(best, expected) << name << " at " << sequence->size();
      sequence->append(expected);
      ASSERT_TRUE(sequence->reserve(sequence->size()));
    }
  }
}

TEST_P(GoldenTest, ChunkedEqualsOneShotBitForBit) {
  Bench bench(make_backend(GetParam()));
  const auto ids = golden_.values<TokenId>("alexander.input_ids");
  const auto one_shot = bench.logits(*bench.sequence(ids));
  for (const std::int64_t chunk : {1, 2, 3, 7}) {
    EXPECT_EQ(bench.logits(*bench.sequence(ids), chunk), one_shot) << chunk;
  }
}

TEST_P(GoldenTest, ABatchEqualsItsSequencesAlone) {
  Bench bench(make_backend(GetParam()));
  const auto vocab_size = static_cast<std::size_t>(bench.model->config.vocab_size);
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<SequenceSlice> slices;
  std::vector<std::vector<float>> alone;
  for (const char* name : {"chat", "capital_zh", "mixed"}) {
    const auto ids = golden_.values<TokenId>(std::string(name) + ".input_ids");
    const auto logits = bench.logits(*bench.sequence(ids));
    alone.emplace_back(logits.end() - static_cast<std::ptrdiff_t>(vocab_size), logits.end());
    sequences.push_back(bench.sequence(ids));
    slices.push_back({sequences.back().get(), 0, sequences.back()->size()});
  }
  const auto together = bench.step.run(slices, bench.tables->view(), {});
  ASSERT_TRUE(together.has_value());
  ASSERT_EQ(together->size(), alone.size() * vocab_size);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(std::equal(alone[i].begin(), alone[i].end(),
                           together->begin() + static_cast<std::ptrdiff_t>(i * vocab_size)));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, GoldenTest,
                         ::testing::Values("reference", "avx512", "avx2", "portable"),
                         [](const auto& instance) { return instance.param; });

TEST(CpuBackendTest, ThreadCountChangesNothing) {
  const auto ids = Golden().values<TokenId>("inventions.input_ids");
  Bench one(make_backend("auto", 1));
  Bench three(make_backend("auto", 3));
  EXPECT_EQ(one.logits(*one.sequence(ids)), three.logits(*three.sequence(ids)));
  EXPECT_EQ(one.logits(*one.sequence(ids), 1), three.logits(*three.sequence(ids), 1));
}

TEST(KvCacheTest, NarrowEntriesStayClose) {
  const auto ids = Golden().values<TokenId>("inventions.input_ids");
  Bench exact(make_backend("auto"));
  const auto expected = exact.logits(*exact.sequence(ids));
  Bench bf16(make_backend("auto"), bundled_model(), kernels::DType::kBF16);
  const auto bf16_logits = bf16.logits(*bf16.sequence(ids));
  EXPECT_LE(nmse(bf16_logits.data(), expected.data(), expected.size()), 1e-3);
  EXPECT_GT(nmse(bf16_logits.data(), expected.data(), expected.size()), 0);
  Bench fp8(make_backend("auto"), bundled_model(), kernels::DType::kF8E4M3);
  const auto fp8_logits = fp8.logits(*fp8.sequence(ids));
  EXPECT_LE(nmse(fp8_logits.data(), expected.data(), expected.size()), 2e-2);
}

TEST(StepTest, CountsWhatTheRowsHold) {
  Golden golden;
  Bench bench(make_backend("auto"));
  for (const std::string& name : golden_cases()) {
    EngramCounts counts;
    bench.logits(*bench.sequence(golden.values<TokenId>(name + ".input_ids")), 0, nullptr, &counts);
    std::int64_t occupied = 0;
    std::int64_t owned = 0;
    std::int64_t bypassed = 0;
    for (const char* layer : {".1", ".3"}) {
      const auto bypass = golden.values<std::uint8_t>(name + ".bypass" + layer);  // [T, 2 orders]
      const auto occupied_cells = golden.values<std::uint8_t>(name + ".occupied" + layer);
      for (std::size_t i = 0; i < occupied_cells.size(); ++i) {  // [T, 2 orders x 4 heads]
        occupied += bypass[i / 4] == 0 ? occupied_cells[i] : 0;
      }
      for (const auto v : golden.values<std::uint8_t>(name + ".owned" + layer)) owned += v;
      for (const auto v : bypass) bypassed += 4 * v;
    }
    EngramCounts::PerOrder sum;
    for (const auto& order : counts.orders) {
      sum.occupied += order.occupied;
      sum.owned += order.owned;
      sum.bypassed += order.bypassed;
    }
    EXPECT_EQ(sum.occupied, occupied) << name;
    EXPECT_EQ(sum.owned, owned) << name;
    EXPECT_EQ(sum.bypassed, bypassed) << name;
  }
}

}  // namespace
}  // namespace engramd::engine::testing
