#include "engine/engram/table_store.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/engram/table_fixture.h"

namespace engramd::engine {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class TableStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { reopen(); }
  void reopen() {
    store.reset();
    auto opened = tables.open(folder / "edits.sqlite");
    ASSERT_TRUE(opened) << opened.error().message;
    store = std::move(*opened);
  }
  StoredTransaction commit(std::vector<Edit> edits) {
    auto done = store->commit(std::move(edits), "test", "because");
    EXPECT_TRUE(done) << (done ? "" : done.error().message);
    return done ? *done : StoredTransaction{};
  }
  std::string refusal(std::vector<Edit> edits) {
    auto done = store->commit(std::move(edits), "test", "because");
    return done ? "committed" : done.error().message;
  }
  StoredRow get(const EditTarget& target) { return store->get(target).value(); }

  SmallTables tables;
  TemporaryFolder folder;
  std::unique_ptr<TableStore> store;
};

TEST_F(TableStoreTest, CommitShowsAtOnceAndAfterReopeningButNotInOlderEpochs) {
  const EpochPointer before = store->current();
  const auto base = tables.rows[1]->image(5);
  const auto done = commit({set_edit(row_target(1, 5), 2.0F)});
  EXPECT_EQ(done.transaction.number, 1);
  EXPECT_EQ(done.transaction.parent, 0);
  EXPECT_EQ(done.transaction.n_rows, 1);
  ASSERT_THAT(done.changes, SizeIs(1));
  EXPECT_EQ(done.changes[0].before.image, base);
  EXPECT_THAT(done.changes[0].after.values, Each(2.0F));
  EXPECT_EQ(before->row(1, 5).image, nullptr);
  EXPECT_EQ(before->number(), 0U);
  for (int opened = 0; opened < 2; ++opened, reopen()) {
    const EpochPointer epoch = store->current();
    EXPECT_EQ(epoch->number(), 1U);
    EXPECT_TRUE(epoch->has_edits(1));
    EXPECT_FALSE(epoch->has_edits(0));
    const RowEdit edit = epoch->row(1, 5);
    ASSERT_NE(edit.image, nullptr);
    EXPECT_EQ(edit.transaction, 1);
    EXPECT_EQ(std::memcmp(edit.image, done.changes[0].after.image.data(), 33), 0);
    EXPECT_EQ(epoch->row(0, 5).image, nullptr);
    EXPECT_EQ(epoch->row(1, 6).image, nullptr);
  }
}

TEST_F(TableStoreTest, ReportsWhatTheCodecStored) {
  const auto done = commit({set_edit(row_target(0, 1), 0.3F)});
  const float stored = done.changes[0].after.values[0];
  EXPECT_NE(stored, 0.3F);
  EXPECT_NEAR(stored, 0.3F, 0.02F);
  EXPECT_EQ(get(row_target(0, 1)).values, done.changes[0].after.values);
}

TEST_F(TableStoreTest, AddsScalesZeroesAndCopies) {
  const StoredRow old = get(row_target(0, 10));
  Edit add = set_edit(row_target(0, 10), 1.0F);
  add.operation = EditOperation::kAdd;
  Edit scale;
  scale.target = row_target(0, 11);
  scale.operation = EditOperation::kScale;
  scale.factor = 0.5F;
  Edit zero;
  zero.target = row_target(0, 12);
  zero.operation = EditOperation::kZero;
  Edit copy;
  copy.target = ngram_target(1, 3, 0xF234567812345678U);
  copy.operation = EditOperation::kCopy;
  copy.source = row_target(0, 10);
  const auto done = commit({copy, zero, scale, add});  // sorted by target: rows 10, 11, 12, N-gram
  ASSERT_THAT(done.changes, SizeIs(4));
  EXPECT_EQ(done.changes[0].after.values[0], old.values[0] + 1.0F);
  EXPECT_EQ(done.changes[1].after.values[3], done.changes[1].before.values[3] * 0.5F);
  EXPECT_THAT(done.changes[2].after.values, Each(0.0F));
  EXPECT_EQ(done.changes[3].after.image, old.image) << "sources are read as before the transaction";
}

TEST_F(TableStoreTest, NgramImageWinsOverItsRowAndFallsBackToIt) {
  const std::uint64_t mix = 12345678901234567U;
  const EditTarget ngram = ngram_target(0, 2, mix);
  const EditTarget row = row_target(0, row_of(tables.layout.layers[0], 2, mix));
  commit({set_edit(row, 1.0F)});
  EXPECT_EQ(get(ngram).values, get(row).values);
  EXPECT_EQ(get(ngram).writer, 0);
  commit({set_edit(ngram, 4.0F)});
  commit({set_edit(row, 2.0F)});
  EXPECT_THAT(get(ngram).values, Each(4.0F));
  EXPECT_THAT(get(row).values, Each(2.0F));
  ASSERT_TRUE(store->rollback(2, "test", "undo"));
  EXPECT_THAT(get(ngram).values, Each(2.0F)) << "the row changed since";
  const auto undone = store->changes(4, 10).value();
  EXPECT_THAT(undone[0].after.values, Each(2.0F)) << "reported is what is in effect";
  EXPECT_EQ(store->current()->ngram(0, {2, mix}).image, nullptr);
}

TEST_F(TableStoreTest, CompareAndSwapNeedsTheImageInEffect) {
  Edit edit = set_edit(row_target(0, 3), 1.0F);
  edit.expected_image = get(row_target(0, 3)).image;
  EXPECT_EQ(commit({edit}).transaction.number, 1);
  EXPECT_THAT(refusal({edit, set_edit(row_target(0, 4), 1.0F)}),
              HasSubstr("does not hold the expected image: it was last written by transaction 1"));
  EXPECT_EQ(store->current()->number(), 1U);
  EXPECT_EQ(store->current()->row(0, 4).image, nullptr) << "half a transaction";
}

TEST_F(TableStoreTest, RefusesWhatCannotBeStored) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal({set_edit(row_target(0, 0), nan)}), HasSubstr("not finite in column 0"));
  EXPECT_THAT(refusal({set_edit(row_target(0, 0), INFINITY)}), HasSubstr("not finite"));
  EXPECT_THAT(refusal({set_edit(row_target(0, 0), 1.0F, 31)}), HasSubstr("32 columns, got 31"));
  EXPECT_THAT(refusal({set_edit(row_target(2, 0), 1.0F)}), HasSubstr("0 to 1, got 2"));
  EXPECT_THAT(refusal({set_edit(row_target(0, -1), 1.0F)}), HasSubstr("got -1"));
  EXPECT_THAT(refusal({set_edit(row_target(0, tables.layout.layers[0].n_rows), 1.0F)}),
              HasSubstr("row must be 0 to"));
  EXPECT_THAT(refusal({set_edit(ngram_target(0, 4, 1), 1.0F)}), HasSubstr("column must be 0 to 3"));
  EXPECT_THAT(refusal({set_edit(row_target(0, 0), 1.0F), set_edit(row_target(0, 0), 2.0F)}),
              HasSubstr("occurs twice"));
  EXPECT_THAT(refusal({}), HasSubstr("at least one edit"));
  EXPECT_THAT(refusal(std::vector<Edit>(TableStore::kEditsMax + 1)), HasSubstr("at most 65536"));
  EXPECT_FALSE(store->commit({set_edit(row_target(0, 0), 1.0F)}, std::string(257, 'a'), ""));
  EXPECT_FALSE(store->commit({set_edit(row_target(0, 0), 1.0F)}, "", std::string(4097, 'r')));
  EXPECT_EQ(store->current()->number(), 0U);
  EXPECT_EQ(commit({set_edit(row_target(0, 0), 1.0F)}).transaction.number, 1);
}

TEST(TableStoreCodecs, RefusesValuesBeyondHalfPrecisionAndReadsRowsThatAreNotResident) {
  const SmallTables tables({RowCodec::kF16, 16}, false);
  const TemporaryFolder folder;
  auto store = tables.open(folder / "edits.sqlite");
  ASSERT_TRUE(store);
  EXPECT_EQ((*store)->get(row_target(1, 7))->image, tables.rows[1]->image(7));
  const auto refused = (*store)->commit({set_edit(row_target(0, 0), 1e6F, 16)}, "", "");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("beyond the range"));
}

TEST_F(TableStoreTest, DryRunReportsAndStoresNothing) {
  const auto dry = store->dry_run({set_edit(row_target(0, 1), 0.3F)});
  ASSERT_TRUE(dry);
  EXPECT_EQ(dry->transaction.number, 0);
  EXPECT_EQ(dry->transaction.n_rows, 1);
  EXPECT_EQ(store->current()->number(), 0U);
  EXPECT_TRUE(store->history({}, 10)->empty());
  const auto done = commit({set_edit(row_target(0, 1), 0.3F)});
  EXPECT_EQ(done.changes[0].after.image, dry->changes[0].after.image);
}

TEST_F(TableStoreTest, RollbackIsANewTransactionAndGoesFromTheNewest) {
  const auto base = get(row_target(0, 1)).image;
  commit({set_edit(row_target(0, 1), 1.0F), set_edit(row_target(0, 2), 1.0F)});
  const auto first = get(row_target(0, 1)).image;
  commit({set_edit(row_target(0, 1), 2.0F)});
  const auto blocked = store->rollback(1, "test", "undo");
  ASSERT_FALSE(blocked);
  EXPECT_THAT(blocked.error().message, HasSubstr("transaction 2 wrote row 1 of layer slot 0"));
  const auto undone = store->rollback(2, "test", "undo");
  ASSERT_TRUE(undone);
  EXPECT_EQ(undone->number, 3);
  EXPECT_EQ(undone->kind, TransactionKind::kRollback);
  EXPECT_EQ(undone->subject, 2);
  EXPECT_EQ(get(row_target(0, 1)).image, first);
  EXPECT_EQ(get(row_target(0, 1)).writer, 1);
  EXPECT_FALSE(store->rollback(2, "test", "twice"));
  EXPECT_FALSE(store->rollback(3, "test", "a rollback"));
  EXPECT_FALSE(store->rollback(9, "test", "absent"));
  ASSERT_TRUE(store->rollback(1, "test", "undo"));
  for (int opened = 0; opened < 2; ++opened, reopen()) {
    EXPECT_EQ(store->current()->number(), 4U);
    EXPECT_EQ(get(row_target(0, 1)).image, base);
    EXPECT_EQ(get(row_target(0, 1)).writer, 0);
    EXPECT_EQ(store->overlay()->n_edits(), 0);
  }
}

TEST_F(TableStoreTest, RestoreReturnsToAPointWhateverCameLater) {
  commit({set_edit(row_target(0, 1), 1.0F), set_edit(ngram_target(0, 1, 77), 1.0F)});
  ASSERT_TRUE(store->snapshot("good"));
  commit({set_edit(row_target(0, 1), 2.0F)});
  commit({set_edit(row_target(0, 9), 3.0F)});
  ASSERT_TRUE(store->rollback(2, "test", "undo"));
  ASSERT_TRUE(store->restore(3, "test", "redo 2"));
  EXPECT_THAT(get(row_target(0, 1)).values, Each(2.0F));
  const auto good = store->snapshots().value();
  ASSERT_THAT(good, SizeIs(1));
  EXPECT_EQ(good[0].transaction, 1);
  const auto restored = store->restore(good[0].transaction, "test", "back");
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->n_rows, 2);
  EXPECT_THAT(get(row_target(0, 1)).values, Each(1.0F));
  EXPECT_EQ(get(row_target(0, 9)).image, tables.rows[0]->image(9));
  EXPECT_EQ(store->overlay()->n_edits(), 2);
  EXPECT_THAT(store->restore(1, "test", "again").error().message, HasSubstr("nothing to undo"));
  EXPECT_FALSE(store->snapshot("good")) << "a name is for good";
  ASSERT_TRUE(store->restore(0, "test", "the base"));
  EXPECT_EQ(store->overlay()->n_edits(), 0);
}

TEST_F(TableStoreTest, HistoryFiltersAndDiffShowsWhatDiffers) {
  commit({set_edit(row_target(0, 1), 1.0F)});
  commit({set_edit(row_target(0, 1), 2.0F), set_edit(row_target(0, 2), 2.0F)});
  ASSERT_TRUE(store->commit({set_edit(row_target(0, 2), 5.0F)}, "other", "why"));
  EXPECT_THAT(store->history({}, 2).value(), SizeIs(2));
  EXPECT_EQ(store->history({}, 2)->front().number, 3);
  EXPECT_THAT(store->history({.before = 3, .author = {}, .target = {}}, 9).value(), SizeIs(2));
  const auto others = store->history({.before = {}, .author = "other", .target = {}}, 9).value();
  ASSERT_THAT(others, SizeIs(1));
  EXPECT_EQ(others[0].reason, "why");
  const auto of_row =
      store->history({.before = {}, .author = {}, .target = row_target(0, 1)}, 9).value();
  ASSERT_THAT(of_row, SizeIs(2));
  EXPECT_EQ(of_row[1].number, 1);
  const auto difference = store->diff(1, 3, 10).value();
  ASSERT_THAT(difference, SizeIs(2));
  EXPECT_THAT(difference[0].before.values, Each(1.0F));
  EXPECT_THAT(difference[1].after.values, Each(5.0F));
  EXPECT_EQ(difference[1].before.writer, 0);
  EXPECT_THAT(store->diff(1, 3, 1).value(), SizeIs(1));
  EXPECT_THAT(store->diff(2, 2, 10).value(), SizeIs(0));
  EXPECT_FALSE(store->diff(3, 1, 10));
  EXPECT_FALSE(store->diff(0, 4, 10));
  EXPECT_FALSE(store->history({}, 0));
  EXPECT_FALSE(store->history({}, TableStore::kListMax + 1));
}

TEST_F(TableStoreTest, ImportIsOneTransactionOrNone) {
  std::int64_t row = 0;
  const auto next = [&](Edit& edit) -> Result<bool> {
    if (row == 300) return false;
    edit = set_edit(row_target(0, row++), 1.5F);
    return true;
  };
  const auto imported = store->import(next, "test", "bulk");
  ASSERT_TRUE(imported);
  EXPECT_EQ(imported->n_rows, 300);
  EXPECT_EQ(store->overlay()->n_edits(), 300);
  const auto failing = [&](Edit& edit) -> Result<bool> {
    if (row == 301) return environment_error("the file ended early");
    edit = set_edit(row_target(0, row++), 1.5F);
    return true;
  };
  EXPECT_EQ(store->import(failing, "test", "bulk").error().message, "the file ended early");
  row = 5;
  const auto descending = [&](Edit& edit) -> Result<bool> {
    edit = set_edit(row_target(0, row--), 1.5F);
    return true;
  };
  EXPECT_THAT(store->import(descending, "test", "bulk").error().message, HasSubstr("ascending"));
  std::stop_source stop;
  stop.request_stop();
  row = 0;
  EXPECT_EQ(store->import(next, "test", "bulk", stop.get_token()).error().kind,
            ErrorKind::kCancelled);
  EXPECT_EQ(store->current()->number(), 1U);
}

}  // namespace
}  // namespace engramd::engine
