// Editing the bundled model's tables while it computes: what a pass sees, what stays cached, and
// that everything computed after an edit equals, bit for bit, what a process sees that knew it
// always.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/runtime/table_editing_fixture.h"

namespace engramd::engine::testing {
namespace {

using kernels::kBlockTokens;

TEST_F(TableEditingTest, ACachedPrefixIsKeptUpToTheFirstPositionThatReadsAChangedRow) {
  Step step(model_, *backend_, cache_);
  PrefixCache prefixes(cache_, step);
  const std::vector<TokenId> ids = prompt();
  std::vector<TokenId> other = ids;
  std::reverse(other.begin(), other.end());
  std::vector<float> before;
  for (const auto& tokens : {ids, other}) {
    auto first = sequence(cache_, tokens);
    ASSERT_TRUE(first->reserve(first->size()));
    before = logits(step, *first);
    prefixes.keep(*first);
  }
  const std::int64_t n_whole = static_cast<std::int64_t>(ids.size()) / kBlockTokens;
  ASSERT_EQ(prefixes.n_blocks(), 2 * n_whole);

  // The N-gram that ends at position 70 and, of all positions, only there.
  std::vector<TokenId> edited = ids;
  edited[69] = 900;
  edited[70] = 901;
  auto third = sequence(cache_, edited);
  ASSERT_TRUE(third->reserve(third->size()));
  const std::vector<float> unedited = logits(step, *third);
  prefixes.keep(*third);
  third.reset();
  commit(request({900, 901}, EditOperation::kScale, -3.0F));

  const auto adopted = [&](const std::vector<TokenId>& tokens) {
    auto made = sequence(cache_, tokens);
    prefixes.adopt_into(*made, tables_->view(), made->size() - 1);
    return made;
  };
  EXPECT_EQ(adopted(ids)->n_cached(), n_whole * kBlockTokens) << "another prefix stays";
  EXPECT_EQ(adopted(other)->n_cached(), n_whole * kBlockTokens) << "another prefix stays";
  auto again = adopted(edited);
  EXPECT_EQ(again->n_cached(), 2 * kBlockTokens) << "the blocks before position 70";
  ASSERT_TRUE(again->reserve(again->size()));
  const std::vector<float> after = logits(step, *again);
  EXPECT_NE(after, unedited);
  EXPECT_EQ(after, fresh_logits(edited));

  const auto undone = (*tables_->store())->rollback(1, "test", "");
  ASSERT_TRUE(undone.has_value());
  auto restored = sequence(cache_, edited);
  ASSERT_TRUE(restored->reserve(restored->size()));
  EXPECT_EQ(logits(step, *restored), unedited) << "undoing an edit restores every bit";
}

TEST_F(TableEditingTest, ARunningSequenceIsCutAtTheFirstChangedPosition) {
  Step step(model_, *backend_, cache_);
  PrefixCache prefixes(cache_, step);
  std::vector<TokenId> ids = prompt();
  ids[100] = 900;
  ids[101] = 901;
  auto running = sequence(cache_, ids);
  ASSERT_TRUE(running->reserve(running->size()));
  logits(step, *running);
  const std::vector<SequenceSlice> nothing;
  prefixes.keep(*running);  // as when it shares its blocks with one that has finished
  commit(request({900, 901}, EditOperation::kZero));
  prefixes.refresh(*running, tables_->view());
  // Block 3 holds positions 96..127; it was shared, so it is computed anew as a whole.
  EXPECT_EQ(running->n_cached(), 96 + 5) << "held alone once the prefix cache has let go";
  EXPECT_EQ(prefixes.n_blocks(), 3);
  EXPECT_EQ(logits(step, *running), fresh_logits(ids));
}

TEST_F(TableEditingTest, AnExactNgramChangesAloneAndABucketChangesForAllWhoShareIt) {
  const std::vector<TokenId> ids = prompt();
  const std::vector<float> before = fresh_logits(ids);
  commit(request({900, 901}, EditOperation::kZero));  // does not occur in the prompt
  EXPECT_EQ(fresh_logits(ids), before);
  EditRequest bucket = request({ids[148], ids[149]}, EditOperation::kScale, 2.0F);
  bucket.scope = EditScope::kRow;
  commit(bucket);
  EXPECT_NE(fresh_logits(ids), before);
}

TEST_F(TableEditingTest, EditsAreThereAfterReopening) {
  const std::vector<TokenId> ids = prompt();
  commit(request({ids[148], ids[149]}, EditOperation::kScale, 2.0F));
  const std::vector<float> edited = fresh_logits(ids);
  reopen();
  EXPECT_EQ(fresh_logits(ids), edited);
}

TEST_F(TableEditingTest, AnotherProcessThatHoldsTheEditsIsNamedAndTheBaseIsServed) {
  const std::vector<TokenId> ids = prompt();
  const std::vector<float> before = fresh_logits(ids);
  commit(request({ids[148], ids[149]}, EditOperation::kZero));
  LiveTablesOptions options;
  options.edits_file = folder_ / "edits";
  auto second =
      LiveTables::open(model_.layout, sha256_hex(model_.token_map), model_.engram_rows(), options);
  ASSERT_TRUE(second.has_value()) << second.error().message;
  EXPECT_NE((*second)->edits_error().find("in use by another process"), std::string::npos);
  EXPECT_EQ((*second)->view().edits->number(), 0U);
  EXPECT_FALSE((*second)->store().has_value());
}

TEST_F(TableEditingTest, DamagedEditsAreRefusedAtTheDoor) {
  commit(request({900, 901}, EditOperation::kZero));
  editor_.reset();
  tables_.reset();
  std::filesystem::resize_file(folder_ / "edits", 4096);
  LiveTablesOptions options;
  options.edits_file = folder_ / "edits";
  const auto opened =
      LiveTables::open(model_.layout, sha256_hex(model_.token_map), model_.engram_rows(), options);
  ASSERT_TRUE(opened.has_error());
  EXPECT_NE(opened.error().message.find("edit log"), std::string::npos) << opened.error().message;
}

TEST_F(TableEditingTest, LookingMakesNoFile) {
  RowSelector where;
  where.text = " capital of";
  const auto cells = editor_->get(where, std::nullopt);
  ASSERT_TRUE(cells.has_value()) << cells.error().message;
  const auto n =
      static_cast<std::size_t>(model_.layout.config.n_heads) * model_.layout.layers.size();
  EXPECT_EQ(cells->size(), n);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "edits"));
}

TEST_F(TableEditingTest, ADryRunNamesTheNgramsThatShareARow) {
  EditRequest edit;
  edit.where.text = " capital of";
  edit.where.layer = model_.layout.layers[0].layer_id;
  edit.where.head = 1;
  edit.scope = EditScope::kRow;
  edit.operation = EditOperation::kZero;
  const auto outcome = editor_->edit({edit}, "test", "", true);
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  EXPECT_EQ(outcome->stored.transaction.number, 0);
  ASSERT_EQ(outcome->shared.size(), 1U);
  const SharedRow& row = outcome->shared[0];
  EXPECT_GE(row.n_listed, static_cast<std::int64_t>(row.readers.size()));
  ASSERT_FALSE(row.readers.empty());
  EXPECT_TRUE(std::any_of(row.readers.begin(), row.readers.end(), [](const auto& reader) {
    return reader.is_selected && reader.text == " capital of";
  }));
  // Against a second way to find them: every listed N-gram hashed by the addresser itself.
  const auto list = NgramList::open(bundled().model_folder + "/ngrams.safetensors", model_.layout);
  ASSERT_TRUE(list.has_value());
  const Addresser addresser(model_.layout, model_.pad_class());
  std::vector<std::int64_t> rows(static_cast<std::size_t>(model_.layout.n_columns()));
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < list->size(2); ++i) {
    addresser.rows(0, list->at(2, i).classes, 1, 2, rows.data());
    n += rows[1] == row.cell.row ? 1 : 0;
  }
  EXPECT_EQ(row.n_listed, n);
  EXPECT_EQ(tables_->view().edits->number(), 0U) << "nothing was stored";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "edits"));
}

TEST_F(TableEditingTest, CompareAndSwapRefusesWhatChangedMeanwhile) {
  EditRequest edit = request({900, 901}, EditOperation::kScale, 2.0F);
  const auto images = editor_->get(edit.where, std::nullopt);
  std::string hex;
  for (const CellValue& value : *images) {
    for (const std::uint8_t byte : value.stored.image) {
      hex += "0123456789ABCDEF"[byte >> 4];
      hex += "0123456789ABCDEF"[byte & 15];
    }
  }
  edit.expected_image = hex;
  commit(edit);
  const auto again = editor_->edit({edit}, "test", "", false);
  ASSERT_TRUE(again.has_error());
  EXPECT_NE(again.error().message.find("does not hold the expected image"), std::string::npos);
}

TEST_F(TableEditingTest, RequestsThatMeanNothingAreRefusedWithWhatWasExpected) {
  const auto message = [&](EditRequest edit) {
    const auto outcome = editor_->edit({edit}, "test", "", false);
    return outcome.has_error() ? outcome.error().message : std::string("accepted");
  };
  EditRequest edit;
  EXPECT_NE(message(edit).find("exactly one of text, tokens and row"), std::string::npos);
  edit.where.text = "one word too many to be an N-gram";
  EXPECT_NE(message(edit).find("2 to 3 tokens"), std::string::npos) << message(edit);
  edit.where.text = "";
  EXPECT_NE(message(edit).find("got 0"), std::string::npos) << message(edit);
  edit = request({900, 901}, EditOperation::kSet);
  edit.values = {1.0F, 2.0F};
  EXPECT_NE(message(edit).find("values: expected 32 numbers for each of"), std::string::npos)
      << message(edit);
  edit = request({900, 901}, EditOperation::kCopy);
  EXPECT_NE(message(edit).find("from: expected"), std::string::npos);
  edit.from = RowSelector{};
  edit.from->tokens = std::vector<TokenId>{900, 901, 902};
  EXPECT_EQ(message(edit), "accepted") << "orders read as many rows here";
  edit = request({900, 99999999}, EditOperation::kZero);
  EXPECT_NE(message(edit).find("99999999"), std::string::npos) << message(edit);
  edit = EditRequest{};
  edit.where.row = 0;
  EXPECT_NE(message(edit).find("with a layer"), std::string::npos);
  edit.where.layer = 0;
  EXPECT_NE(message(edit).find("has no Engram"), std::string::npos);
  edit.where.layer = model_.layout.layers[0].layer_id;
  edit.where.row = std::int64_t{1} << 40;
  EXPECT_NE(message(edit).find("row: expected 0 to"), std::string::npos);
  edit.where.row = 0;
  edit.scope = EditScope::kNgram;
  EXPECT_NE(message(edit).find("scope ngram"), std::string::npos);
}

TEST(LiveEngineTest, AnEditBetweenTwoTokensIsSeenByTheNextAndTheAnswerIsWhole) {
  TemporaryFolder folder;
  LocalEngineOptions options = bundled();
  options.tables.edits_file = folder / "edits";
  auto engine = open_engine(options);
  const std::string question = "What is the capital of France?";
  const std::string before = start(*engine, ask(question)).get()->text;
  // Every row of the N-grams in the question goes, one edit after the other, while chats run.
  const auto ids = *engine->encode_messages({{"user", question}});
  std::vector<std::future<Result<ChatResult>>> running;
  for (std::size_t i = 1; i < ids.size(); ++i) {
    running.push_back(start(*engine, ask(question)));
    for (const std::size_t order : {2U, 3U}) {
      if (i + 1 < order) continue;
      EditRequest edit;
      edit.where.tokens.emplace(ids.begin() + static_cast<std::ptrdiff_t>(i + 1 - order),
                                ids.begin() + static_cast<std::ptrdiff_t>(i + 1));
      edit.operation = EditOperation::kZero;
      const auto done = engine->editor().edit({edit}, "test", "", false);
      ASSERT_TRUE(done.has_value()) << done.error().message;
    }
  }
  for (auto& answer : running) EXPECT_TRUE(answer.get().has_value());
  const Result<ChatResult> edited = start(*engine, ask(question)).get();
  // A fresh process on the same edits answers the same, token for token.
  engine.reset();
  auto second = open_engine(options);
  EXPECT_EQ(start(*second, ask(question)).get()->text, edited->text);
  EXPECT_NE(edited->text, before) << "the answer rested on those N-grams";
}

}  // namespace
}  // namespace engramd::engine::testing
