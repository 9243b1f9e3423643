#include "engine/engram/layout.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

EngramLayoutConfig demo_config() {
  EngramLayoutConfig config;
  config.layer_ids = {1, 15};
  config.vocab_size = {646400, 646400};
  config.hashed_vocab_size = 98627;
  return config;
}

EngramLayoutConfig v41_config() {
  EngramLayoutConfig config;
  config.variant = EngramVariant::kDeepSeekV41;
  config.layer_ids = {1, 14};
  config.max_ngram_size = 4;
  config.head_dim = 256;
  config.vocab_size = {16000000, 16000000, 16000000};
  config.hashed_vocab_size = 99092;
  return config;
}

std::vector<std::int64_t> above(std::int64_t base, std::vector<std::int64_t> primes) {
  for (std::int64_t& prime : primes) prime += base;
  return primes;
}

TEST(MakeLayout, DeepSeekV41HasThePublishedConstants) {
  const auto layout = make_layout(v41_config());
  ASSERT_TRUE(layout.has_value());
  const EngramLayer& first = layout->layers[0];
  EXPECT_EQ(first.primes,
            above(16000000, {57,  79,  81,  97,  121, 129, 133, 183, 189, 207, 211, 253,
                             277, 289, 307, 321, 339, 381, 393, 399, 403, 409, 447, 463}));
  EXPECT_THAT(first.multipliers,
              ElementsAre(76632096046245, 4839876093313, 35959672319349, 73987337458391));
  EXPECT_EQ(first.n_rows, 384006168);
  const EngramLayer& second = layout->layers[1];
  EXPECT_EQ(second.layer_id, 14);
  EXPECT_EQ(second.primes,
            above(16000000, {477, 487, 499, 507, 511, 573, 609, 627, 667, 669, 693, 697,
                             711, 729, 759, 769, 781, 799, 813, 819, 841, 877, 879, 889}));
  EXPECT_THAT(second.multipliers,
              ElementsAre(67716810739261, 51510806800915, 30921347202721, 82619226485591));
  EXPECT_EQ(second.n_rows, 384016682);
  EXPECT_EQ(layout->n_columns(), 24);
  EXPECT_EQ(layout->columns_width(), 6144);
  EXPECT_EQ(layout->order_of(23), 4);
  EXPECT_EQ(layout->head_of(17), 1);
}

TEST(MakeLayout, DemoHasThePublishedConstants) {
  const auto layout = make_layout(demo_config());
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->layers[0].primes, above(646000, {403, 411, 421, 423, 433, 453, 519, 523, 537,
                                                     543, 549, 571, 573, 577, 609, 619}));
  EXPECT_EQ(layout->layers[1].primes, above(646000, {631, 637, 643, 669, 687, 721, 757, 771, 781,
                                                     823, 831, 837, 843, 859, 873, 879}));
  EXPECT_THAT(layout->layers[0].multipliers,
              ElementsAre(76993395940407, 4862694818241, 36129212583461));
  EXPECT_THAT(layout->layers[1].multipliers,
              ElementsAre(29055444938695, 56284491166079, 54183298291715));
  EXPECT_EQ(layout->layers[0].n_rows, 10344164);
  EXPECT_EQ(layout->layers[1].n_rows, 10348242);
}

TEST(MakeLayout, OffsetsRunOverThePrimes) {
  const auto layout = make_layout(demo_config());
  ASSERT_TRUE(layout.has_value());
  for (const EngramLayer& layer : layout->layers) {
    std::int64_t next = 0;
    for (std::size_t column = 0; column < layer.primes.size(); ++column) {
      EXPECT_EQ(layer.offsets[column], next);
      next += layer.primes[column];
    }
    EXPECT_EQ(layer.n_rows, next);
  }
}

std::string refusal(const EngramLayoutConfig& config) {
  const auto layout = make_layout(config);
  return layout.has_value() ? "accepted" : layout.error().message;
}

TEST(MakeLayout, RefusesWhatCannotBeMeant) {
  const auto with = [](auto change) {
    EngramLayoutConfig config = demo_config();
    change(config);
    return refusal(config);
  };
  EXPECT_EQ(refusal(demo_config()), "accepted");
  EXPECT_THAT(with([](auto& c) { c.layer_ids = {}; }), HasSubstr("layer_ids"));
  EXPECT_THAT(with([](auto& c) { c.layer_ids = {3, 1, 3}; }), HasSubstr("layer 3 twice"));
  EXPECT_THAT(with([](auto& c) { c.layer_ids = {-1}; }), HasSubstr("got -1"));
  for (const int size : {-1, 0, 1, 17, std::numeric_limits<int>::max()}) {
    EXPECT_THAT(with([&](auto& c) { c.max_ngram_size = size; }), HasSubstr("max_ngram_size"));
  }
  for (const int heads : {-1, 0, 65}) {
    EXPECT_THAT(with([&](auto& c) { c.n_heads = heads; }), HasSubstr("n_heads"));
  }
  for (const int width : {0, 65537}) {
    EXPECT_THAT(with([&](auto& c) { c.head_dim = width; }), HasSubstr("head_dim"));
  }
  EXPECT_THAT(with([](auto& c) { c.vocab_size = {646400}; }), HasSubstr("expected 2 numbers"));
  EXPECT_THAT(with([](auto& c) { c.vocab_size[1] = std::numeric_limits<std::int64_t>::max(); }),
              HasSubstr("2 .. 2^40"));
  EXPECT_THAT(with([](auto& c) { c.hashed_vocab_size = 0; }), HasSubstr("hashed_vocab_size"));
  EXPECT_THAT(with([](auto& c) {
                c.variant = EngramVariant::kPeft;
                c.layer_ids = {14, 1};
              }),
              HasSubstr("rising order"));
  EXPECT_THAT(with([](auto& c) { c.variant = EngramVariant::kQwen4Exp; }),
              HasSubstr("eos_token_ids"));
}

TEST(MakeLayout, StoredNumbersMustEqualTheDerived) {
  EngramLayoutConfig config = demo_config();
  const auto derived = make_layout(config);
  ASSERT_TRUE(derived.has_value());
  for (const EngramLayer& layer : derived->layers) {
    config.multipliers.push_back(layer.multipliers);
    config.primes.push_back({{layer.primes.begin(), layer.primes.begin() + 8},
                             {layer.primes.begin() + 8, layer.primes.end()}});
  }
  EXPECT_EQ(refusal(config), "accepted");
  EngramLayoutConfig other = config;
  other.multipliers[1][2] += 2;
  EXPECT_THAT(refusal(other), HasSubstr("multipliers of layer 15 differ"));
  other = config;
  other.primes[0][1][7] += 2;
  EXPECT_THAT(refusal(other), HasSubstr("primes of layer 1 differ"));
  other = config;
  other.primes.pop_back();
  EXPECT_THAT(refusal(other), HasSubstr("primes of layer 15"));
  other = config;
  other.multipliers[0].pop_back();
  EXPECT_THAT(refusal(other), HasSubstr("multipliers of layer 1"));
}

TEST(MakeLayout, QwensStoredMultipliersReplaceTheDerived) {
  EngramLayoutConfig config = demo_config();
  config.variant = EngramVariant::kQwen4Exp;
  config.eos_token_ids = {5};
  config.multipliers = {{1, 3, 5}, {7, 9, 11}};
  const auto layout = make_layout(config);
  ASSERT_TRUE(layout.has_value());
  EXPECT_THAT(layout->layers[1].multipliers, ElementsAre(7, 9, 11));
}

}  // namespace
}  // namespace engramd::engine
