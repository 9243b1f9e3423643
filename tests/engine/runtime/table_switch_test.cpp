// The bundled model's tables move on to a folded row file while it computes: what stays cached,
// what a running answer says, where later edits go, what a later process finds; and that a death at
// any point leaves the old tables or the new ones.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "engine/engram/table_export.h"
#include "tests/engine/runtime/table_editing_fixture.h"

namespace engramd::engine::testing {
namespace {

using kernels::kBlockTokens;

class TableSwitchTest : public TableEditingTest {
 protected:
  TableSwitchTest() {
    ids_[100] = 900;
    ids_[101] = 901;
  }

  // One bucket, and one exact N-gram of the prompt.
  void edit_both_scopes() {
    EditRequest bucket = request({ids_[148], ids_[149]}, EditOperation::kScale, 2.0F);
    bucket.scope = EditScope::kRow;
    commit(bucket);
    commit(request({900, 901}, EditOperation::kScale, -3.0F));
  }
  std::string file(int i) const { return folder_ / ("fold" + std::to_string(i)); }
  ExportReport fold(int i, bool ngrams_as_rows = false) {
    ExportOptions options;
    options.ngrams_as_rows = ngrams_as_rows;
    auto report = fold_and_switch(*tables_, file(i), "test", options);
    EXPECT_TRUE(report.has_value()) << report.error().message;
    return *report;
  }
  std::string refusal_to_open() const {
    const auto opened = open_tables();
    return opened.has_error() ? opened.error().message : std::string("opened");
  }

  std::vector<TokenId> ids_ = prompt();
};

TEST_F(TableSwitchTest, NothingThatIsComputedChangesAndWhatWasCachedStays) {
  edit_both_scopes();
  Step step(model_, *backend_, cache_);
  PrefixCache prefixes(cache_, step);
  auto running = sequence(cache_, ids_);
  ASSERT_TRUE(running->reserve(running->size() + kBlockTokens));
  const std::vector<float> before = logits(step, *running);
  prefixes.keep(*running);
  const std::weak_ptr<BaseTables> old_base = tables_->view().base;

  const ExportReport report = fold(1);
  EXPECT_EQ(report.n_rows, 8);
  EXPECT_EQ(report.n_ngrams_carried, report.n_ngrams);
  EXPECT_TRUE(old_base.expired()) << "closed with its last view";
  EXPECT_EQ(tables_->view().base->identity.base_generation, 2);
  const std::int64_t n_cached = running->n_cached();
  prefixes.refresh(*running, tables_->view());
  EXPECT_EQ(running->n_cached(), n_cached) << "the images are the same";
  auto adopted = sequence(cache_, ids_);
  prefixes.adopt_into(*adopted, tables_->view(), adopted->size() - 1);
  EXPECT_EQ(adopted->n_cached(), adopted->size() / kBlockTokens * kBlockTokens);
  ASSERT_TRUE(adopted->reserve(adopted->size()));
  EXPECT_EQ(logits(step, *adopted), before);
  EXPECT_EQ(fresh_logits(ids_), before);

  // An edit after it drops what it touches and nothing else, and is undone to the bit.
  prefixes.keep(*adopted);
  commit(request({900, 901}, EditOperation::kZero));
  prefixes.refresh(*running, tables_->view());
  EXPECT_EQ(running->n_cached(), 96) << "position 101 reads the edited N-gram; its block is shared";
  EXPECT_EQ(logits(step, *running), fresh_logits(ids_));
  const auto undone = (*tables_->store())->rollback(2, "test", "");
  ASSERT_TRUE(undone.has_value()) << undone.error().message;
  EXPECT_EQ(fresh_logits(ids_), before);
}

TEST_F(TableSwitchTest, WhatMayReadOtherRowsIsComputedAgain) {
  edit_both_scopes();
  Step step(model_, *backend_, cache_);
  PrefixCache prefixes(cache_, step);
  auto running = sequence(cache_, ids_);
  ASSERT_TRUE(running->reserve(running->size()));
  logits(step, *running);
  prefixes.keep(*running);
  fold(1, true);  // the N-gram's image for all who share its rows
  prefixes.refresh(*running, tables_->view());
  EXPECT_EQ(running->n_cached(), 0);
  auto adopted = sequence(cache_, ids_);
  prefixes.adopt_into(*adopted, tables_->view(), adopted->size() - 1);
  EXPECT_EQ(adopted->n_cached(), 0);
  EXPECT_EQ(logits(step, *running), fresh_logits(ids_));
  prefixes.keep(*running);

  fold(2);
  commit(request({900, 901}, EditOperation::kZero));  // before any pass has seen the second fold
  prefixes.refresh(*running, tables_->view());
  EXPECT_EQ(running->n_cached(), 0);
  EXPECT_EQ(logits(step, *running), fresh_logits(ids_));
}

TEST_F(TableSwitchTest, AProcessWithTheOldOptionsFindsEverything) {
  edit_both_scopes();
  auto held = *tables_->store();
  fold(1);
  EXPECT_EQ(tables_->edits_file(), file(1) + ".edits");
  Edit late;
  late.target = row_target(0, 0);
  late.operation = EditOperation::kZero;
  const auto refused = held->commit({late}, "test", "");
  ASSERT_TRUE(refused.has_error());
  EXPECT_NE(refused.error().message.find("moved on to " + file(1)), std::string::npos);
  held.reset();  // the last one closes the old file
  fold(2);
  commit(request({ids_[148], ids_[149]}, EditOperation::kScale, 0.5F));
  const std::vector<float> last = fresh_logits(ids_);

  reopen();
  EXPECT_EQ(tables_->moved_to(), file(2));
  EXPECT_EQ(tables_->view().base->identity.base_generation, 3);
  EXPECT_EQ(fresh_logits(ids_), last);
  LiveTablesOptions options;
  options.edits_file = folder_ / "edits";
  const auto chain = LiveTables::successors(model_.layout, sha256_hex(model_.token_map),
                                            model_.engram_rows(), options);
  ASSERT_TRUE(chain.has_value());
  EXPECT_EQ(*chain, (std::vector<std::string>{file(1), file(2)}));
}

TEST_F(TableSwitchTest, AMissingOrForeignSuccessorIsRefusedWithTheRemedy) {
  edit_both_scopes();
  fold(1);
  editor_.reset();
  tables_.reset();
  const std::string away = folder_ / "away";
  for (const std::string& name : {file(1), file(1) + ".edits"}) {
    std::filesystem::rename(name, away);
    const std::string message = refusal_to_open();
    EXPECT_NE(message.find("moved on to " + file(1) + ", but " + name + " is missing: put"),
              std::string::npos)
        << message;
    std::filesystem::rename(away, name);
  }
  std::filesystem::rename(file(1), away);
  {
    ExportOptions plain;
    const auto other =
        LiveTables::open(model_.layout, sha256_hex(model_.token_map), model_.engram_rows(), {});
    ASSERT_TRUE(other.has_value());
    ASSERT_TRUE(fold_table(model_.layout, (*other)->view(), folder_ / "plain", plain).has_value());
  }
  std::filesystem::rename(folder_ / "plain", file(1));
  EXPECT_NE(refusal_to_open().find("another table"), std::string::npos) << refusal_to_open();
  std::filesystem::remove(file(1));
  std::filesystem::rename(away, file(1));
  EXPECT_EQ(refusal_to_open(), "opened");
}

TEST_F(TableSwitchTest, WhatCannotBeWrittenLeavesTheOldTablesInEffect) {
  edit_both_scopes();
  const std::vector<float> before = fresh_logits(ids_);
  std::ofstream(file(1)) << "something";
  EXPECT_NE(fold_and_switch(*tables_, file(1), "test", {}).error().message.find("exists already"),
            std::string::npos);
  std::stop_source stop;
  stop.request_stop();
  ExportOptions stopped;
  stopped.stop = stop.get_token();
  EXPECT_EQ(fold_and_switch(*tables_, file(2), "test", stopped).error().kind,
            ErrorKind::kCancelled);
  EXPECT_TRUE(fold_and_switch(*tables_, folder_ / "no/where", "test", {}).has_error());
  EXPECT_EQ(tables_->moved_to(), "");
  EXPECT_EQ(fresh_logits(ids_), before);
  commit(request({900, 901}, EditOperation::kZero));
  fold(2);  // goes on with what the stopped one left
}

// Dies by SIGKILL in a child process, which has the edit file for itself.
void die_in_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    work();
    ::_exit(1);  // it was to die
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST_F(TableSwitchTest, DeathAtAnyPointLeavesTheOldTablesOrTheNewOnes) {
  edit_both_scopes();
  const std::vector<float> before = fresh_logits(ids_);
  editor_.reset();
  tables_.reset();
  const auto die = [] { ::raise(SIGKILL); };
  const auto fold_in = [this](LiveTables& tables, int i, const ExportOptions& options) {
    return fold_table(tables.layout(), tables.view(), file(i), options);
  };
  const std::vector<std::function<void()>> deaths = {
      [&] {  // while the rows are copied
        ExportOptions options;
        options.progress = [&](std::int64_t done, std::int64_t total) {
          if (done > total / 2) die();
        };
        (void)fold_and_switch(**open_tables(), file(0), "test", options);
      },
      [&] {  // when both files are there
        const auto tables = open_tables();
        (void)(*tables)->move_on(
            file(1),
            [&](const TableView&) -> Result<bool> {
              (void)fold_in(**tables, 1, {});
              die();
              return true;
            },
            "test");
      },
      [&] {  // when the old file has said so, and nobody knows yet
        const auto tables = open_tables();
        (void)fold_and_switch(**tables, file(2), "test", {});
        die();
      },
  };
  for (std::size_t i = 0; i < deaths.size(); ++i) {
    die_in_child(deaths[i]);
    reopen();
    EXPECT_EQ(tables_->moved_to(), i == 2 ? file(2) : "") << i;
    EXPECT_EQ(fresh_logits(ids_), before) << i;
    editor_.reset();
    tables_.reset();
  }
}

class LiveSwitchTest : public ::testing::Test {
 protected:
  LiveSwitchTest() {
    options_.tables.edits_file = folder_ / "edits";
    engine_ = open_engine(options_);
  }
  void fold(const std::string& name) {
    const auto done = fold_and_switch(engine_->editor().tables(), folder_ / name, "test", {});
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }
  void zero(std::vector<TokenId> tokens) {
    EditRequest edit;
    edit.where.tokens = std::move(tokens);
    edit.operation = EditOperation::kZero;
    const auto done = engine_->editor().edit({edit}, "test", "", false);
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }

  TemporaryFolder folder_;
  LocalEngineOptions options_ = bundled();
  std::unique_ptr<LocalEngine> engine_;
};

TEST_F(LiveSwitchTest, AnAnswerThatRunsAcrossSwitchesIsTheSame) {
  zero({900, 901});
  const std::string expected = start(*engine_, endless(32)).get()->text;
  int n_deltas = 0;
  const auto switching = [&](const ChatDelta&) {  // on the engine thread: exactly between passes
    ++n_deltas;
    if (n_deltas == 3) fold("kept");
    if (n_deltas == 9) {
      fold("dropped");
      zero({902, 903});  // occurs nowhere; but nothing says that the cached tokens still hold
    }
  };
  const auto across = start(*engine_, endless(32), {}, switching).get();
  ASSERT_TRUE(across.has_value()) << across.error().message;
  EXPECT_GE(n_deltas, 9);
  EXPECT_EQ(across->text, expected);
  EXPECT_EQ(across->completion_tokens, 32);
  EXPECT_EQ(engine_->editor().tables().view().base->identity.base_generation, 3);
  engine_.reset();
  EXPECT_EQ(start(*open_engine(options_), endless(32)).get()->text, expected);
}

TEST_F(LiveSwitchTest, ChatsGoOnWhileTablesAreEditedAndFolded) {
  const std::string question = "What is the capital of France?";
  const std::string expected = start(*engine_, ask(question)).get()->text;
  std::atomic<bool> is_over = false;
  std::jthread chats([&] {
    while (!is_over) {
      std::vector<std::future<Result<ChatResult>>> running;
      for (int i = 0; i < 3; ++i) running.push_back(start(*engine_, ask(question, 16)));
      for (auto& answer : running) {
        const auto got = answer.get();
        EXPECT_TRUE(got.has_value()) << got.error().message;
        EXPECT_TRUE(expected.starts_with(got->text)) << got->text;
      }
    }
  });
  std::jthread looks([&] {
    const auto ids = *engine_->encode_text(question);
    while (!is_over) {
      EXPECT_TRUE(engine_->lookup(ids, {}).has_value());
      EXPECT_GT(engine_->memory().table, 0);
      EXPECT_GE(engine_->stats().generated_tokens, 0);
    }
  });
  for (int i = 0; i < 3; ++i) {
    zero({900, 901 + i});  // in nobody's text
    fold("fold" + std::to_string(i));
  }
  is_over = true;
  chats.join();
  looks.join();
  EXPECT_EQ(start(*engine_, ask(question)).get()->text, expected);
}

}  // namespace
}  // namespace engramd::engine::testing
