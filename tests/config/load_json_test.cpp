#include "config/load_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

LoadedSettings load(std::string_view text) {
  return load_json(text, "f.json");
}

TEST(LoadJson, ReadsNestedKeysWithTheirLines) {
  const LoadedSettings loaded = load(
      "{\n \"engram_config\": {\n  \"ngram_orders\": [2,\n 3],\n  \"context_gating\":\n "
      "{\"enabled\""
      ": false}},\n\"temperature\": 1}\n");
  EXPECT_THAT(loaded.problems, IsEmpty());
  ASSERT_EQ(loaded.settings.size(), 3u);
  EXPECT_EQ(loaded.settings[0].row->key, "engram.ngram_orders");
  EXPECT_EQ(loaded.settings[0].origin, "f.json:3");
  EXPECT_EQ(loaded.settings[1].row->key, "engram.enable");
  EXPECT_EQ(loaded.settings[1].origin, "f.json:6");
  EXPECT_EQ(loaded.settings[2].value, Value(1.0));
  EXPECT_EQ(loaded.settings[2].origin, "f.json:7");
  EXPECT_EQ(loaded.settings[2].written_key, "temperature");
}

TEST(LoadJson, CollectsEveryMistake) {
  const LoadedSettings loaded = load(
      "{\n\"temprature\": 1,\n\"top_p\": \"x\",\n\"stream\": null,\n"
      "\"engram\": {\n\"seed\": 18446744073709551615,\n\"layer_ids\": [1, {\"a\": [2]}]}}");
  EXPECT_THAT(loaded.problems,
              ElementsAre("f.json:2: unknown key temprature; the nearest known key is temperature",
                          "f.json:3: top_p: expected a number from 1e-06 to 1, got \"x\"",
                          "f.json:4: stream: expected true or false, got null",
                          HasSubstr("f.json:6: engram.seed: expected an integer from 0 to "
                                    "4294967295, got an integer of more than 63 bits"),
                          HasSubstr("f.json:7: engram.layer_ids: expected a list of up to 16 "
                                    "integers from 0 to 1000000, got a list with a table")));
}

TEST(LoadJson, KeysOfTomlAreNotKeysOfJson) {
  EXPECT_THAT(load("{\"moe\": {\"top_k\": 1}}").problems,
              ElementsAre(HasSubstr("unknown key moe.top_k")));
}

TEST(LoadJson, BrokenDocumentsNameTheLineAndRepeatNothing) {
  const LoadedSettings loaded = load("{\n\"base_url\": \"http://h\",\n\"api_key\": sk-secret\n}");
  EXPECT_THAT(loaded.settings, IsEmpty());
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_THAT(loaded.problems[0], HasSubstr("f.json:3: not valid JSON"));
  EXPECT_THAT(loaded.problems[0], testing::Not(HasSubstr("secret")));
  EXPECT_THAT(load("").problems, ElementsAre(HasSubstr("f.json:1: not valid JSON")));
  EXPECT_THAT(load("{} x").problems, ElementsAre(HasSubstr("not valid JSON")));
}

TEST(LoadJson, UnknownSecretsAreNotRepeated) {
  EXPECT_THAT(load("{\"api_key\": \"sk-secret\"}").problems,
              ElementsAre("f.json:1: unknown key api_key; the nearest known key is api_key_env"));
}

TEST(LoadJson, OtherShapesAreRefused) {
  EXPECT_THAT(load("[1]").problems, ElementsAre("f.json:1: expected an object, got a list"));
  EXPECT_THAT(load("7").problems, ElementsAre("f.json:1: expected an object, got a single value"));
  EXPECT_THAT(load("{\"top_p\": 1,\n\"top_p\": 0.5}").problems,
              ElementsAre("f.json:2: the key \"top_p\" occurs twice"));
  EXPECT_THAT(load("{\"temperature\": {}}").problems,
              ElementsAre(HasSubstr("temperature: expected a number")));
  EXPECT_THAT(load("{\"engram\": {}, \"backbone\": {}}").problems, IsEmpty());
  EXPECT_THAT(load("{\"elsewhere\": {}}").problems, ElementsAre(HasSubstr("elsewhere")));
  std::string bomb;
  for (int i = 0; i < 100000; ++i) bomb += "{\"a\":";
  EXPECT_THAT(load(bomb).problems, ElementsAre("f.json:1: nested more than 16 levels deep"));
  EXPECT_EQ(load("{\"a\":" + std::string(100000, '[')).problems.size(), 1u);
}

}  // namespace
}  // namespace engramd::config
