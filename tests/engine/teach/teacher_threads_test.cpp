// Teaching beside chats, as the sanitizers see it: few steps, so that nothing is learnt, but every
// thread at work.
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/teach/teacher.h"
#include "tests/engine/engram/table_fixture.h"
#include "tests/engine/runtime/engine_fixture.h"

namespace engramd::engine {
namespace {

using testing::ask;
using ::testing::HasSubstr;
using testing::start;

TEST(TeacherThreads, ChatsGoOnAndASecondCallIsRefused) {
  TemporaryFolder folder;
  LocalEngineOptions options = testing::bundled();
  options.tables.edits_file = folder / "edits";
  const auto engine = testing::open_engine(options);
  TeachJob job;
  job.author = "test";
  job.options.steps_general = 2;
  job.options.steps_max = 3;
  job.facts = {{{"What is the capital of Zorbia?"}, "The capital of Zorbia is Mirel.", {}},
               {{"Who owns Tavik?"}, "Tavik is owned by Brenno.", {}}};
  std::atomic<bool> was_refused = false;
  job.on_progress = [&](std::int64_t, std::int64_t) {
    TeachJob second;
    second.facts = job.facts;
    const auto refused = engine->teacher().teach(second);
    was_refused = refused.has_error() && refused.error().kind == ErrorKind::kBusy;
  };
  std::atomic<bool> is_done = false;
  std::thread chats([&] {
    while (!is_done) {
      const auto answer = start(*engine, ask("What is the capital of France?")).get();
      ASSERT_TRUE(answer.has_value());
      EXPECT_EQ(answer->text, "The capital of France is Paris.");
    }
  });
  const auto reports = engine->teacher().teach(job);
  is_done = true;
  chats.join();
  ASSERT_TRUE(reports.has_value()) << reports.error().message;
  EXPECT_TRUE(was_refused);
  ASSERT_EQ(reports->size(), 2U);
  for (const TeachReport& report : *reports) {
    EXPECT_EQ(report.n_steps, 3);
    EXPECT_FALSE(report.is_taught);
    EXPECT_THAT(report.why_not, HasSubstr("after 3 steps"));
  }
  EXPECT_TRUE(engine->teacher().taught()->empty());
}

}  // namespace
}  // namespace engramd::engine
