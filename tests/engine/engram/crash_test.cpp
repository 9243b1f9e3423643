#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/engram/crash_trials.h"

namespace engramd::engine {
namespace {

using ::testing::IsEmpty;

TEST(Crash, AfterEverySyncOfEveryWorkloadOfThreeOperations) {
  const TrialCount trials = exhaustive_crashes(1);
  EXPECT_THAT(trials.failures, IsEmpty());
  EXPECT_GE(trials.n_trials, 2000);
  RecordProperty("trials", static_cast<int>(trials.n_trials));
}

TEST(Crash, AcrossCheckpoints) {
  const TrialCount trials = long_run_crashes(60, 1);
  EXPECT_THAT(trials.failures, IsEmpty());
}

TEST(Crash, AfterInputOutputErrors) {
  EXPECT_THAT(faults(Fault::kEio, 1).failures, IsEmpty());
}
TEST(Crash, AfterAFullDisk) {
  EXPECT_THAT(faults(Fault::kEnospc, 1).failures, IsEmpty());
}
TEST(Crash, AfterShortWrites) {
  EXPECT_THAT(faults(Fault::kShortWrite, 1).failures, IsEmpty());
}

TEST(Crash, KilledChildrenLoseNothing) {
  EXPECT_THAT(kills(20, 1).failures, IsEmpty());
}

}  // namespace
}  // namespace engramd::engine
