#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "engine/checkpoint/model_config.h"
#include "engine/checkpoint/regular_file.h"
#include "engine/checkpoint/shard_index.h"
#include "engine/engram/layout.h"
#include "tests/engine/checkpoint/temporary_folder.h"

namespace engramd::engine {
namespace {

using kernels::DType;

int make_model(const std::string& flags) {
  const std::string command = std::string("'") + MAKE_MODEL + "' " + flags + " > /dev/null 2>&1";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string text_of(const std::filesystem::path& path) {
  const auto text = read_text_file(path.string(), 1 << 20);
  EXPECT_TRUE(text) << text.error().message;
  return text ? *text : "";
}

TEST(MakeModel, ATinyModelOpensAsACheckpoint) {
  TemporaryFolder folder;
  const std::string out = (folder.path / "tiny").string();
  ASSERT_EQ(make_model("--layers 3 --hidden-size 32 --heads 2 --experts 5 --experts-per-token 2 "
                       "--moe-intermediate-size 24 --intermediate-size 48 --engram-layers 0,2 "
                       "--engram-vocab-size 101 --engram-heads 2 --engram-head-dim 40 --hc-mult 3 "
                       "--seed 7 --out '" +
                       out + "'"),
            0);
  const auto config = parse_model_config(text_of(folder.path / "tiny/config.json"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->n_routed_experts, 5);
  ASSERT_TRUE(config->engram);
  EXPECT_EQ(config->engram->layout.multipliers.size(), 2u);  // stored, and equal to the derived
  const auto layout = make_layout(config->engram->layout);
  ASSERT_TRUE(layout);

  const auto checkpoint = Checkpoint::open(out);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_TRUE(checkpoint->tensor("model.embed_tokens.weight", DType::kBF16, {10240, 32}));
  EXPECT_TRUE(checkpoint->tensor("model.engram.token_map", DType::kI32, {10240}));
  EXPECT_TRUE(checkpoint->tensor("model.layers.0.mlp.gate_proj.weight", DType::kBF16, {48, 32}));
  EXPECT_TRUE(
      checkpoint->tensor("model.layers.2.mlp.experts.4.down_proj.weight", DType::kBF16, {32, 24}));
  const std::string engram = "model.layers.2.engram.";
  const std::int64_t n_rows = layout->layers[1].n_rows;
  EXPECT_TRUE(checkpoint->tensor(engram + "embed.weight", DType::kF8E4M3, {n_rows, 40}));
  EXPECT_TRUE(checkpoint->tensor(engram + "embed.scale", DType::kF8E8M0, {n_rows, 2}));
  EXPECT_TRUE(checkpoint->tensor(engram + "key_proj.weight", DType::kBF16, {3, 32, 160}));
  EXPECT_FALSE(checkpoint->has("model.layers.1.engram.embed.weight"));
  const auto base = checkpoint->tensor("model.layers.1.hc_ffn.base", DType::kF32, {15});
  ASSERT_TRUE(base) << base.error().message;
  EXPECT_FLOAT_EQ(base->as<float>()[0], std::log(0.5f));
  EXPECT_EQ(base->as<float>()[6 + 4], 4.0f);
  // fan_in^-0.5 within five per cent of the sample's spread
  const auto gate = checkpoint->tensor("model.layers.1.mlp.gate.weight", DType::kF32, {5, 32});
  ASSERT_TRUE(gate);
  double sum = 0;
  for (int i = 0; i < 160; ++i) sum += gate->as<float>()[i] * gate->as<float>()[i];
  EXPECT_NEAR(sum / 160, 1.0 / 32, 0.5 / 32);
}

TEST(MakeModel, SameSeedSameBytesOtherSeedOtherBytes) {
  TemporaryFolder folder;
  const std::string flags = "--layers 1 --hidden-size 16 --experts 4 --engram-layers none --out '";
  for (const char* run : {"a", "b", "c"}) {
    const std::string seed = std::string(run) == "c" ? "--seed 2 " : "--seed 1 ";
    ASSERT_EQ(make_model(seed + flags + (folder.path / run).string() + "'"), 0);
  }
  const auto weights = [&](const char* run) {
    return text_of(folder.path / run / "model.safetensors");
  };
  EXPECT_EQ(weights("a"), weights("b"));
  EXPECT_NE(weights("a"), weights("c"));
}

TEST(MakeModel, BadFlagsAreRefused) {
  TemporaryFolder folder;
  const std::string out = " --out '" + folder.path.string() + "'";
  EXPECT_EQ(make_model("--layers x" + out), 2);
  EXPECT_EQ(make_model("--unknown 1" + out), 2);
  EXPECT_EQ(make_model("--layers"), 2);
  EXPECT_EQ(make_model("--layers 3"), 2);
  EXPECT_EQ(make_model("--experts 2 --experts-per-token 3" + out), 1);
  EXPECT_EQ(make_model("--vocab-size 5" + out), 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

}  // namespace
}  // namespace engramd::engine
