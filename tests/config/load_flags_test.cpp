#include "config/load_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::config {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

ParsedFlags load(const std::vector<std::string>& arguments) {
  const std::vector<CommandFlag> command_flags = {
      {"--json", "", "Print JSON."}, {"-h", "", "Help."}, {"--layout", "FILE", "A layout file."}};
  return load_flags(arguments, command_flags);
}

TEST(LoadFlags, SeparatesOptionsCommandFlagsAndTheRest) {
  const ParsedFlags parsed = load(
      {"chat", "--json", "--temperature", "0.5", "hello", "--layout=f", "--", "--model", "-h"});
  EXPECT_THAT(parsed.loaded.problems, IsEmpty());
  EXPECT_THAT(parsed.positional, ElementsAre("chat", "hello", "--model", "-h"));
  EXPECT_THAT(parsed.command_flags, ElementsAre(Pair("--json", ""), Pair("--layout", "f")));
  EXPECT_TRUE(parsed.has("--json"));
  EXPECT_FALSE(parsed.has("-h"));
  EXPECT_THAT(parsed.values_of("--layout"), ElementsAre("f"));
  ASSERT_EQ(parsed.loaded.settings.size(), 1u);
  EXPECT_EQ(parsed.loaded.settings[0].origin, "flag --temperature");
}

TEST(LoadFlags, BooleansTakeAWordOrStandAlone) {
  const auto engram = [](const std::vector<std::string>& arguments) {
    const ParsedFlags parsed = load(arguments);
    EXPECT_EQ(parsed.loaded.settings.size(), 1u);
    return std::pair(std::get<bool>(parsed.loaded.settings.at(0).value), parsed.positional.size());
  };
  EXPECT_EQ(engram({"--engram", "off", "hi"}), std::pair(false, std::size_t{1}));
  EXPECT_EQ(engram({"--engram=0", "hi"}), std::pair(false, std::size_t{1}));
  EXPECT_EQ(engram({"--engram", "hi"}), std::pair(true, std::size_t{1}));
  EXPECT_EQ(engram({"--engram", "1"}), std::pair(true, std::size_t{1}));
  EXPECT_EQ(engram({"--engram"}), std::pair(true, std::size_t{0}));
  EXPECT_EQ(engram({"--no-auth", "hi"}), std::pair(false, std::size_t{1}));
  EXPECT_THAT(load({"--no-auth=true"}).loaded.problems, testing::SizeIs(1));
  EXPECT_THAT(load({"--no-port"}).loaded.problems, testing::SizeIs(1));
}

TEST(LoadFlags, ValuesMayLookLikeFlagsOrBeEmpty) {
  const ParsedFlags parsed = load({"--model", "--odd", "--table=", "--trace=a=b", "-"});
  EXPECT_THAT(parsed.loaded.problems, IsEmpty());
  ASSERT_EQ(parsed.loaded.settings.size(), 3u);
  EXPECT_EQ(parsed.loaded.settings[0].value, Value(std::string("--odd")));
  EXPECT_EQ(parsed.loaded.settings[1].value, Value(std::string()));
  EXPECT_EQ(parsed.loaded.settings[2].value, Value(std::string("a=b")));
  EXPECT_THAT(parsed.positional, ElementsAre("-"));
}

TEST(LoadFlags, EveryMistakeIsNamed) {
  EXPECT_THAT(load({"--thread", "2", "--moe-top-k=x", "--json=1", "--qqqqqqqqqq", "--layout"})
                  .loaded.problems,
              ElementsAre("flag --thread: unknown flag; the nearest one is --threads",
                          "flag --moe-top-k: expected an integer from 0 to 1000000, got \"x\"",
                          "flag --json: expected no value",
                          "flag --qqqqqqqqqq: unknown flag; `engramd --help` lists the flags",
                          "flag --layout: expected FILE after it"));
  EXPECT_THAT(load({"--threads"}).loaded.problems,
              ElementsAre("flag --threads: expected an integer from 0 to 1024 after it, got "
                          "nothing"));
}

}  // namespace
}  // namespace engramd::config
