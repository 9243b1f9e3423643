#include "engine/engram/multipliers.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace engramd::engine {
namespace {

using Json = nlohmann::json;

const Json& golden() {
  static const Json parsed =
      Json::parse(std::ifstream(ENGRAMD_TEST_DATA "/engram/numpy_streams.json"));
  return parsed;
}

std::uint64_t number(const Json& decimal) {
  return std::stoull(decimal.get<std::string>());
}

TEST(NumpyGenerator, SeedSequenceAndRawWordsOfEverySeed) {
  ASSERT_EQ(golden()["streams"].size(), 8u);
  for (const Json& stream : golden()["streams"]) {
    const std::uint64_t seed = number(stream["seed"]);
    const auto words = numpy_seed_sequence(seed);
    for (std::size_t i = 0; i < words.size(); ++i) {
      EXPECT_EQ(words[i], number(stream["seed_sequence_words"][i])) << seed;
    }
    NumpyGenerator raw(seed);
    for (const Json& word : stream["raw64"]) EXPECT_EQ(raw.next64(), number(word)) << seed;
    NumpyGenerator doubles(seed);
    for (const Json& hex : stream["random_hex"]) {
      EXPECT_EQ(doubles.next_double(), std::strtod(hex.get<std::string>().c_str(), nullptr));
    }
  }
}

TEST(NumpyGenerator, EveryBoundTakesNumpysPath) {
  int n_bounds = 0;
  for (const Json& stream : golden()["streams"]) {
    for (const Json& draws : stream["integers"]) {
      NumpyGenerator generator(number(stream["seed"]));
      const std::uint64_t bound = number(draws["bound"]);
      for (const Json& value : draws["values"]) {
        ASSERT_EQ(static_cast<std::uint64_t>(generator.integer_below(bound)), number(value))
            << stream["seed"] << " below " << bound;
      }
      ++n_bounds;
    }
  }
  EXPECT_EQ(n_bounds, 8 * 29);
}

TEST(NumpyGenerator, TheKeptHalfSurvivesOtherDraws) {
  for (const Json& stream : golden()["streams"]) {
    NumpyGenerator generator(number(stream["seed"]));
    for (const Json& call : stream["mixed_calls"]) {
      for (const Json& value : call["values"]) {
        ASSERT_EQ(static_cast<std::uint64_t>(generator.integer_below(number(call["bound"]))),
                  number(value));
      }
    }
  }
}

// numpy promises no stream stability: these numbers were published on their own.
TEST(NumpyGenerator, PublishedSpots) {
  EXPECT_EQ(NumpyGenerator(12345).next_double(), 0.22733602246716966);
  EXPECT_EQ(NumpyGenerator(42).next_double(), 0.7739560485559633);
  EXPECT_EQ(numpy_seed_sequence(10007),
            (std::array<std::uint64_t, 4>{0x77d32a348ad70d07, 0x993ed609b84a4fa5,
                                          0xd5f972dec8698e49, 0x7d79ebaebcf148de}));
  EXPECT_EQ(NumpyGenerator(10007).next64(), 15187255322829266483u);
  EXPECT_EQ(numpy_seed_sequence(140098),
            (std::array<std::uint64_t, 4>{0xdb5869feeeccf2be, 0xad465727d9cf3645,
                                          0x5155d26378b6bab4, 0x9f9e49df66ff1c85}));
  EXPECT_EQ(NumpyGenerator(140098).next64(), 13420388419549774097u);
}

TEST(DemoMultipliers, EqualNumpysDraws) {
  for (const Json& entry : golden()["multipliers"]) {
    std::vector<std::uint64_t> expected;
    for (const Json& value : entry["values"]) expected.push_back(number(value));
    EXPECT_EQ(demo_multipliers(entry["seed"], entry["layer"], entry["compressed_size"],
                               static_cast<int>(expected.size())),
              expected);
  }
}

TEST(QwenMultipliers, EqualTheReleasedOnes) {
  EXPECT_EQ(qwen_multipliers(1234, 0, 248320, 3),
            (std::vector<std::uint64_t>{23703573157769, 20109073645365, 8052911324071}));
}

}  // namespace
}  // namespace engramd::engine
