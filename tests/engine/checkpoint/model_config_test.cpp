#include "engine/checkpoint/model_config.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace engramd::engine {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::string bundled(const std::string& file) {
  std::ifstream in(std::string(ENGRAMD_SOURCE_DIR) + "/install/models/engram-nano/" + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

json bundled_config() {
  return json::parse(bundled("config.json"));
}

// The error of the bundled configuration with one key replaced.
std::string error_with(const std::string& key, const json& value) {
  json config = bundled_config();
  config[key] = value;
  const auto parsed = parse_model_config(config.dump());
  return parsed ? "accepted" : parsed.error().message;
}

TEST(ModelConfig, ReadsTheBundledModel) {
  const auto config = parse_model_config(bundled("config.json"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->vocab_size, 10240);
  EXPECT_EQ(config->hidden_size, 256);
  EXPECT_EQ(config->num_hidden_layers, 6);
  EXPECT_EQ(config->qk_rope_head_dim, 16);
  EXPECT_EQ(config->num_experts_per_tok, 4);
  EXPECT_EQ(config->hc_mult, 2);
  EXPECT_EQ(config->rms_norm_eps, 1e-6);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(1));
  ASSERT_TRUE(config->engram);
  EXPECT_EQ(config->engram->dilation, 3);
  EXPECT_THAT(config->engram->layout.layer_ids, ElementsAre(1, 3));
  EXPECT_EQ(config->engram->layout.multipliers[1][1], 898487400893949u);
  EXPECT_EQ(config->engram->layout.primes[0][1][3], 20071);
}

TEST(ModelConfig, EveryRequiredKeyIsMissedByName) {
  const json config = bundled_config();
  for (const char* key : {"model_type",
                          "vocab_size",
                          "hidden_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "qk_nope_head_dim",
                          "qk_rope_head_dim",
                          "v_head_dim",
                          "kv_lora_rank",
                          "rope_theta",
                          "max_position_embeddings",
                          "rms_norm_eps",
                          "tie_word_embeddings",
                          "first_k_dense_replace",
                          "intermediate_size",
                          "moe_intermediate_size",
                          "n_routed_experts",
                          "num_experts_per_tok",
                          "n_shared_experts",
                          "norm_topk_prob",
                          "routed_scaling_factor",
                          "hc_mult",
                          "hc_sinkhorn_iters",
                          "hc_eps",
                          "engram_max_ngram_size",
                          "engram_n_heads",
                          "engram_head_dim",
                          "engram_vocab_size",
                          "engram_pad_token_id",
                          "engram_seed",
                          "engram_compressed_vocab_size",
                          "engram_kernel_size",
                          "engram_dilation"}) {
    json without = config;
    ASSERT_EQ(without.erase(key), 1u) << key;
    const auto parsed = parse_model_config(without.dump());
    ASSERT_FALSE(parsed) << key;
    EXPECT_THAT(parsed.error().message, HasSubstr(std::string(key) + " is missing, expected "));
  }
}

TEST(ModelConfig, EverySizeIsBoundedAndTyped) {
  const json config = bundled_config();
  for (const auto& [key, value] : config.items()) {
    if (!value.is_number_integer()) continue;
    for (const json& bad :
         {json(std::to_string(value.get<int>())), json(1.0), json(-1), json(std::uint64_t{1} << 62),
          json(-1e300), json(true), json::array()}) {
      if (key == "n_group" || key == "topk_group") continue;
      if (key == "engram_seed" && bad.is_number_unsigned()) continue;
      EXPECT_THAT(error_with(key, bad), HasSubstr(key + ": expected ")) << bad;
    }
  }
}

TEST(ModelConfig, RefusesWhatItDoesNotCompute) {
  EXPECT_THAT(error_with("model_type", "llama"),
              "config.json: model_type: expected engram_moe (the supported type), got the string "
              "\"llama\"");
  EXPECT_THAT(error_with("q_lora_rank", 64), HasSubstr("q_lora_rank: expected null, got 64"));
  EXPECT_THAT(error_with("rope_scaling", {{"factor", 0}}), HasSubstr("rope_scaling"));
  EXPECT_THAT(error_with("quantization_config", json::object()), HasSubstr("quantization_config"));
  EXPECT_THAT(error_with("n_group", 2), HasSubstr("n_group: expected 1, got 2"));
  EXPECT_THAT(error_with("topk_group", 8), HasSubstr("topk_group: expected 1, got 8"));
  EXPECT_THAT(error_with("scoring_func", "softmax"), HasSubstr("scoring_func"));
  EXPECT_THAT(error_with("topk_method", "greedy"), HasSubstr("topk_method"));
  EXPECT_THAT(error_with("tie_word_embeddings", false), HasSubstr("tie_word_embeddings"));
  EXPECT_THAT(error_with("num_key_value_heads", 8), HasSubstr("expected 4, got 8"));
  EXPECT_THAT(error_with("qk_rope_head_dim", 15), HasSubstr("even"));
  EXPECT_THAT(error_with("num_experts_per_tok", 17), HasSubstr("1 .. 16, got 17"));
  EXPECT_THAT(error_with("first_k_dense_replace", 7), HasSubstr("0 .. 6, got 7"));
  EXPECT_THAT(error_with("rope_theta", "10000"), HasSubstr("a number"));
  EXPECT_THAT(error_with("eos_token_id", 10240), HasSubstr("0 .. 10239, got 10240"));
  EXPECT_THAT(error_with("eos_token_id", json::array()), HasSubstr("eos_token_id"));
  EXPECT_THAT(error_with("num_hidden_layers", 1'000'000'000), HasSubstr("num_hidden_layers"));
}

TEST(ModelConfig, AcceptsWhatDoesNotMatter) {
  EXPECT_EQ(error_with("auto_map", {{"AutoModel", "evil.py"}}), "accepted");
  EXPECT_EQ(error_with("rope_scaling", nullptr), "accepted");
  EXPECT_EQ(error_with("num_key_value_heads", 4), "accepted");
  EXPECT_EQ(error_with("rope_theta", 10000), "accepted");
  EXPECT_EQ(error_with("eos_token_id", {1, 2}), "accepted");
  EXPECT_EQ(error_with("bos_token_id", nullptr), "accepted");
  json plain = bundled_config();
  plain.erase("engram_layer_ids");
  const auto config = parse_model_config(plain.dump());
  ASSERT_TRUE(config);
  EXPECT_FALSE(config->engram);
}

TEST(ModelConfig, EngramNumbersStayExactAndAreCompared) {
  EXPECT_THAT(error_with("engram_layer_ids", {1, 6}), HasSubstr("engram_layer_ids"));
  EXPECT_THAT(error_with("engram_layer_ids", {1, 1}), HasSubstr("each layer once"));
  EXPECT_THAT(error_with("engram_vocab_size", {20011}), HasSubstr("an array of 2 integers"));
  EXPECT_THAT(error_with("engram_max_ngram_size", 1000), HasSubstr("2 .. 16"));
  EXPECT_THAT(error_with("engram_vocab_size", {20011, std::int64_t{1} << 60}),
              HasSubstr("engram_vocab_size"));
  EXPECT_THAT(error_with("engram_compressed_vocab_size", 9007), HasSubstr("differ"));

  json multipliers = bundled_config()["engram_multipliers"];
  multipliers["3"][1] = multipliers["3"][1].get<std::int64_t>() + 1;
  EXPECT_THAT(error_with("engram_multipliers", multipliers),
              HasSubstr("stored multipliers of layer 3 differ"));
  multipliers["3"][1] = 898487400893949.0;
  EXPECT_THAT(error_with("engram_multipliers", multipliers), HasSubstr("positive integers"));
  multipliers.erase("3");
  EXPECT_THAT(error_with("engram_multipliers", multipliers), HasSubstr("one entry per layer"));
  json primes = bundled_config()["engram_primes"];
  primes["1"][0][0] = 20021;
  EXPECT_THAT(error_with("engram_primes", primes), HasSubstr("stored primes of layer 1 differ"));
  primes["1"] = 5;
  EXPECT_THAT(error_with("engram_primes", primes), HasSubstr("engram_primes: expected arrays"));
}

TEST(ModelConfig, TextThatIsNoJsonObject) {
  for (const char* text : {"", "[]", "null", "{\"model_type\":\"a\",\"model_type\":\"b\"}",
                           "{\"a\":1e999}", "{\"a\":1}x", "{\"a\":\"\xFF\"}"}) {
    const auto parsed = parse_model_config(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("config.json"));
  }
  EXPECT_THAT(parse_model_config(std::string(50'000, '[')).error().message,
              HasSubstr("nested too deeply"));
}

TEST(GenerationConfig, ReadsDefaultsAndRefusesNonsense) {
  const auto config = parse_generation_config(bundled("generation_config.json"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->do_sample);
  EXPECT_EQ(config->max_new_tokens, 256);
  EXPECT_FALSE(config->temperature);
  const auto sampled = parse_generation_config(
      R"({"do_sample":true,"temperature":0.6,"top_p":1,"top_k":null,"max_new_tokens":7})");
  ASSERT_TRUE(sampled) << sampled.error().message;
  EXPECT_TRUE(sampled->do_sample);
  EXPECT_EQ(sampled->temperature, 0.6);
  EXPECT_EQ(sampled->top_p, 1.0);
  EXPECT_FALSE(sampled->top_k);
  for (const char* bad :
       {R"({"temperature":"0.6"})", R"({"temperature":-1})", R"({"top_p":1.5})", R"({"top_p":0})",
        R"({"top_k":2.0})", R"({"max_new_tokens":0})", R"({"do_sample":1})", "[]"}) {
    EXPECT_FALSE(parse_generation_config(bad)) << bad;
  }
}

TEST(TokenizerConfig, ReadsStringsObjectsAndNamedTemplates) {
  const auto config = parse_tokenizer_config(bundled("tokenizer_config.json"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->chat_template, HasSubstr("add_generation_prompt"));
  EXPECT_EQ(config->pad_token, "<｜▁pad▁｜>");
  const auto objects = parse_tokenizer_config(
      R"({"bos_token":{"content":"<s>","lstrip":false},"eos_token":null,"chat_template":)"
      R"([{"name":"tool_use","template":"t"},{"name":"default","template":"d"}]})");
  ASSERT_TRUE(objects) << objects.error().message;
  EXPECT_EQ(objects->bos_token, "<s>");
  EXPECT_EQ(objects->eos_token, "");
  EXPECT_EQ(objects->chat_template, "d");
  for (const char* bad :
       {R"({"bos_token":1})", R"({"eos_token":{"content":1}})", R"({"pad_token":{}})",
        R"({"chat_template":{}})", R"({"chat_template":[{"name":"x","template":"t"}]})", "1"}) {
    EXPECT_FALSE(parse_tokenizer_config(bad)) << bad;
  }
}

}  // namespace
}  // namespace engramd::engine
