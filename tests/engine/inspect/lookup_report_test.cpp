#include "engine/inspect/lookup_report.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/safetensors.h"
#include "engine/engram/row_codec.h"

namespace engramd::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kModel = ENGRAMD_SOURCE_DIR "/install/models/engram-nano/";

// The bundled model's tables as the report sees them.
class BundledRows : public RowFacts {
 public:
  explicit BundledRows(const SafetensorsFile& file) : file_(file) {}

  bool occupied(int layer, std::int64_t row) const override { return owner(layer, row) != 0; }
  std::uint16_t owner(int layer, std::int64_t row) const override {
    return tensor(layer, "owner").as<std::uint16_t>()[row];
  }
  double norm(int layer, std::int64_t row) const override {
    std::vector<std::uint8_t> bytes(33);
    const auto* codes = tensor(layer, "weight").as<std::uint8_t>() + row * 32;
    std::copy(codes, codes + 32, bytes.begin());
    bytes[32] = tensor(layer, "scale").as<std::uint8_t>()[row];
    std::vector<float> values(32);
    decode_row(RowCodec::kF8E4M3E8M0, bytes.data(), values);
    double sum = 0;
    for (const float value : values) sum += double{value} * double{value};
    return std::sqrt(sum);
  }

 private:
  kernels::TensorView tensor(int layer, const std::string& name) const {
    return *file_.tensor("model.layers." + std::to_string(layer == 0 ? 1 : 3) + ".engram.embed." +
                         name);
  }
  const SafetensorsFile& file_;
};

EngramLayout bundled_layout() {
  EngramLayoutConfig config;
  config.variant = EngramVariant::kBundled;
  config.layer_ids = {1, 3};
  config.n_heads = 4;
  config.head_dim = 32;
  config.vocab_size = {20011, 20011};
  config.hashed_vocab_size = 9006;
  return *make_layout(config);
}

class LookupReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(tokenizer_.has_value()) << tokenizer_.error().message;
    ASSERT_TRUE(model_.has_value()) << model_.error().message;
    ASSERT_TRUE(golden_.has_value()) << golden_.error().message;
    const auto stored = model_->tensor("model.engram.token_map");
    ASSERT_TRUE(stored.has_value());
    map_ = *token_map_from_tensor(stored->as<std::int32_t>(), stored->n_elements(), 9006);
  }
  std::vector<TokenId> ids_of(const std::string& golden_case) const {
    const auto ids = golden_->tensor(golden_case + ".input_ids");
    return {ids->as<std::int32_t>(), ids->as<std::int32_t>() + ids->n_elements()};
  }
  Result<LookupReport> report(const std::vector<TokenId>& ids, const RowFacts* facts,
                              const LookupOptions& options = {}) const {
    return make_lookup_report(ids, *tokenizer_, map_, addresser_, facts, options);
  }

  Result<Tokenizer> tokenizer_ = Tokenizer::from_file(kModel + "tokenizer.json");
  Result<SafetensorsFile> model_ = SafetensorsFile::open(kModel + "model.safetensors");
  Result<SafetensorsFile> golden_ =
      SafetensorsFile::open(ENGRAMD_TEST_DATA "/engram-nano/activations.safetensors");
  const EngramLayout layout_ = bundled_layout();
  const Addresser addresser_{layout_, 2};
  TokenMap map_;
};

TEST_F(LookupReportTest, TheStoredMapIsTheOneThatTheTokenizerGives) {
  const TokenMap built = build_token_map(*tokenizer_);
  EXPECT_EQ(built.classes, map_.classes);
  EXPECT_EQ(built.n_classes, 9006);
}

TEST_F(LookupReportTest, RowsOwnersAndBypassesEqualTheGoldenOnes) {
  const BundledRows facts(*model_);
  for (const std::string name : {"bos", "two", "capital_en", "capital_zh", "chat", "alexander",
                                 "inventions", "mixed", "specials", "long"}) {
    const auto result = report(ids_of(name), &facts);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    std::int64_t n_owned = 0, n_bypassed = 0;
    for (std::size_t slot = 0; slot < 2; ++slot) {
      const std::string layer = slot == 0 ? ".1" : ".3";
      const auto* rows = golden_->tensor(name + ".engram_rows" + layer)->as<std::int32_t>();
      const auto* occupied = golden_->tensor(name + ".occupied" + layer)->as<std::uint8_t>();
      const auto* owned = golden_->tensor(name + ".owned" + layer)->as<std::uint8_t>();
      const auto* bypass = golden_->tensor(name + ".bypass" + layer)->as<std::uint8_t>();
      for (const LookupPosition& position : result->positions) {
        for (const LookupCell& cell : position.layers[slot].cells) {
          EXPECT_EQ(cell.row, *rows++) << name;
          EXPECT_EQ(cell.occupied, *occupied++ != 0) << name;
          EXPECT_EQ(cell.owned, *owned != 0) << name;
          n_owned += *owned++;
        }
        for (const LookupNgram& ngram : position.ngrams) {
          EXPECT_EQ(ngram.bypassed, *bypass != 0) << name;
          n_bypassed += 4 * *bypass++;
        }
      }
    }
    const auto n_lookups = static_cast<std::int64_t>(result->positions.size()) * 16;
    EXPECT_EQ(result->n_lookups, n_lookups);
    EXPECT_EQ(result->n_bypassed, n_bypassed);
    EXPECT_EQ(result->n_owned, n_owned);
    EXPECT_LE(result->n_owned, result->n_occupied);
    EXPECT_LE(result->n_occupied, n_lookups - n_bypassed);
    const double rate = n_lookups == n_bypassed ? 0
                                                : static_cast<double>(n_owned) /
                                                      static_cast<double>(n_lookups - n_bypassed);
    EXPECT_DOUBLE_EQ(result->hit_rate, rate);
  }
}

TEST_F(LookupReportTest, NgramsAreTextAndClassesOldestFirst) {
  const auto ids = tokenizer_->encode("the capital of");
  ASSERT_TRUE(ids.has_value());
  ASSERT_EQ(ids->size(), 3u);
  const auto result = report(*ids, nullptr);
  ASSERT_TRUE(result.has_value());
  const auto class_of = [&](std::size_t at) {
    return map_.classes[static_cast<std::size_t>((*ids)[at])];
  };
  const std::vector<LookupPosition>& positions = result->positions;
  EXPECT_EQ(positions[2].text, " of");
  EXPECT_EQ(positions[2].compressed_id, class_of(2));
  EXPECT_EQ(positions[2].ngrams[1].text, "the capital of");
  EXPECT_THAT(positions[2].ngrams[1].classes, ElementsAre(class_of(0), class_of(1), class_of(2)));
  EXPECT_FALSE(positions[2].ngrams[1].bypassed);
  EXPECT_EQ(positions[1].ngrams[0].text, "the capital");
  EXPECT_FALSE(positions[1].ngrams[0].bypassed);
  EXPECT_THAT(positions[1].ngrams[1].classes, ElementsAre(class_of(0), class_of(1)));
  EXPECT_TRUE(positions[1].ngrams[1].bypassed);
  EXPECT_THAT(positions[0].ngrams[0].classes, ElementsAre(class_of(0)));
  EXPECT_TRUE(positions[0].ngrams[0].bypassed);
}

TEST_F(LookupReportTest, ALayoutAloneGivesAddressesWithoutFacts) {
  const auto result = report(ids_of("capital_en"), nullptr);
  ASSERT_TRUE(result.has_value());
  EXPECT_GT(result->n_lookups, 0);
  EXPECT_EQ(result->hit_rate, 0);
  const LookupCell& cell = result->positions[4].layers[1].cells[7];
  EXPECT_EQ(cell.order, 3);
  EXPECT_EQ(cell.head, 3);
  EXPECT_FALSE(cell.occupied.has_value());
  EXPECT_FALSE(cell.owned.has_value());
  EXPECT_FALSE(cell.row_norm.has_value());
}

TEST_F(LookupReportTest, OnlyTheLayersAskedFor) {
  const BundledRows facts(*model_);
  LookupOptions options;
  options.layer_ids = {3};
  const auto result = report(ids_of("capital_en"), &facts, options);
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->positions[0].layers.size(), 1u);
  EXPECT_EQ(result->positions[0].layers[0].layer_id, 3);
  const auto* rows = golden_->tensor("capital_en.engram_rows.3")->as<std::int32_t>();
  const LookupCell& cell = result->positions[0].layers[0].cells[0];
  EXPECT_EQ(cell.row, rows[0]);
  EXPECT_DOUBLE_EQ(*cell.row_norm, facts.norm(1, rows[0]));
}

TEST_F(LookupReportTest, Refusals) {
  const auto refusal = [&](const std::vector<TokenId>& ids, const LookupOptions& options) {
    const auto result = report(ids, nullptr, options);
    return result.has_value() ? "accepted" : result.error().message;
  };
  LookupOptions no_such_layer;
  no_such_layer.layer_ids = {1, 2};
  EXPECT_EQ(refusal({5}, no_such_layer), "layer 2 has no Engram; expected one of: 1, 3");
  EXPECT_THAT(refusal({5, 10240}, {}), HasSubstr("expected 0 .. 10239, got 10240"));
  EXPECT_THAT(refusal({-1}, {}), HasSubstr("got -1"));
  LookupOptions short_only;
  short_only.positions_max = 2;
  EXPECT_EQ(refusal({5, 6}, short_only), "accepted");
  EXPECT_THAT(refusal({5, 6, 7}, short_only), HasSubstr("at most 2"));
}

}  // namespace
}  // namespace engramd::engine
