#include "engine/inspect/lookup_report.h"

#include <cmath>
#include <memory>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/safetensors.h"
#include "engine/engram/live_tables.h"

namespace engramd::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kModel = ENGRAMD_SOURCE_DIR "/install/models/engram-nano/";

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
    for (const char* layer : {"1", "3"}) {
      const std::string prefix = std::string("model.layers.") + layer + ".engram.embed";
      rows_.push_back(
          *CheckpointRows::bind(*checkpoint_, prefix, layout_.layers[rows_.size()].n_rows, 32));
    }
    tables_ = std::move(*LiveTables::open(layout_, "", rows_, {}));
    view_ = tables_->view();
    map_ = *token_map_from_tensor(stored->as<std::int32_t>(), stored->n_elements(), 9006);
  }
  std::vector<TokenId> ids_of(const std::string& golden_case) const {
    const auto ids = golden_->tensor(golden_case + ".input_ids");
    return {ids->as<std::int32_t>(), ids->as<std::int32_t>() + ids->n_elements()};
  }
  Result<LookupReport> report(const std::vector<TokenId>& ids, const TableView* tables,
                              const LookupOptions& options = {}) const {
    return make_lookup_report(ids, *tokenizer_, map_, addresser_, tables, options);
  }

  Result<Tokenizer> tokenizer_ = Tokenizer::from_file(kModel + "tokenizer.json");
  Result<SafetensorsFile> model_ = SafetensorsFile::open(kModel + "model.safetensors");
  Result<Checkpoint> checkpoint_ =
      Checkpoint::open(ENGRAMD_SOURCE_DIR "/install/models/engram-nano");
  std::vector<CheckpointRows> rows_;
  std::unique_ptr<LiveTables> tables_;
  TableView view_;
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

// engram-peft's N-grams of all orders begin where the widest begins: bigrams end a token earlier.
TEST_F(LookupReportTest, TextsOfPeftNgramsAreThoseThatItHashes) {
  EngramLayoutConfig config = layout_.config;
  config.variant = EngramVariant::kPeft;
  config.vocab_size = {4000, 4000};
  const EngramLayout peft = *make_layout(config);
  const Addresser addresser(peft, 2);
  const auto ids = *tokenizer_->encode("The capital of France", false);
  ASSERT_EQ(ids.size(), 4U);
  const auto result = make_lookup_report(ids, *tokenizer_, map_, addresser, nullptr, {});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const auto& ngrams = result->positions[3].ngrams;
  EXPECT_EQ(ngrams[0].text, " capital of");
  EXPECT_EQ(ngrams[1].text, " capital of France");
  EXPECT_FALSE(ngrams[0].bypassed);
  EXPECT_TRUE(result->positions[1].ngrams[0].bypassed) << "no trigram, no bigram";
  for (std::size_t order = 0; order < 2; ++order) {
    const int column = static_cast<int>(order) * peft.config.n_heads;
    EXPECT_EQ(result->positions[3].layers[0].cells[static_cast<std::size_t>(column)].row,
              row_of(peft.layers[0], column, mix_of(peft.layers[0], ngrams[order].classes)));
  }
}

TEST_F(LookupReportTest, RowsOwnersAndBypassesEqualTheGoldenOnes) {
  for (const std::string name : {"bos", "two", "capital_en", "capital_zh", "chat", "alexander",
                                 "inventions", "mixed", "specials", "long"}) {
    const auto result = report(ids_of(name), &view_);
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
  LookupOptions options;
  options.layer_ids = {3};
  const auto result = report(ids_of("capital_en"), &view_, options);
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->positions[0].layers.size(), 1u);
  EXPECT_EQ(result->positions[0].layers[0].layer_id, 3);
  const auto* rows = golden_->tensor("capital_en.engram_rows.3")->as<std::int32_t>();
  const LookupCell& cell = result->positions[0].layers[0].cells[0];
  EXPECT_EQ(cell.row, rows[0]);
  std::vector<float> values(32);
  kernels::decode_row(rows_[1].format(), rows_[1].resident(rows[0]), values.data());
  double square = 0;
  for (const float value : values) square += double{value} * value;
  EXPECT_DOUBLE_EQ(*cell.row_norm, std::sqrt(square));
  EXPECT_EQ(cell.edited_by, 0);
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
