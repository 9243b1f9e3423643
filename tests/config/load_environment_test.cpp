#include "config/load_environment.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Environment dot_env(std::string_view text) {
  Environment environment;
  EXPECT_THAT(add_dot_env(text, ".env", environment), IsEmpty()) << text;
  return environment;
}

TEST(LoadEnvironment, ReadsTheNamesOfTheTableAndTheUsersOwn) {
  const LoadedSettings loaded =
      load_environment({{"TAOTOKEN_BASE_URL", {"https://a", "environment TAOTOKEN_BASE_URL"}},
                        {"ENGRAMD_API_BASE_URL", {"https://b", "environment ENGRAMD_API_BASE_URL"}},
                        {"ENGRAM_TABLE_PATH", {"t.bin", "environment ENGRAM_TABLE_PATH"}},
                        {"PATH", {"/bin", "environment PATH"}}});
  EXPECT_THAT(loaded.problems, IsEmpty());
  ASSERT_EQ(loaded.settings.size(), 3u);
  EXPECT_EQ(loaded.settings[0].value, Value(std::string("t.bin")));  // relative to where one is
  EXPECT_EQ(loaded.settings[1].origin, "environment TAOTOKEN_BASE_URL");
  EXPECT_EQ(loaded.settings[2].origin, "environment ENGRAMD_API_BASE_URL");  // later: it wins
}

TEST(LoadEnvironment, WrongValuesAreProblemsAndUnknownNamesAreNotes) {
  const LoadedSettings loaded = load_environment(
      {{"ENGRAMD_MOE_TOP_K", {"six", "environment ENGRAMD_MOE_TOP_K"}},
       {"ENGRAMD_INFERENCE_THREAD", {"2", "environment ENGRAMD_INFERENCE_THREAD"}}});
  EXPECT_THAT(loaded.problems, ElementsAre("environment ENGRAMD_MOE_TOP_K: expected an integer "
                                           "from 0 to 1000000, got \"six\""));
  EXPECT_THAT(loaded.notes,
              ElementsAre("environment ENGRAMD_INFERENCE_THREAD: no option has this name; the "
                          "nearest known name is ENGRAMD_INFERENCE_THREADS"));
}

TEST(LoadEnvironment, TheProcessEnvironmentIsReadAndEmptyMeansNotSet) {
  ASSERT_EQ(setenv("ENGRAMD_TEST_FULL", "a=b", 1), 0);
  ASSERT_EQ(setenv("ENGRAMD_TEST_EMPTY", "", 1), 0);
  const Environment environment = process_environment();
  EXPECT_EQ(find_variable(environment, "ENGRAMD_TEST_FULL"), "a=b");
  EXPECT_EQ(find_variable(environment, "ENGRAMD_TEST_EMPTY"), std::nullopt);
  EXPECT_EQ(environment.at("ENGRAMD_TEST_FULL").origin, "environment ENGRAMD_TEST_FULL");
}

TEST(DotEnv, ReadsTheUsualSpellings) {
  const Environment environment = dot_env(
      "\xEF\xBB\xBF# comment\r\n"
      "A=plain # comment\r\n"
      "export B = spaced \n"
      "C=\"double \\\"quoted\\\" \\n # kept\" # comment\n"
      "D='single \\n'\n"
      "E=sk-a#b=c\n"
      "F=\n"
      "\n"
      "G=last");
  EXPECT_EQ(find_variable(environment, "A"), "plain");
  EXPECT_EQ(find_variable(environment, "B"), "spaced");
  EXPECT_EQ(find_variable(environment, "C"), "double \"quoted\" \n # kept");
  EXPECT_EQ(find_variable(environment, "D"), "single \\n");
  EXPECT_EQ(find_variable(environment, "E"), "sk-a#b=c");
  EXPECT_EQ(find_variable(environment, "F"), std::nullopt);
  EXPECT_EQ(find_variable(environment, "G"), "last");
  EXPECT_EQ(environment.at("G").origin, ".env:9 G");
}

TEST(DotEnv, MistakesNameTheLineAndRepeatNothing) {
  Environment environment;
  const std::vector<std::string> problems = add_dot_env(
      "A=ok\nsk-secret\n1B=secret\nC=\"secret\nD='secret' secret\nE=ok", ".env", environment);
  ASSERT_EQ(problems.size(), 4u);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    EXPECT_THAT(problems[i], HasSubstr(".env:" + std::to_string(i + 2) + ": expected NAME=value"));
    EXPECT_THAT(problems[i], testing::Not(HasSubstr("secret")));
  }
  EXPECT_EQ(environment.size(), 2u);
}

TEST(DotEnv, TheLastLineOfANameWinsAndTheProcessWinsOverTheFile) {
  Environment environment = {{"A", {"process", "environment A"}}};
  EXPECT_THAT(add_dot_env("A=file\nB=1\nB=2\n", ".env", environment), IsEmpty());
  EXPECT_EQ(find_variable(environment, "A"), "process");
  EXPECT_EQ(find_variable(environment, "B"), "2");
}

}  // namespace
}  // namespace engramd::config
