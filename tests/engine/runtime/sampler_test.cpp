#include "engine/runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::engine {
namespace {

using ::testing::HasSubstr;

constexpr int kDraws = 20'000;

// What happened before the draw: the oracle and the sampler get the same.
struct History {
  std::vector<TokenId> prompt;
  std::vector<TokenId> output;
};

std::vector<float> random_logits(std::int64_t vocab_size, unsigned seed, float scale = 2.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> logits(static_cast<std::size_t>(vocab_size));
  for (float& logit : logits) logit = normal(generator);
  return logits;
}

void renormalise(std::vector<double>& p) {
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
}

// The definitions, one after the other, on a full sort in double precision.
std::vector<double> oracle(const std::vector<float>& logits, const SamplingOptions& options,
                           const History& history) {
  const std::size_t n = logits.size();
  std::vector<double> x(logits.begin(), logits.end());
  for (const auto& [token, bias] : options.logit_bias) x[static_cast<std::size_t>(token)] += bias;
  std::map<TokenId, int> generated;
  for (const TokenId t : history.output) ++generated[t];
  for (std::size_t i = 0; i < n; ++i) {
    const auto id = static_cast<TokenId>(i);
    const bool in_prompt =
        std::find(history.prompt.begin(), history.prompt.end(), id) != history.prompt.end();
    if (in_prompt || generated.count(id) > 0) {
      x[i] = x[i] > 0 ? x[i] / options.repetition_penalty : x[i] * options.repetition_penalty;
    }
    if (generated.count(id) > 0) {
      x[i] -= options.presence_penalty + options.frequency_penalty * generated[id];
    }
  }
  std::vector<double> p(n);
  const double max = *std::max_element(x.begin(), x.end());
  for (std::size_t i = 0; i < n; ++i) p[i] = std::exp((x[i] - max) / options.temperature);
  renormalise(p);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  if (options.top_k > 0) {
    for (std::size_t r = static_cast<std::size_t>(options.top_k); r < n; ++r) p[order[r]] = 0;
    renormalise(p);
  }
  double before = 0;
  for (const std::size_t i : order) {
    const double mass = p[i];
    if (before >= options.top_p) p[i] = 0;
    before += mass;
  }
  const double floor = options.min_p * p[order[0]];
  for (double& mass : p) mass = mass < floor ? 0 : mass;
  renormalise(p);
  return p;
}

// Brings a sampler to a history through its interface: one-hot logits force each token.
Sampler with_history(const SamplingOptions& options, std::int64_t vocab_size,
                     const History& history) {
  Sampler sampler(options, vocab_size);
  sampler.observe_prompt(history.prompt);
  for (const TokenId token : history.output) {
    std::vector<float> logits(static_cast<std::size_t>(vocab_size), -1e6F);
    logits[static_cast<std::size_t>(token)] = 1e6F;
    EXPECT_EQ(sampler.sample(logits).chosen.token, token);
  }
  return sampler;
}

std::vector<int> draw_many(SamplingOptions options, const std::vector<float>& logits,
                           const History& history) {
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i) {
    options.seed = static_cast<std::uint64_t>(i);
    Sampler sampler = with_history(options, static_cast<std::int64_t>(logits.size()), history);
    ++counts[static_cast<std::size_t>(sampler.sample(logits).chosen.token)];
  }
  return counts;
}

// Chi-square as a z-score (Wilson and Hilferty); bins below 5 expected draws are one bin.
double chi_square_z(const std::vector<int>& counts, const std::vector<double>& p) {
  double statistic = 0, rest_expected = 0, rest_counted = 0;
  int bins = 0;
  const auto add = [&](double counted, double expected) {
    statistic += (counted - expected) * (counted - expected) / expected;
    ++bins;
  };
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * kDraws;
    if (expected >= 5) {
      add(counts[i], expected);
    } else {
      rest_expected += expected;
      rest_counted += counts[i];
    }
  }
  if (rest_expected > 0) add(rest_counted, rest_expected);
  const double freedom = std::max(bins - 1, 1);
  const double spread = 2.0 / (9.0 * freedom);
  return (std::cbrt(statistic / freedom) - (1.0 - spread)) / std::sqrt(spread);
}

constexpr double kSignificanceZ = 3.72;  // one in 10,000

struct DrawCase {
  std::string name;
  SamplingOptions options;
  History history = {};
  std::int64_t vocab_size = 32;
};

std::vector<DrawCase> draw_cases() {
  const History history{{1, 2, 3, 3, 4}, {3, 5, 5, 5, 6, 1}};
  return {{"temperature_1", {.temperature = 1.0}},
          {"temperature_low", {.temperature = 0.3}},
          {"temperature_high", {.temperature = 2.0}},
          {"top_k", {.temperature = 1.0, .top_k = 5}},
          {"top_k_1", {.temperature = 1.0, .top_k = 1}},
          {"top_k_above_vocabulary", {.temperature = 1.0, .top_k = 1000}},
          {"top_k_large_vocabulary", {.temperature = 1.5, .top_k = 40}, {}, 5003},
          {"top_p", {.temperature = 1.0, .top_p = 0.7}},
          {"top_p_tiny", {.temperature = 1.0, .top_p = 1e-9}},
          {"top_p_large_vocabulary", {.temperature = 1.0, .top_p = 0.9}, {}, 3001},
          {"min_p", {.temperature = 1.0, .min_p = 0.1}},
          {"min_p_1", {.temperature = 1.0, .min_p = 1.0}},
          {"repetition", {.temperature = 1.0, .repetition_penalty = 1.5}, history},
          {"repetition_below_1", {.temperature = 1.0, .repetition_penalty = 0.6}, history},
          {"presence", {.temperature = 1.0, .presence_penalty = 1.2}, history},
          {"presence_negative", {.temperature = 1.0, .presence_penalty = -0.8}, history},
          {"frequency", {.temperature = 1.0, .frequency_penalty = 0.7}, history},
          {"logit_bias", {.temperature = 1.0, .logit_bias = {{0, 2.5F}, {7, -100.0F}, {9, 1.0F}}}},
          {"top_k_top_p_min_p", {.temperature = 0.8, .top_k = 12, .top_p = 0.9, .min_p = 0.05}},
          {"top_p_min_p", {.temperature = 1.3, .top_p = 0.95, .min_p = 0.08}},
          {"everything",
           {.temperature = 1.2,
            .top_k = 20,
            .top_p = 0.93,
            .min_p = 0.02,
            .repetition_penalty = 1.2,
            .presence_penalty = 0.4,
            .frequency_penalty = 0.3,
            .logit_bias = {{5, 3.0F}, {11, 1.5F}}},
           history}};
}

class SamplerDraws : public ::testing::TestWithParam<DrawCase> {};

TEST_P(SamplerDraws, FollowTheIndependentlyComputedProbabilities) {
  const DrawCase& c = GetParam();
  const std::vector<float> logits = random_logits(c.vocab_size, 7);
  const std::vector<double> expected = oracle(logits, c.options, c.history);
  const std::vector<int> counts = draw_many(c.options, logits, c.history);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " was cut off";
    }
  }
  EXPECT_LT(chi_square_z(counts, expected), kSignificanceZ);

  const Sampler sampler = with_history(c.options, c.vocab_size, c.history);
  const std::vector<double> stated = sampler.probabilities(logits);
  ASSERT_EQ(stated.size(), expected.size());
  for (std::size_t i = 0; i < stated.size(); ++i) EXPECT_NEAR(stated[i], expected[i], 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Sampler, SamplerDraws, ::testing::ValuesIn(draw_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(SamplerTest, ChiSquareNoticesASlightlyWrongDistribution) {
  const std::vector<float> logits = random_logits(32, 7);
  const std::vector<int> counts = draw_many({.temperature = 1.0}, logits, {});
  EXPECT_GT(chi_square_z(counts, oracle(logits, {.temperature = 1.04}, {})), kSignificanceZ);
}

TEST(SamplerTest, SuccessiveDrawsOfOneSamplerFollowTheDistribution) {
  const std::vector<float> logits = random_logits(64, 3);
  const SamplingOptions options{.temperature = 1.0, .seed = 42};
  Sampler sampler(options, 64);
  std::vector<int> counts(64, 0);
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<std::size_t>(sampler.sample(logits).chosen.token)];
  }
  EXPECT_LT(chi_square_z(counts, oracle(logits, options, {})), kSignificanceZ);
}

TEST(SamplerTest, EqualSeedsGiveEqualTexts) {
  const auto text = [](std::uint64_t seed) {
    Sampler sampler({.temperature = 1.0, .seed = seed}, 500);
    std::vector<TokenId> tokens;
    for (unsigned i = 0; i < 50; ++i) {
      tokens.push_back(sampler.sample(random_logits(500, i)).chosen.token);
    }
    return tokens;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(SamplerTest, GreedyTakesTheGreatestAndTheLowestIdOfATie) {
  for (const std::int64_t vocab_size : {1, 15, 16, 17, 63, 64, 65, 1000, 10'240}) {
    std::vector<float> logits = random_logits(vocab_size, 5);
    const auto best = std::max_element(logits.begin(), logits.end());
    Sampler sampler({}, vocab_size);
    EXPECT_EQ(sampler.sample(logits).chosen.token, best - logits.begin());
    logits.back() = *best;  // a tie with a later id changes nothing
    EXPECT_EQ(sampler.sample(logits).chosen.token, best - logits.begin());
  }
  Sampler sampler({.temperature = 1.0, .top_k = 2}, 200);
  const std::vector<double> p = sampler.probabilities(std::vector<float>(200, 1.0F));
  EXPECT_NEAR(p[0], 0.5, 1e-6);
  EXPECT_NEAR(p[1], 0.5, 1e-6);
}

TEST(SamplerTest, GreedyAppliesBiasAndPenalties) {
  const std::vector<float> logits{1.0F, 3.0F, 2.5F};
  Sampler biased({.logit_bias = {{0, 5.0F}}}, 3);
  EXPECT_EQ(biased.sample(logits).chosen.token, 0);
  Sampler penalised({.frequency_penalty = 0.3}, 3);
  EXPECT_EQ(penalised.sample(logits).chosen.token, 1);
  EXPECT_EQ(penalised.sample(logits).chosen.token, 1);
  EXPECT_EQ(penalised.sample(logits).chosen.token, 2);  // 3.0 - 2 * 0.3 < 2.5
  Sampler repetition({.repetition_penalty = 1.5}, 3);
  repetition.observe_prompt(std::vector<TokenId>{1});
  EXPECT_EQ(repetition.sample(logits).chosen.token, 2);
}

TEST(SamplerTest, LogprobsAreOfTheUnmodifiedDistributionAfterBias) {
  const std::vector<float> logits = random_logits(1000, 9);
  SamplingOptions options{.temperature = 0.5, .top_k = 3, .presence_penalty = 1.0};
  options.logit_bias = {{10, 4.0F}};
  options.top_logprobs = 20;
  const std::vector<double> p =
      oracle(logits, {.temperature = 1.0, .logit_bias = options.logit_bias}, {});
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return p[a] > p[b]; });
  Sampler sampler(options, 1000);
  for (int step = 0; step < 5; ++step) {
    const SampledToken token = sampler.sample(logits);
    EXPECT_NEAR(token.chosen.logprob, std::log(p[static_cast<std::size_t>(token.chosen.token)]),
                1e-5);
    ASSERT_EQ(token.top.size(), 20U);
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(token.top[i].token, static_cast<TokenId>(order[i]));
      EXPECT_NEAR(token.top[i].logprob, std::log(p[order[i]]), 1e-5);
    }
  }
}

TEST(SamplerTest, LogitsThatAreNotFiniteHaveADefinedMeaning) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 1e-300, 0.7, 2.0}) {
    for (const int top_k : {0, 2}) {
      for (const double repetition : {1.0, 10.0}) {
        const SamplingOptions options{
            .temperature = temperature, .top_k = top_k, .repetition_penalty = repetition};
        Sampler sampler(options, 4);
        for (int i = 0; i < 3; ++i) {
          const SampledToken finite = sampler.sample(std::vector<float>{kNan, -kInf, 0.5F, kNan});
          EXPECT_EQ(finite.chosen.token, 2);
          EXPECT_NEAR(finite.chosen.logprob, 0.0, 1e-6);
        }
        EXPECT_EQ(sampler.sample(std::vector<float>{kNan, kInf, 0.5F, 3.0F}).chosen.token, 1);
        const auto p = sampler.probabilities(std::vector<float>{kNan, kNan, -kInf, -kInf});
        EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1.0, 1e-6);
      }
    }
  }
  Sampler greedy({}, 3);
  EXPECT_EQ(greedy.sample(std::vector<float>{kNan, kNan, kNan}).chosen.token, 0);
}

TEST(SamplerTest, ValidateRefusesWhatIsOutOfRangeByName) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto message = [](const SamplingOptions& options) {
    const Result<void> result = validate(options, 100);
    return result.has_value() ? std::string("accepted") : result.error().message;
  };
  EXPECT_EQ(message({}), "accepted");
  EXPECT_EQ(message({.temperature = 2.0,
                     .top_k = 1'000'000,
                     .top_p = 1e-6,
                     .min_p = 1.0,
                     .repetition_penalty = 0.1,
                     .presence_penalty = -2,
                     .frequency_penalty = 2,
                     .logit_bias = {{99, -100.0F}},
                     .top_logprobs = 20}),
            "accepted");
  EXPECT_THAT(message({.temperature = 2.1}), HasSubstr("temperature must be from 0 to 2, got 2.1"));
  EXPECT_THAT(message({.temperature = kNan}), HasSubstr("temperature"));
  EXPECT_THAT(message({.top_k = -1}), HasSubstr("top_k"));
  EXPECT_THAT(message({.top_p = 0.0}), HasSubstr("top_p must be greater than 0 and at most 1"));
  EXPECT_THAT(message({.top_p = 1.01}), HasSubstr("top_p"));
  EXPECT_THAT(message({.min_p = -0.1}), HasSubstr("min_p"));
  EXPECT_THAT(message({.repetition_penalty = 0.0}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(message({.presence_penalty = 2.5}), HasSubstr("presence_penalty"));
  EXPECT_THAT(message({.frequency_penalty = -2.5}), HasSubstr("frequency_penalty"));
  EXPECT_THAT(message({.logit_bias = {{100, 0.0F}}}), HasSubstr("logit_bias names token 100"));
  EXPECT_THAT(message({.logit_bias = {{-1, 0.0F}}}), HasSubstr("logit_bias"));
  EXPECT_THAT(message({.logit_bias = {{5, 101.0F}}}), HasSubstr("logit_bias of token 5"));
  EXPECT_THAT(message({.top_logprobs = 21}), HasSubstr("top_logprobs"));
}

}  // namespace
}  // namespace engramd::engine
