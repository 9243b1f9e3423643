#include "engine/engram/layout_json.h"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engram/addresser.h"
#include "engine/engram/token_map.h"
#include "tests/engine/engram/gzip_file.h"

namespace engramd::engine {
namespace {

using ::testing::HasSubstr;

std::string demo_file() {
  std::ifstream file(ENGRAMD_TEST_DATA "/engram/engram_config.json");
  return {std::istreambuf_iterator<char>(file), {}};
}

// The demo's file with the first `from` replaced by `to`.
std::string edited(const std::string& from, const std::string& to) {
  std::string text = demo_file();
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ParseLayoutJson, ReadsTheDemosFile) {
  const auto config = parse_layout_json(demo_file());
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->variant, EngramVariant::kDemo);
  EXPECT_EQ(config->layer_ids, (std::vector<std::int64_t>{1, 15}));
  EXPECT_EQ(config->vocab_size, (std::vector<std::int64_t>{646400, 646400}));
  EXPECT_EQ(config->max_ngram_size, 3);
  EXPECT_EQ(config->n_heads, 8);
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->pad_token_id, 2);
  EXPECT_EQ(config->seed, 0);
  EXPECT_EQ(config->hashed_vocab_size, 0);
}

TEST(ParseLayoutJson, HashesATextWithoutAnyWeights) {
  auto config = parse_layout_json(demo_file());
  ASSERT_TRUE(config.has_value());
  const auto tokenizer = Tokenizer::from_json(
      test::read_gzip_file(ENGRAMD_TEST_DATA "/tokenizers/deepseek_v3.json.gz"));
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  const TokenMap map = build_token_map(*tokenizer);
  config->hashed_vocab_size = map.n_classes;
  const auto layout = make_layout(*config);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->layers[0].n_rows, 10344164);

  const auto ids = tokenizer->encode(
      "<｜begin▁of▁sentence｜>Only Alexander the Great could tame the horse Bucephalus.");
  ASSERT_TRUE(ids.has_value());
  ASSERT_EQ(ids->size(), 14u);
  const auto classes = compress_tokens(map, *ids);
  ASSERT_TRUE(classes.has_value());
  const Addresser addresser(*layout, map.classes[static_cast<std::size_t>(config->pad_token_id)]);
  std::vector<std::int64_t> rows(14 * 16);
  for (const int layer : {0, 1}) {
    addresser.rows(layer, *classes, 0, 14, rows.data());
    for (const std::int64_t row : rows) {
      EXPECT_GE(row, 0);
      EXPECT_LT(row, layout->layers[static_cast<std::size_t>(layer)].n_rows);
    }
  }
}

std::string refusal(const std::string& text) {
  const auto config = parse_layout_json(text);
  return config.has_value() ? "accepted" : config.error().message;
}

TEST(ParseLayoutJson, RefusalsNameTheKey) {
  EXPECT_EQ(refusal(""), "layout file: expected JSON text");
  EXPECT_THAT(refusal("[1]"), HasSubstr("object \"engram\""));
  EXPECT_THAT(refusal("{\"engram\": 3}"), HasSubstr("object \"engram\""));
  EXPECT_THAT(refusal("{\"engram\": {}}"), HasSubstr("engram.layer_ids: expected a value"));
  EXPECT_THAT(refusal(edited("\"seed\": 0", "\"seed\": \"0\"")),
              HasSubstr("engram.seed: expected a 64-bit integer, got \"0\""));
  EXPECT_THAT(refusal(edited("\"seed\": 0", "\"seed\": 1.5")), HasSubstr("engram.seed"));
  EXPECT_THAT(refusal(edited("\"seed\": 0", "\"seed\": 9223372036854775808")),
              HasSubstr("got 9223372036854775808"));
  EXPECT_THAT(refusal(edited("[1, 15]", "15")), HasSubstr("engram.layer_ids: expected a list"));
  EXPECT_THAT(refusal(edited("[646400, 646400]", "[646400, null]")),
              HasSubstr("engram.engram_vocab_size"));
  EXPECT_THAT(refusal(edited("\"max_ngram_size\": 3", "\"max_ngram_size\": 4294967298")),
              HasSubstr("engram.max_ngram_size"));
  EXPECT_THAT(refusal(edited("512", "511")), HasSubstr("511 for 8"));
  EXPECT_THAT(refusal(edited("\"n_head_per_ngram\": 8", "\"n_head_per_ngram\": 0")),
              HasSubstr("n_embed_per_ngram"));
  EXPECT_THAT(refusal(edited("\"kernel_size\"", "\"kernel_sizes\"")),
              HasSubstr("engram.\"kernel_sizes\": expected one of"));
}

std::string peft_file(const std::string& name) {
  std::ifstream file(ENGRAMD_TEST_DATA "/engram/module/" + name + ".config.json");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ParsePeftJson, ReadsWhatTheLibrarySaves) {
  const auto a = parse_peft_json(peft_file("peft_a"));
  ASSERT_TRUE(a.has_value()) << a.error().message;
  EXPECT_TRUE(a->compresses_tokens);
  EXPECT_EQ(a->config.variant, EngramVariant::kPeft);
  EXPECT_EQ(a->config.layer_ids, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(a->config.vocab_size, (std::vector<std::int64_t>{240, 400}));
  EXPECT_EQ(a->config.max_ngram_size, 3);
  EXPECT_EQ(a->config.n_heads, 4);
  EXPECT_EQ(a->config.head_dim, 8);
  EXPECT_EQ(a->config.pad_token_id, 2);
  EXPECT_EQ(a->config.hashed_vocab_size, 437);
  const auto b = parse_peft_json(peft_file("peft_b"));
  ASSERT_TRUE(b.has_value()) << b.error().message;
  EXPECT_FALSE(b->compresses_tokens);
  EXPECT_EQ(b->config.seed, 5);
  const auto layout = make_layout(b->config);
  ASSERT_TRUE(layout.has_value()) << layout.error().message;
  EXPECT_EQ(layout->layers[0].n_rows, 384);
}

TEST(ParsePeftJson, IsToldFromTheDemosFile) {
  EXPECT_TRUE(is_peft_json(peft_file("peft_a")));
  EXPECT_FALSE(is_peft_json(demo_file()));
  for (const char* text : {"", "[]", "{}", "{\"model_type\": 3}"}) EXPECT_FALSE(is_peft_json(text));
}

TEST(ParsePeftJson, SortsLayersAndRefusesOtherRules) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = peft_file("peft_a");
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return parse_peft_json(text.replace(at, from.size(), to));
  };
  const auto sorted = with("\"target_layers\": [\n    1,\n    2", "\"target_layers\": [2, 1");
  ASSERT_TRUE(sorted.has_value()) << sorted.error().message;
  EXPECT_EQ(sorted->config.layer_ids, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(with("\"deepseek\"", "\"qwen\"").error().message,
            "engram-peft config.json: engine: expected \"deepseek\", got \"qwen\"");
  EXPECT_THAT(with("\"max_ngram_size\": 3", "\"max_ngram_size\": 4").error().message,
              HasSubstr("ngram_sizes: expected 2 .. max_ngram_size, got [2,3]"));
  EXPECT_THAT(with("\"prime_sizes\": null", "\"prime_sizes\": [[7]]").error().message,
              HasSubstr("prime_sizes"));
  EXPECT_THAT(with("\"embedding_dim\": 64", "\"embedding_dim\": 63").error().message,
              HasSubstr("embedding_dim: expected a multiple of orders times n_head_per_ngram, got "
                        "63 for 8"));
  EXPECT_THAT(with("\"n_head_per_ngram\": 4", "\"n_head_per_ngram\": 0").error().message,
              HasSubstr("embedding_dim"));
  EXPECT_THAT(with("compression\": true", "compression\": 1").error().message,
              HasSubstr("enable_tokenizer_compression: expected true or false, got 1"));
  EXPECT_EQ(parse_peft_json("[1]").error().message,
            "engram-peft config.json: expected a JSON object");
}

}  // namespace
}  // namespace engramd::engine
