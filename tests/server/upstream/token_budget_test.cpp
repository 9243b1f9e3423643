// Tokens of remotes on a UTC day, over processes. The chain when they are used up: tests/e2e.
#include "server/upstream/token_budget.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::server {
namespace {

using ::testing::HasSubstr;

constexpr std::time_t kEvening = 1796082900;  // 2026-11-30T23:55:00Z
constexpr std::time_t kMorning = kEvening + 600;

class TokenBudgetTest : public ::testing::Test {
 protected:
  TokenBudgetTest() : folder_(::testing::TempDir() + "engramd-budget-XXXXXX") {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  ~TokenBudgetTest() override { std::filesystem::remove_all(folder_); }

  std::string file() const { return folder_ + "/remote_tokens"; }

  std::string folder_;
};

TEST_F(TokenBudgetTest, CountsADayAndKeepsItOnDisk) {
  TokenBudget budget(folder_, 100);
  EXPECT_TRUE(budget.check(kEvening).has_value());
  EXPECT_TRUE(budget.add(60, kEvening).has_value());
  EXPECT_EQ(TokenBudget(folder_, 0).used(kEvening), 60) << "another process";
  EXPECT_TRUE(budget.check(kEvening).has_value());
  EXPECT_TRUE(budget.add(40, kEvening).has_value());
  EXPECT_THAT(budget.check(kEvening).error().message,
              HasSubstr("api.tokens_per_day_max is used up: 100 of 100"));
  EXPECT_TRUE(budget.check(kMorning).has_value());
  EXPECT_EQ(budget.used(kMorning), 0);
  EXPECT_TRUE(budget.add(7, kMorning).has_value());
  EXPECT_EQ(budget.used(kMorning), 7);
  EXPECT_TRUE(TokenBudget(folder_, 0).check(kMorning).has_value()) << "no limit";
}

TEST_F(TokenBudgetTest, LosesNothingWhenManyCount) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      TokenBudget budget(folder_, 0);
      for (int k = 0; k < 50; ++k) EXPECT_TRUE(budget.add(3, kEvening).has_value());
    });
  }
  threads.clear();
  EXPECT_EQ(TokenBudget(folder_, 0).used(kEvening), 4 * 50 * 3);
}

TEST_F(TokenBudgetTest, AFileThatIsBrokenIsAnEmptyOne) {
  for (const char* text : {"", "x", "2026-11-30 ", "2026-11-30 -5", "2026-99-99 7"}) {
    std::ofstream(file()) << text;
    EXPECT_EQ(TokenBudget(folder_, 0).used(kEvening), 0) << text;
  }
  TokenBudget budget(folder_, 10);
  EXPECT_TRUE(budget.add(10, kEvening).has_value());
  EXPECT_FALSE(budget.check(kEvening).has_value());
}

TEST_F(TokenBudgetTest, SaysWhenItCannotBeKept) {
  std::ofstream(folder_ + "/file") << "x";
  TokenBudget budget(folder_ + "/file", 0);
  EXPECT_THAT(budget.add(1, kEvening).error().message, HasSubstr("file"));
}

}  // namespace
}  // namespace engramd::server
