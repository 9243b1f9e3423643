// What the edit log refuses to open.
#include "engine/engram/edit_log.h"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/engine/engram/table_fixture.h"

namespace engramd::engine {
namespace {

using ::testing::HasSubstr;

class EditLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = tables.open(path);
    ASSERT_TRUE(store);
    for (int i = 1; i <= 3; ++i) {
      std::vector<Edit> edits;
      for (int row = 0; row < 60; ++row) edits.push_back(set_edit(row_target(0, row), 2.0F));
      ASSERT_TRUE((*store)->commit(edits, "test", "why"));
    }
    ASSERT_TRUE((*store)->snapshot("three"));
  }
  std::string refusal() {
    auto store = tables.open(path);
    return store ? "opened" : store.error().message;
  }
  void execute(const std::string& sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
  }

  SmallTables tables;
  TemporaryFolder folder;
  const std::string path = folder / "edits.sqlite";
};

TEST_F(EditLogTest, OpensAgainAfterClosing) {
  EXPECT_EQ(refusal(), "opened");
}

TEST_F(EditLogTest, RefusesEditsOfOtherTables) {
  tables.identity.base_generation = 2;
  EXPECT_THAT(refusal(), HasSubstr("base generation 2"));
  EXPECT_THAT(refusal(), HasSubstr("base generation 1"));
  tables.identity = {"aa11", "cc33", 1};
  EXPECT_THAT(refusal(), HasSubstr("token map cc33"));
  const SmallTables other({RowCodec::kBF16, 32});
  EXPECT_THAT(other.open(path).error().message, HasSubstr("bf16"));
}

TEST_F(EditLogTest, RefusesTablesThatDoNotFitTheLayout) {
  tables.rows[1] = std::make_unique<MemoryRows>(RowFormat{RowCodec::kF8E4M3E8M0, 32}, 7);
  EXPECT_THAT(refusal(), HasSubstr("layer slot 1 has 7 rows of 32 columns, the layout expects"));
}

TEST_F(EditLogTest, RefusesForeignAndNewerFiles) {
  execute("PRAGMA user_version=2");
  EXPECT_THAT(refusal(), HasSubstr("format 2, this engramd reads format 1"));
  execute("PRAGMA user_version=1; CREATE TRIGGER t AFTER INSERT ON tx BEGIN DELETE FROM tx; END");
  EXPECT_THAT(refusal(), HasSubstr("other tables than format 1"));
  execute("DROP TRIGGER t; PRAGMA application_id=5");
  EXPECT_THAT(refusal(), HasSubstr("belongs to another program"));
  std::ofstream(path, std::ios::trunc) << std::string(5000, 'x');
  EXPECT_THAT(refusal(), HasSubstr("is not an edit log"));
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), std::string(5000, 'x'));
}

TEST_F(EditLogTest, RefusesHistoryThatWasTamperedWith) {
  execute("UPDATE change SET new_writer=1 WHERE tx=2 AND id=3");
  EXPECT_THAT(refusal(), HasSubstr("transaction 2 does not match its SHA-256"));
  execute("UPDATE change SET new_writer=2 WHERE tx=2 AND id=3");
  EXPECT_EQ(refusal(), "opened");
  execute("UPDATE snapshot SET tx=1");
  EXPECT_THAT(refusal(), HasSubstr("snapshot 'three' does not match"));
  execute("UPDATE snapshot SET tx=3; DELETE FROM change WHERE tx=3 AND id=3");
  EXPECT_THAT(refusal(), HasSubstr("transaction 3 has 59 rows, expected 60"));
  execute("DELETE FROM change WHERE tx=1; DELETE FROM tx WHERE id=1");
  EXPECT_THAT(refusal(), HasSubstr("transaction 2 follows 0"));
}

// A byte changed anywhere is refused, or it was one that nothing reads.
TEST_F(EditLogTest, RefusesDamageOrOpensTheSame) {
  std::ifstream in(path, std::ios::binary);
  const std::string good(std::istreambuf_iterator<char>(in), {});
  int n_refused = 0;
  for (std::size_t at = 0; at < good.size(); at += 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bad;
    auto store = tables.open(path);
    if (!store) {
      ++n_refused;
      continue;
    }
    ASSERT_EQ((*store)->current()->number(), 3U) << "byte " << at;
    ASSERT_EQ((*store)->get(row_target(0, 59))->values[0], 2.0F) << "byte " << at;
  }
  // A third and more of the bytes: free space may say anything.
  EXPECT_GT(n_refused, static_cast<int>(good.size() / 97 / 3));
  for (const std::size_t size : {std::size_t{100}, good.size() / 2, good.size() - 4096}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << good.substr(0, size);
    EXPECT_NE(refusal(), "opened") << size;
  }
}

TEST_F(EditLogTest, RefusesASecondUserInThisProcessAndInAnother) {
  auto store = tables.open(path);
  ASSERT_TRUE(store);
  EXPECT_THAT(refusal(), HasSubstr("in use by another process"));
  const pid_t child = fork();
  if (child == 0) {
    const auto second = tables.open(path);
    _exit(!second && second.error().kind == ErrorKind::kUnavailable ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE((*store)->commit({set_edit(row_target(0, 1), 1.0F)}, "", "")) << "the first goes on";
  store->reset();
  EXPECT_EQ(refusal(), "opened");
}

TEST_F(EditLogTest, RefusesAFolderAndAnAbsentOne) {
  EXPECT_THAT(tables.open(folder / "").error().message, HasSubstr("check the path"));
  EXPECT_THAT(tables.open(folder / "no/edits").error().message, HasSubstr("check the path"));
}

}  // namespace
}  // namespace engramd::engine
