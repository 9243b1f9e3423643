// All hard strings and streams of tests/data/tokenizers, against what the Hugging Face library made
// of them.
#include <gtest/gtest.h>

#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/stream_decoder.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/tokenizer_json.h"
#include "tests/engine/tokenizer/fixtures.h"

namespace engramd::engine::testing {
namespace {

using nlohmann::json;

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    json_ = tokenizer_json(GetParam());
    if (!json_) GTEST_SKIP() << kLlamaMissing;
    auto loaded = Tokenizer::from_json(*json_);
    ASSERT_TRUE(loaded) << loaded.error().message;
    tokenizer_.emplace(std::move(*loaded));
    golden_ = read_gzip_json("encodings/" + GetParam() + ".json.gz");
    strings_ = hard_strings();
    ASSERT_EQ(strings_.size(), 675u);
  }

  std::optional<std::string> json_;
  std::optional<Tokenizer> tokenizer_;
  json golden_;
  std::vector<std::string> strings_;
};

TEST_P(GoldenTest, VocabularyAndPrefix) {
  EXPECT_EQ(tokenizer_->vocab_size(), golden_.at("tokenizer").at("vocabulary").get<std::int64_t>());
  EXPECT_EQ(tokenizer_->prefix_with_special(),
            golden_.at("prefix_with_special").get<std::vector<TokenId>>());
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    ASSERT_EQ(tokenizer_->token_to_id(tokenizer_->raw_token(id)), id);
  }
}

TEST_P(GoldenTest, EncodesToTheLibrarysIds) {
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    const auto ids = tokenizer_->encode(strings_[i]);
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(*ids, golden_.at("ids").at(i).get<std::vector<TokenId>>()) << strings_[i];
  }
}

TEST_P(GoldenTest, DecodesToTheLibrarysText) {
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    const auto ids = golden_.at("ids").at(i).get<std::vector<TokenId>>();
    const json& decoded = golden_.at("decoded").at(i);
    const std::string expected = decoded.is_null() ? strings_[i] : decoded.get<std::string>();
    EXPECT_EQ(*tokenizer_->decode(ids), expected);
    const json& skipped = golden_.at("decoded_skip_special").at(i);
    EXPECT_EQ(*tokenizer_->decode(ids, true),
              skipped.is_null() ? expected : skipped.get<std::string>());
  }
}

TEST_P(GoldenTest, OffsetsAreTheLibrarysInBytes) {
  for (const auto& [index, golden] : golden_.at("offsets").items()) {
    const std::string& text = strings_.at(std::stoul(index));
    const auto positions = code_point_positions(text);
    const auto encoding = tokenizer_->encode_with_offsets(text);
    ASSERT_TRUE(encoding);
    ASSERT_EQ(encoding->offsets.size(), golden.size());
    for (std::size_t i = 0; i < golden.size(); ++i) {
      EXPECT_EQ(encoding->offsets[i].begin, positions.at(golden[i][0])) << text << " token " << i;
      EXPECT_EQ(encoding->offsets[i].end, positions.at(golden[i][1])) << text << " token " << i;
    }
  }
}

TEST_P(GoldenTest, PiecesAreTheLibrarys) {
  const auto spec = parse_tokenizer_json(*json_);
  ASSERT_TRUE(spec);
  const auto pre_tokenizer = PreTokenizer::create(spec->split_rules);
  ASSERT_TRUE(pre_tokenizer);
  PreTokenizer::Scratch scratch;
  for (const auto& [index, golden] : golden_.at("pieces").items()) {
    std::string text = strings_.at(std::stoul(index));
    if (spec->normalize_nfc) text = NfcNormalizer().normalize(text);
    const auto positions = code_point_positions(text);
    std::vector<Span> expected;
    for (const json& span : golden) {
      expected.push_back({static_cast<std::uint32_t>(positions.at(span[0])),
                          static_cast<std::uint32_t>(positions.at(span[1]))});
    }
    std::vector<Span> pieces;
    ASSERT_TRUE(pre_tokenizer->split(text, scratch, pieces));
    EXPECT_EQ(pieces, expected) << text;
  }
}

TEST_P(GoldenTest, StreamsWholeCharacters) {
  const json streams = read_gzip_json("streaming.json.gz");
  for (const json& golden : streams.at(GetParam())) {
    StreamDecoder decoder(*tokenizer_);
    const auto ids = golden.at("ids").get<std::vector<TokenId>>();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(decoder.push(ids[i]), golden.at("stream").at(i)) << golden.at("name");
      const std::vector<TokenId> prefix(ids.begin(), ids.begin() + static_cast<long>(i) + 1);
      EXPECT_EQ(*tokenizer_->decode(prefix), golden.at("prefixes").at(i)) << golden.at("name");
    }
    EXPECT_EQ(decoder.flush(), golden.at("flush")) << golden.at("name");
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, ::testing::ValuesIn(kTokenizerNames),
                         [](const auto& suite) { return suite.param; });

}  // namespace
}  // namespace engramd::engine::testing
