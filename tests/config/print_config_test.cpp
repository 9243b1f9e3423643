#include "config/print_config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "config/print_reference.h"
#include "tests/config/generated.h"

namespace engramd::config {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Loads what print_config prints, as `engramd config > FILE` and `--config FILE` elsewhere do.
EffectiveConfig printed_and_loaded(const EffectiveConfig& config) {
  const fs::path path =
      fs::path(testing::TempDir()) / ("engramd_printed_" + std::to_string(::getpid()) + ".toml");
  std::ofstream(path, std::ios::binary) << print_config(config, judge(config, bundled_facts()));
  ConfigRequest request;
  request.arguments = {"--config", path.string()};
  EffectiveConfig loaded = load_effective_config(request);
  fs::remove(path);
  return loaded;
}

void expect_survives_printing(const EffectiveConfig& config) {
  ASSERT_THAT(config.problems, IsEmpty());
  const EffectiveConfig loaded = printed_and_loaded(config);
  EXPECT_THAT(loaded.problems, IsEmpty());
  EXPECT_THAT(loaded.notes, IsEmpty());
  ASSERT_EQ(loaded.settings.size(), config.settings.size());
  for (std::size_t i = 0; i < loaded.settings.size(); ++i) {
    EXPECT_EQ(loaded.settings[i].value, config.settings[i].value) << config.settings[i].row->key;
  }
  const std::vector<Verdict> before = judge(config, bundled_facts());
  const std::vector<Verdict> after = judge(loaded, bundled_facts());
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].key, before[i].key);
    EXPECT_EQ(after[i].kind, before[i].kind) << after[i].key;
    EXPECT_EQ(after[i].differs, before[i].differs) << after[i].key;
  }
}

TEST(PrintConfig, IsItselfAConfigurationWithTheSameValuesAndVerdicts) {
  expect_survives_printing(load_effective_config({}));
  for (const std::string& set : user_sets()) expect_survives_printing(load_user_set(set));
}

// Numbers and lists at both ends of their range, every choice, a path relative to this folder.
std::vector<std::string> texts_of(const OptionRow& row) {
  std::vector<std::string> texts = {to_text(default_value(row))};
  for (const std::string_view choice : row.member.choices) texts.emplace_back(choice);
  const bool whole =
      row.member.type == ValueType::kInteger || row.member.type == ValueType::kIntegerList;
  for (const double bound : {row.minimum, row.maximum}) {
    if (row.maximum == row.minimum) break;
    texts.push_back(whole ? to_text(static_cast<std::int64_t>(bound)) : to_text(bound));
  }
  if (row.syntax == Syntax::kPath) texts.emplace_back("folder/a \"file\"");
  return texts;
}

TEST(PrintConfig, EveryValueThatAFlagTakesSurvives) {
  for (const OptionRow& row : option_table()) {
    for (const std::string& text : texts_of(row)) {
      SCOPED_TRACE(row.flag + "=" + text);
      ConfigRequest request;
      request.arguments = {row.flag + "=" + text};
      expect_survives_printing(load_effective_config(request));
    }
  }
}

// The sample file with every line active, and what `engramd config` shows when nothing is set.
TEST(PrintConfig, StatingEveryDefaultIsNotRefused) {
  ConfigRequest request;
  for (const OptionRow& row : option_table()) {
    request.arguments.push_back(row.flag + "=" + to_text(default_value(row)));
  }
  const EffectiveConfig config = load_effective_config(request);
  ASSERT_THAT(config.problems, IsEmpty());
  const std::vector<Verdict> verdicts = judge(config, bundled_facts());
  EXPECT_EQ(verdicts.size(), option_table().size());
  EXPECT_THAT(refusals(verdicts), IsEmpty());
  for (const Verdict& verdict : verdicts) {
    // These two defaults are statements: no streams beside the first, token 0 for padding.
    const bool states =
        verdict.key == "engram.multi_branch" || verdict.key == "engram.layout.pad_id";
    EXPECT_EQ(verdict.differs, states) << verdict.key << ": " << verdict.note;
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
