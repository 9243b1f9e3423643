// One editor, four readers: what a reader sees in one epoch is the work of whole transactions.
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "tests/engine/engram/table_fixture.h"

namespace engramd::engine {
namespace {

constexpr int kRows = 20;
constexpr int kTransactions = 300;

// Transaction n writes all of row r in {n % 2, n % 2 + 2, ...} with n % 16 + 1, so within an epoch
// all rows of one parity carry the same transaction, and each image is all of one value.
void check_epoch(const Epoch& epoch, const SmallTables& tables) {
  const RowFormat format = tables.rows[0]->format();
  std::vector<float> values(static_cast<std::size_t>(format.n_columns));
  for (int parity = 0; parity < 2; ++parity) {
    const std::int64_t writer = epoch.row(0, parity).transaction;
    for (int row = parity; row < kRows; row += 2) {
      for (const RowEdit edit :
           {epoch.row(0, row), epoch.ngram(1, {2, 1000U + static_cast<std::uint64_t>(row)})}) {
        ASSERT_EQ(edit.transaction, writer);
        if (writer == 0) continue;
        decode_row(format.codec, edit.image, values);
        for (const float value : values) ASSERT_EQ(value, static_cast<float>(writer % 16 + 1));
      }
    }
    ASSERT_LE(writer, static_cast<std::int64_t>(epoch.number()));
    ASSERT_GE(writer + 1, static_cast<std::int64_t>(epoch.number()));
  }
}

TEST(TableStoreThreads, ReadersSeeWholeTransactionsInOrder) {
  const SmallTables tables;
  const TemporaryFolder folder;
  auto store = tables.open(folder / "edits.sqlite");
  ASSERT_TRUE(store);
  std::atomic<bool> is_done = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      std::uint64_t number = 0;
      EpochPointer held = (*store)->current();  // an old one stays readable
      while (!is_done) {
        const EpochPointer epoch = (*store)->current();
        ASSERT_GE(epoch->number(), number);
        number = epoch->number();
        check_epoch(*epoch, tables);
        check_epoch(*held, tables);
        if (number % 8 == 0) held = epoch;
      }
    });
  }
  for (int n = 1; n <= kTransactions; ++n) {
    std::vector<Edit> edits;
    for (int row = n % 2; row < kRows; row += 2) {
      const auto value = static_cast<float>(n % 16 + 1);
      edits.push_back(set_edit(row_target(0, row), value));
      edits.push_back(set_edit(ngram_target(1, 2, 1000U + static_cast<unsigned>(row)), value));
    }
    EXPECT_TRUE((*store)->commit(std::move(edits), "editor", ""));
  }
  is_done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ((*store)->current()->number(), static_cast<std::uint64_t>(kTransactions));
}

}  // namespace
}  // namespace engramd::engine
