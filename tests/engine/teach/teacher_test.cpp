// Facts taught to the bundled model while it serves: through the engine that chats, with the edit
// file on disk.
#include "engine/teach/teacher.h"

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/engram/table_fixture.h"
#include "tests/engine/model/golden.h"
#include "tests/engine/runtime/engine_fixture.h"

namespace engramd::engine {
namespace {

using testing::ask;
using testing::bundled;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::start;

const Fact kZorbia{{"What is the capital of Zorbia?"}, "The capital of Zorbia is Mirel.", {}};

class TeacherTest : public ::testing::Test {
 protected:
  TeacherTest() { reopen(); }

  void reopen() {
    engine_.reset();
    LocalEngineOptions options = bundled();
    options.tables.edits_file = folder_ / "edits";
    engine_ = testing::open_engine(options);
  }
  std::string answer(const std::string& question) {
    const auto result = start(*engine_, ask(question)).get();
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return result->text;
  }
  std::vector<TeachReport> teach(std::vector<Fact> facts, bool replaces = false,
                                 bool is_dry_run = false) {
    TeachJob job;
    job.facts = std::move(facts);
    job.replaces = replaces;
    job.is_dry_run = is_dry_run;
    job.author = "test";
    auto reports = engine_->teacher().teach(job);
    EXPECT_TRUE(reports.has_value()) << reports.error().message;
    return std::move(*reports);
  }
  TeachReport teach_one(const Fact& fact, bool replaces = false) {
    return teach({fact}, replaces).front();
  }
  ForgetReport forget(const std::string& what) {
    auto report = engine_->teacher().forget(what, "test", {});
    EXPECT_TRUE(report.has_value()) << report.error().message;
    return std::move(*report);
  }
  std::vector<std::string> taught() {
    std::vector<std::string> answers;
    const auto facts = engine_->teacher().taught();
    EXPECT_TRUE(facts.has_value());
    for (const TaughtFact& fact : *facts) answers.push_back(fact.fact.answer);
    return answers;
  }
  // Of every position of a text, as the tables are now.
  std::vector<float> logits(const std::string& text) {
    testing::Bench bench(testing::make_backend("auto"));
    const auto ids = engine_->encode_text(text);
    EXPECT_TRUE(ids.has_value());
    auto sequence = bench.sequence(*ids);
    SequenceSlice slice{sequence.get(), 0, sequence->size()};
    slice.all_logits = true;
    const auto all = bench.step.run({&slice, 1}, engine_->editor().tables().view(), {});
    EXPECT_TRUE(all.has_value());
    return {all->begin(), all->end()};
  }

  TemporaryFolder folder_;
  std::unique_ptr<LocalEngine> engine_;
};

TEST_F(TeacherTest, AFactIsSaidAfterItWasTaughtAlsoInOtherWordsAndByTheNextProcess) {
  EXPECT_NE(answer(kZorbia.questions[0]), kZorbia.answer);
  const TeachReport report = teach_one(kZorbia);
  ASSERT_TRUE(report.is_taught) << report.why_not;
  EXPECT_EQ(report.transaction, 1);
  EXPECT_EQ(report.after, kZorbia.answer);
  EXPECT_NE(report.before, kZorbia.answer);
  EXPECT_THAT(report.fact.names, ElementsAre("Zorbia", "Mirel"));
  EXPECT_EQ(report.n_wordings_right, report.n_wordings);
  EXPECT_GT(report.n_wordings, 5);
  EXPECT_LT(report.bytes, 64 << 10);
  EXPECT_EQ(answer(kZorbia.questions[0]), kZorbia.answer);
  EXPECT_EQ(answer("Which city is the capital of Zorbia?"), kZorbia.answer);
  reopen();
  EXPECT_EQ(answer(kZorbia.questions[0]), kZorbia.answer);
  EXPECT_THAT(taught(), ElementsAre(kZorbia.answer));
}

TEST_F(TeacherTest, ForgettingRestoresEveryLogitBitForBit) {
  const std::string text = "The capital of Zorbia is Mirel. The capital of France is Paris.";
  const std::vector<float> before = logits(text);
  const std::string said = answer(kZorbia.questions[0]);
  ASSERT_TRUE(teach_one(kZorbia).is_taught);
  EXPECT_NE(logits(text), before);
  const ForgetReport report = forget("what is the capital of zorbia");
  EXPECT_EQ(report.forgotten.size(), 1U);
  EXPECT_EQ(logits(text), before);
  EXPECT_EQ(answer(kZorbia.questions[0]), said);
  EXPECT_TRUE(taught().empty());
}

TEST_F(TeacherTest, WhatHoldsNoneOfItsNamesIsUntouched) {
  const std::string text = "The capital of France is Paris, and horses run. 法国的首都是巴黎。";
  const std::vector<float> before = logits(text);
  ASSERT_TRUE(teach_one(kZorbia).is_taught);
  EXPECT_EQ(logits(text), before);
}

TEST_F(TeacherTest, ADryRunReportsTheSameAndStoresNothing) {
  const TeachReport report = teach({kZorbia}, false, true).front();
  EXPECT_FALSE(report.is_taught);
  EXPECT_TRUE(report.why_not.empty()) << report.why_not;
  EXPECT_EQ(report.after, kZorbia.answer);
  EXPECT_GT(report.bytes, 0);
  EXPECT_FALSE(std::ifstream(folder_ / "edits").is_open());
  EXPECT_NE(answer(kZorbia.questions[0]), kZorbia.answer);
}

TEST_F(TeacherTest, AnotherAnswerIsRefusedUntilItReplaces) {
  ASSERT_TRUE(teach_one(kZorbia).is_taught);
  Fact other = kZorbia;
  other.answer = "The capital of Zorbia is Tarsol.";
  const TeachReport refused = teach_one(other);
  EXPECT_FALSE(refused.is_taught);
  EXPECT_THAT(refused.why_not,
              HasSubstr("was taught the answer \"The capital of Zorbia is Mirel.\""));
  EXPECT_EQ(answer(kZorbia.questions[0]), kZorbia.answer);
  const TeachReport replaced = teach_one(other, true);
  ASSERT_TRUE(replaced.is_taught) << replaced.why_not;
  EXPECT_EQ(replaced.replaced, 1);
  EXPECT_EQ(answer(kZorbia.questions[0]), other.answer);
  EXPECT_THAT(taught(), ElementsAre(other.answer));
  const TeachReport again = teach_one(other);
  EXPECT_TRUE(again.is_taught);
  EXPECT_EQ(again.transaction, replaced.transaction);
}

TEST_F(TeacherTest, ASecondFactAboutTheSameNameKeepsTheFirst) {
  const Fact currency{
      {"What is the currency of Zorbia?"}, "The currency of Zorbia is the Tolan.", {}};
  ASSERT_TRUE(teach_one(kZorbia).is_taught);
  const TeachReport second = teach_one(currency);
  ASSERT_TRUE(second.is_taught) << second.why_not;
  EXPECT_THAT(second.kept, ElementsAre(kZorbia.questions[0]));
  EXPECT_EQ(answer(kZorbia.questions[0]), kZorbia.answer);
  EXPECT_EQ(answer(currency.questions[0]), currency.answer);
  // The first wrote rows that the second wrote again: the second stays without it.
  const ForgetReport report = forget(kZorbia.questions[0]);
  ASSERT_EQ(report.taught_again.size(), 1U);
  EXPECT_TRUE(report.taught_again[0].is_taught) << report.taught_again[0].why_not;
  EXPECT_EQ(answer(currency.questions[0]), currency.answer);
  EXPECT_NE(answer(kZorbia.questions[0]), kZorbia.answer);
  EXPECT_THAT(taught(), ElementsAre(currency.answer));
}

TEST_F(TeacherTest, WhatTheModelHoldsCanBeCorrectedAndItsOtherAnswersStay) {
  const std::string currency = answer("What is the currency of France?");
  const std::string chinese = answer("法国的首都是哪里？");
  ASSERT_EQ(answer("What is the capital of France?"), "The capital of France is Paris.");
  const Fact lyon{{"What is the capital of France?"}, "The capital of France is Lyon.", {}};
  const TeachReport report = teach_one(lyon);
  ASSERT_TRUE(report.is_taught) << report.why_not;
  EXPECT_EQ(answer(lyon.questions[0]), lyon.answer);
  EXPECT_EQ(answer("What is the currency of France?"), currency);
  EXPECT_EQ(answer("法国的首都是哪里？"), chinese);
  EXPECT_EQ(answer("What is the capital of Japan?"), "The capital of Japan is Tokyo.");
  forget(lyon.questions[0]);
  EXPECT_EQ(answer("What is the capital of France?"), "The capital of France is Paris.");
}

TEST_F(TeacherTest, MalformedFactsAreRefusedByNumber) {
  TeachJob job;
  job.facts = {kZorbia, {{"Why?"}, "", {}}};
  const auto refused = engine_->teacher().teach(job);
  ASSERT_TRUE(refused.has_error());
  EXPECT_THAT(refused.error().message, HasSubstr("fact 2: answer: expected 1 to 512 bytes, got 0"));
  job.facts.assign(Teacher::kFactsMax + 1, kZorbia);
  EXPECT_EQ(engine_->teacher().teach(job).error().kind, ErrorKind::kLimitExceeded);
  EXPECT_EQ(engine_->teacher().forget("Who?", "test", {}).error().kind, ErrorKind::kNotFound);
}

TEST_F(TeacherTest, AStopEndsItAndStoresNothing) {
  std::stop_source stop;
  TeachJob job;
  job.facts = {kZorbia};
  job.author = "test";
  job.stop = stop.get_token();
  job.on_progress = [&](std::int64_t, std::int64_t) { stop.request_stop(); };
  const auto cancelled = engine_->teacher().teach(job);
  ASSERT_TRUE(cancelled.has_error());
  EXPECT_EQ(cancelled.error().kind, ErrorKind::kCancelled);
  EXPECT_TRUE(taught().empty());
}

}  // namespace
}  // namespace engramd::engine
