#include "config/print_config.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "config/load_toml.h"
#include "config/print_reference.h"
#include "tests/config/generated.h"

namespace engramd::config {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(PrintConfig, IsItselfAConfigurationWithTheSameValues) {
  for (const std::string set : {"engram-toml", "lookup-and-routing", "demo-json", "experiment"}) {
    const EffectiveConfig config = load_user_set(set);
    const std::string text = print_config(config, judge(config, bundled_facts()));
    const LoadedSettings loaded = load_toml(text, "/printed.toml", Rank::kConfigFile);
    EXPECT_THAT(loaded.problems, IsEmpty());
    ASSERT_EQ(loaded.settings.size(), config.settings.size());
    for (std::size_t i = 0; i < loaded.settings.size(); ++i) {
      EXPECT_EQ(loaded.settings[i].row, config.settings[i].row);
      EXPECT_EQ(loaded.settings[i].value, config.settings[i].value);
    }
  }
}

TEST(PrintConfig, SaysWhereAValueCameFromAndWhatBecameOfIt) {
  const EffectiveConfig config = load_user_set("engram-toml");
  const std::string text = print_config(config, judge(config, bundled_facts()));
  EXPECT_THAT(text, HasSubstr("engram-toml/config.toml:16"));
  EXPECT_THAT(text, HasSubstr("#   checked, differs: highest N-gram order: the file says 5, the "
                              "model has 3"));
  EXPECT_THAT(text, HasSubstr("# default\n"));
}

TEST(PrintConfig, JsonHoldsEveryOption) {
  const EffectiveConfig config = load_user_set("lookup-and-routing");
  const auto document =
      nlohmann::json::parse(print_config_json(config, judge(config, bundled_facts())));
  ASSERT_EQ(document["options"].size(), option_table().size());
  for (const auto& option : document["options"]) {
    if (option["key"] != "engram.ngram_orders") continue;
    EXPECT_EQ(option["value"], nlohmann::json({2, 3, 4}));
    EXPECT_EQ(option["written_key"], "engram_config.ngram_orders");
    EXPECT_EQ(option["verdict"], "checked");
    EXPECT_EQ(option["differs"], true);
  }
  EXPECT_EQ(document["files_loaded"].size(), 3u);
}

TEST(PrintConfig, NeverPrintsTheKey) {
  ConfigRequest request;
  request.environment = {
      {"TAOTOKEN_API_KEY", {"sk-secret", "environment TAOTOKEN_API_KEY"}},
      {"ENGRAMD_API_API_KEY", {"sk-secret", "environment ENGRAMD_API_API_KEY"}},
      {"ENGRAMD_API_BASE_URL", {"https://u:sk-secret@h", "environment ENGRAMD_API_BASE_URL"}}};
  request.arguments = {"--api-api-key-env=sk-secret"};
  EffectiveConfig config = load_effective_config(request);
  EXPECT_EQ(config.problems.size(), 2u);
  for (const std::string& text : {print_config(config, {}), print_config_json(config, {})}) {
    EXPECT_THAT(text, Not(HasSubstr("sk-secret")));
  }
  EXPECT_THAT(print_config(config, {}), HasSubstr("TAOTOKEN_API_KEY is set"));
  EXPECT_THAT(print_config_json(config, {}), HasSubstr("\"set\": true"));
}

TEST(PrintConfig, BytesThatAreNotUtf8DoNotBreakJson) {
  ConfigRequest request;
  request.arguments = {"--model=\xFF\xFE"};
  const EffectiveConfig config = load_effective_config(request);
  EXPECT_TRUE(nlohmann::json::accept(print_config_json(config, {})));
}

TEST(PrintReference, HelpNamesEveryFlagWithinEightyColumns) {
  const std::string help = print_option_help();
  for (const OptionRow& row : option_table()) {
    EXPECT_THAT(help, HasSubstr("\n  " + row.flag + " ")) << row.key;
  }
  EXPECT_THAT(help, HasSubstr("--config-dir FOLDER"));
  std::size_t start = 0;
  for (auto end = help.find('\n'); end != std::string::npos; end = help.find('\n', start)) {
    EXPECT_LE(end - start, 80u) << help.substr(start, end - start);
    start = end + 1;
  }
}

TEST(PrintReference, TheOptionTableHasOneLinePerOption) {
  const std::string table = print_option_table();
  EXPECT_EQ(static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n')),
            option_table().size() + 2);
  EXPECT_THAT(table, HasSubstr("`moe.top_k`, `moe.experts_per_token`"));
}

}  // namespace
}  // namespace engramd::config
