#include "config/load_toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

LoadedSettings loaded_toml(std::string_view text) {
  return load_toml(text, "folder/config.toml", Rank::kConfigFile);
}

TEST(LoadToml, ReadsValuesWithTheirLines) {
  const LoadedSettings loaded = loaded_toml("[moe]\ntop_k = 6\n\n[api]\nbase_url = \"http://h\"\n");
  EXPECT_THAT(loaded.problems, IsEmpty());
  ASSERT_EQ(loaded.settings.size(), 2u);
  EXPECT_EQ(loaded.settings[0].row->key, "moe.top_k");
  EXPECT_EQ(loaded.settings[0].origin, "folder/config.toml:2");
  EXPECT_EQ(loaded.settings[1].value, Value(std::string("http://h")));
  EXPECT_EQ(loaded.settings[1].origin, "folder/config.toml:5");
}

TEST(LoadToml, CollectsEveryMistakeInTheOrderOfTheFile) {
  const LoadedSettings loaded = loaded_toml(
      "[moe]\n"
      "topk = 6\n"
      "num_experts = \"many\"\n"
      "[sampling]\n"
      "temperature = 3.5\n"
      "[qux]\n"
      "zzzzzzzz = 1\n"
      "[inference]\n"
      "max_batch_size = 1979-05-27\n");
  EXPECT_THAT(
      loaded.problems,
      ElementsAre(
          "folder/config.toml:2: unknown key moe.topk; the nearest known key is moe.top_k",
          "folder/config.toml:3: moe.num_experts: expected an integer from 0 to 1000000, got "
          "\"many\"",
          "folder/config.toml:5: sampling.temperature: expected a number from 0 to 2, got 3.5",
          "folder/config.toml:7: unknown key qux.zzzzzzzz; `engramd config` lists the known keys",
          "folder/config.toml:9: inference.max_batch_size: expected an integer from 1 to 1024, got "
          "a date or time"));
}

TEST(LoadToml, ShapesThatNoOptionHasAreRefused) {
  EXPECT_THAT(loaded_toml("moe = 3").problems,
              ElementsAre("folder/config.toml:1: moe: expected a table, got a single value"));
  EXPECT_THAT(loaded_toml("[[moe]]\ntop_k = 1").problems,
              ElementsAre(HasSubstr("expected a table")));
  EXPECT_THAT(loaded_toml("[moe]\ntop_k = {a = 1}").problems,
              ElementsAre(HasSubstr("moe.top_k.a")));
  EXPECT_THAT(loaded_toml("[moe]\ntop_k = {}").problems,
              ElementsAre(HasSubstr("got an empty table")));
  EXPECT_THAT(loaded_toml("engram.ngram_orders = [[2]]").problems,
              ElementsAre(HasSubstr("a list with")));
  EXPECT_THAT(loaded_toml("engram.ngram_orders = [2, \"x\"]").problems,
              ElementsAre(HasSubstr("got a list of texts and numbers")));
  EXPECT_THAT(loaded_toml("engram.ngram_orders = [\"x\"]").problems,
              ElementsAre(HasSubstr("got [\"x\"]")));
  EXPECT_THAT(loaded_toml("engram.ngram_orders = [true]").problems,
              ElementsAre(HasSubstr("got a list with true")));
  EXPECT_THAT(loaded_toml("[moe]\n[engram.table]\n").problems, IsEmpty());
  EXPECT_THAT(loaded_toml("[unheard]\n").problems, ElementsAre(HasSubstr("unknown key unheard")));
}

TEST(LoadToml, ATableOfAliasesIsAList) {
  const LoadedSettings loaded = loaded_toml(
      "[aliases]\n\"org/model-1.5:latest\" = \"engram-nano\"\ngpt-4 = \"other\"\n"
      "[moe]\ntop_k = 6\n");
  EXPECT_THAT(loaded.problems, IsEmpty());
  ASSERT_EQ(loaded.settings.size(), 2u);
  EXPECT_EQ(loaded.settings[0].row->key, "server.aliases");
  EXPECT_THAT(std::get<std::vector<std::string>>(loaded.settings[0].value),
              testing::UnorderedElementsAre("org/model-1.5:latest=engram-nano", "gpt-4=other"));
  EXPECT_THAT(loaded_toml("[aliases]\n").problems, IsEmpty());
  EXPECT_THAT(loaded_toml("aliases = 3").problems, ElementsAre(HasSubstr("expected a table")));
  EXPECT_THAT(loaded_toml("[aliases]\na = 3").problems, ElementsAre(HasSubstr("expected a text")));
  EXPECT_THAT(loaded_toml("[aliases]\na = \"\"").problems,
              ElementsAre(HasSubstr("name=local name")));
}

TEST(LoadToml, SyntaxErrorsNameTheLine) {
  EXPECT_THAT(loaded_toml("[moe]\ntop_k = \n").problems,
              ElementsAre(HasSubstr("folder/config.toml:2: not valid TOML: ")));
  EXPECT_THAT(loaded_toml("[moe]\ntop_k = 1\ntop_k = 2\n").problems,
              ElementsAre(HasSubstr("folder/config.toml:3: not valid TOML: ")));
  const std::string bomb = "a = " + std::string(100000, '[');
  EXPECT_THAT(loaded_toml(bomb).problems, ElementsAre(HasSubstr("not valid TOML")));
}

// toml++ 3.3.0 asserts on these instead of reporting them; found by config_toml_fuzz.
TEST(LoadToml, WhatTheParserAssertsOnIsAnErrorWithItsLine) {
  for (const std::string header : {"[~moe]", "[.a]", "[\xC3\xA9]", "[[=]]"}) {
    EXPECT_THAT(loaded_toml("[moe]\ntop_k = 1\n" + header + "\nx = 1\n").problems,
                ElementsAre(HasSubstr("folder/config.toml:3: not valid TOML: ")))
        << header;
    EXPECT_THAT(loaded_toml(header).problems,
                ElementsAre(HasSubstr("folder/config.toml:1: not valid")));
  }
}

TEST(LoadToml, StrangeKeysAreEscapedInMessages) {
  EXPECT_THAT(loaded_toml("\"a\\nb\\u001b[31m\" = 1").problems,
              ElementsAre(HasSubstr("unknown key \"a\\u000ab\\u001b[31m\"")));
}

TEST(LoadToml, RelativePathsBelongToTheFile) {
  const LoadedSettings loaded =
      loaded_toml("engram.table.path = \"./weights/t.bin\"\nlog.trace_file = \"/abs/t\"\n");
  ASSERT_EQ(loaded.settings.size(), 2u);
  EXPECT_EQ(loaded.settings[0].value, Value(std::string("folder/weights/t.bin")));
  EXPECT_EQ(loaded.settings[1].value, Value(std::string("/abs/t")));
}

TEST(LoadToml, AllowRemoteTakesABooleanToo) {
  const LoadedSettings loaded = loaded_toml("api.allow_remote = false");
  ASSERT_EQ(loaded.settings.size(), 1u);
  EXPECT_EQ(loaded.settings[0].value, Value(std::string("false")));
}

}  // namespace
}  // namespace engramd::config
