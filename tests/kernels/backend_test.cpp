// Every operation of every fast backend against the scalar reference, over shapes that fill no
// vector, no tile and no cache block. "cuda" are the GPU's kernels on the block executor.
#include "kernels/backend.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/number_formats.h"
#include "tests/kernels/cuda/executor_backend.h"
#include "tests/kernels/cuda/hosted_backend.h"
#include "tests/kernels/random_weights.h"

namespace engramd::kernels {
namespace {

using test::Matrix;
using test::nmse;
using test::Random;

constexpr double kTolerance = 1e-10;  // fp32 sums against double ones
const std::int64_t kTokenCounts[] = {1, 2, 3, 5, 7, 33};
const std::int64_t kWidths[] = {1, 3, 16, 17, 96, 100};

class BackendTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == "cuda") {
      fast_ = std::make_unique<cuda::HostedBackend>(cuda::make_executor_backend());
    } else {
      fast_ = make_cpu_backend({GetParam(), 2, false});
    }
    if (!fast_) GTEST_SKIP() << "this processor lacks " << GetParam();
  }
  // operation(backend) returns its outputs; they must agree.
  template <class Operation>
  void agree(const Operation& operation, const std::string& what) {
    const std::vector<float> expected = operation(*reference_);
    const std::vector<float> got = operation(*fast_);
    ASSERT_EQ(got.size(), expected.size());
    EXPECT_LE(nmse(got, expected), kTolerance) << what;
  }
  static std::vector<float> sized(std::int64_t n) {
    return std::vector<float>(static_cast<std::size_t>(n));
  }

  std::unique_ptr<Backend> reference_ = make_reference_backend();
  std::unique_ptr<Backend> fast_;
  Random random_;
};

TEST_P(BackendTest, EmbedAndNorm) {
  for (const std::int64_t width : kWidths) {
    Matrix table(random_, 11, width);
    const std::vector<std::int32_t> tokens = {0, 10, 3, 3};
    agree(
        [&](Backend& b) {
          auto out = sized(4 * 2 * width);
          b.embed(table.linear.weight, tokens, 2, out.data());
          return out;
        },
        "embed");
    const auto x = random_.floats(5 * width);
    const auto weight = random_.floats(width);
    agree(
        [&](Backend& b) {
          auto out = sized(5 * width);
          b.rms_norm(x.data(), weight.data(), 1e-6F, 5, width, out.data());
          return out;
        },
        "rms_norm");
  }
}

TEST_P(BackendTest, LinearProductsOfOneInput) {
  for (const std::int64_t n_tokens : kTokenCounts) {
    for (const std::int64_t in : kWidths) {
      Matrix a(random_, 70, in, true);
      Matrix b(random_, 9, in);
      const auto x = random_.floats(n_tokens * in);
      agree(
          [&](Backend& backend) {
            auto out = sized(n_tokens * 79);
            const LinearTask tasks[] = {{&a.linear, out.data()},
                                        {&b.linear, out.data() + n_tokens * 70}};
            backend.linear(x.data(), n_tokens, tasks);
            return out;
          },
          "linear");
    }
  }
}

TEST_P(BackendTest, FeedForward) {
  for (const std::int64_t n_tokens : kTokenCounts) {
    Matrix gate(random_, 75, 40);
    Matrix up(random_, 75, 40);
    Matrix down(random_, 40, 75);
    const FeedForward weights{gate.linear, up.linear, down.linear};
    const auto x = random_.floats(n_tokens * 40, 3);
    agree(
        [&](Backend& b) {
          auto out = sized(n_tokens * 40);
          b.feed_forward(weights, x.data(), n_tokens, out.data());
          return out;
        },
        "feed_forward");
  }
}

TEST_P(BackendTest, HyperConnections) {
  for (const int n : {1, 2, 4}) {
    for (const int width : {5, 32, 50}) {
      const std::int64_t n_tokens = 9;
      const int rows = (2 + n) * n;
      const auto fn = random_.floats(std::int64_t{rows} * n * width, 0.1F);
      const auto base = random_.floats(rows);
      const auto scale = random_.floats(3);
      const HyperConnection hc{n, width, 4, 1e-6F, 1e-6F, fn.data(), base.data(), scale.data()};
      const auto streams = random_.floats(n_tokens * n * width);
      const auto y = random_.floats(n_tokens * width);
      agree(
          [&](Backend& b) {
            auto h = streams;
            auto out = sized(n_tokens * (width + n + n * n));
            float* post = out.data() + n_tokens * width;
            float* comb = post + n_tokens * n;
            b.hyper_read(hc, h.data(), n_tokens, out.data(), post, comb);
            b.hyper_write(hc, y.data(), post, comb, n_tokens, h.data());
            out.insert(out.end(), h.begin(), h.end());
            return out;
          },
          "hyper_read and hyper_write");
      agree(
          [&](Backend& b) {
            auto out = sized(n_tokens * width);
            b.hyper_head(hc, streams.data(), n_tokens, out.data());
            return out;
          },
          "hyper_head");
    }
  }
}

// Two sequences of several cache blocks, the second with a scattered block table.
struct Paged {
  Paged(DType dtype, int width)
      : bytes(static_cast<std::size_t>(8 * kBlockTokens * width) * sizeof(float)),
        scales(8 * kBlockTokens) {
    cache = {bytes.data(), scales.data(), dtype, width, tables};
  }
  std::vector<std::uint8_t> bytes;
  std::vector<float> scales;
  std::int32_t first[3] = {0, 1, 2};
  std::int32_t second[3] = {7, 4, 5};
  const std::int32_t* tables[2] = {first, second};
  PagedCache cache;
};

TEST_P(BackendTest, LatentAttentionOverPagedCaches) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
    for (const int heads : {1, 3, 4}) {
      LatentAttention attention;
      attention.num_attention_heads = heads;
      attention.qk_nope_head_dim = 10;
      attention.qk_rope_head_dim = 6;
      attention.v_head_dim = 11;
      attention.kv_lora_rank = 21;
      attention.rms_norm_eps = 1e-6F;
      const auto norm = random_.floats(21);
      attention.kv_a_layernorm = norm.data();
      Matrix kv_b(random_, heads * 21, 21);
      attention.kv_b_proj = kv_b.linear.weight;
      std::vector<TokenSlot> slots;
      for (std::int32_t p = 0; p < 70; ++p) slots.push_back({0, p});
      for (std::int32_t p = 0; p < 33; ++p) slots.push_back({1, p});
      const auto n_tokens = static_cast<std::int64_t>(slots.size());
      const auto query = random_.floats(n_tokens * attention.query_width(), 2);
      const auto latent = random_.floats(n_tokens * attention.latent_width());
      const auto run = [&](Backend& b) {
        Paged paged(dtype, attention.latent_width());
        auto q = query;
        auto out = sized(n_tokens * attention.output_width());
        b.latent_attention(attention, q.data(), latent.data(), slots, paged.cache, out.data());
        return out;
      };
      if (dtype == DType::kF32) {
        agree(run, "latent_attention");
      } else {  // one differing rounding of an entry is a whole step of its format
        EXPECT_LE(nmse(run(*fast_), run(*reference_)), 1e-4);
      }
    }
  }
}

TEST_P(BackendTest, ExpertsWithAndWithoutASharedOne) {
  for (const std::int64_t n_tokens : kTokenCounts) {
    for (const bool shared : {false, true}) {
      constexpr int kExperts = 5;  // some stay empty for few tokens, all are shared by many
      std::vector<Matrix> matrices;
      for (int e = 0; e <= kExperts; ++e) {
        matrices.emplace_back(random_, 50, 24);
        matrices.emplace_back(random_, 50, 24);
        matrices.emplace_back(random_, 24, 50);
      }
      std::vector<FeedForward> experts;
      for (std::size_t e = 0; e < matrices.size(); e += 3) {
        experts.push_back({matrices[e].linear, matrices[e + 1].linear, matrices[e + 2].linear});
      }
      const auto gate = random_.floats(kExperts * 24);
      const auto bias = random_.floats(kExperts, 0.1F);
      MixtureOfExperts weights;
      weights.num_experts_per_tok = 3;
      weights.routed_scaling_factor = 2.5F;
      weights.gate.weight = {gate.data(), DType::kF32, 2, {kExperts, 24}};
      weights.e_score_correction_bias = bias.data();
      weights.experts = {experts.data(), kExperts};
      weights.shared = shared ? &experts.back() : nullptr;
      const auto x = random_.floats(n_tokens * 24);
      agree(
          [&](Backend& b) {
            auto out = sized(n_tokens * 24);
            std::vector<std::int32_t> chosen(static_cast<std::size_t>(n_tokens * 3));
            b.mixture_of_experts(weights, x.data(), n_tokens, out.data(), chosen.data());
            out.insert(out.end(), chosen.begin(), chosen.end());
            return out;
          },
          "mixture_of_experts");
    }
  }
}

TEST_P(BackendTest, EngramGateAndConvolutionOfEveryVariant) {
  const struct {
    int width;
    bool convolves, signed_zero, one_hidden_state;
  } cases[] = {{7, true, false, false},  {32, true, false, false}, {50, true, false, false},
               {50, false, true, false}, {50, true, false, true},  {7, false, true, true}};
  for (const auto& [width, convolves, signed_zero, one_hidden_state] : cases) {
    constexpr int kStreams = 3;
    EngramGate gate;
    gate.signed_zero = signed_zero;
    gate.one_hidden_state = one_hidden_state;
    gate.n_streams = kStreams;
    gate.hidden_size = width;
    gate.rms_norm_eps = 1e-6F;
    const auto key_norm = random_.floats(kStreams * width);
    const auto query_norm = random_.floats(kStreams * width);
    const auto conv_norm = random_.floats(kStreams * width);
    const auto conv = random_.floats(kStreams * width * 4);
    gate.key_norm = key_norm.data();
    gate.query_norm = query_norm.data();
    gate.conv_norm = conv_norm.data();
    gate.conv = convolves ? conv.data() : nullptr;
    std::vector<TokenSlot> slots;
    for (std::int32_t p = 0; p < 37; ++p) slots.push_back({p % 2, p / 2});
    const auto n_tokens = static_cast<std::int64_t>(slots.size());
    const std::int64_t update_width = kStreams * width;
    auto key = random_.floats(n_tokens * update_width);
    std::fill_n(key.begin(), width, 0.0F);  // a dot product of 0
    const auto value = random_.floats(n_tokens * width);
    const auto streams = random_.floats(n_tokens * (one_hidden_state ? width : update_width));
    std::vector<std::uint8_t> enabled(slots.size(), 1);
    enabled[4] = enabled[20] = 0;
    agree(
        [&](Backend& b) {
          Paged history(DType::kF32, static_cast<int>(update_width));
          auto h = streams;
          auto seen = sized(n_tokens * (3 * kStreams + 1));
          const EngramGateTrace trace{seen.data(), seen.data() + n_tokens * kStreams,
                                      seen.data() + n_tokens * 3 * kStreams,
                                      seen.data() + n_tokens * 2 * kStreams};
          b.engram_update(gate, key.data(), value.data(), slots, history.cache, enabled.data(),
                          h.data(), trace);
          h.insert(h.end(), seen.begin(), seen.end());
          return h;
        },
        "engram_update");
  }
}

TEST_P(BackendTest, EngramRowsOfAnyWidth) {
  for (const std::int64_t width : {16, 32, 40, 64}) {
    const std::int64_t n_scales = (width + kScaleBlock - 1) / kScaleBlock;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(100 * width));
    std::vector<std::uint8_t> scales(static_cast<std::size_t>(100 * n_scales));
    for (auto& c : codes) c = static_cast<std::uint8_t>(random_.below(0x7F));
    for (auto& s : scales) s = static_cast<std::uint8_t>(120 + random_.below(10));
    const RowFormat format{RowCodec::kF8E4M3E8M0, static_cast<int>(width)};
    std::vector<std::int64_t> rows;
    std::vector<RowBytes> places;
    for (int i = 0; i < 9 * 5; ++i) {
      rows.push_back(random_.below(100));
      places.push_back(
          {codes.data() + rows.back() * width, scales.data() + rows.back() * n_scales});
    }
    agree(
        [&](Backend& b) {
          auto out = sized(9 * 5 * width);
          b.engram_gather(format, places.data(), 9, 5, out.data());
          return out;
        },
        "engram_gather");
    auto out = sized(5 * width);  // and against the format's definition
    fast_->engram_gather(format, places.data(), 1, 5, out.data());
    const std::int64_t last = rows[4] * n_scales + n_scales - 1;
    EXPECT_EQ(out.back(), decode_e4m3(codes[static_cast<std::size_t>((rows[4] + 1) * width - 1)]) *
                              decode_e8m0(scales[static_cast<std::size_t>(last)]));
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, BackendTest,
                         ::testing::Values("avx512", "avx2", "portable", "cuda"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(CpuBackendChoice, UnknownNamesAreRefusedAndAutoAlwaysRuns) {
  EXPECT_EQ(make_cpu_backend({"avx1024", 1, false}), nullptr);
  EXPECT_NE(make_cpu_backend({"auto", 1, false}), nullptr);
  EXPECT_STREQ(make_cpu_backend({"portable", 1, false})->name(), "portable");
}

}  // namespace
}  // namespace engramd::kernels
