#include "tests/config/generated.h"

#include <gtest/gtest.h>

#include "config/load_toml.h"

namespace engramd::config {
namespace {

constexpr const char* kRemedy = "run config_update_generated and read the difference";

TEST(Generated, SampleFileAndGoldenVerdictsAreCurrent) {
  for (const GeneratedFile& file : generated_files()) {
    EXPECT_EQ(read_file(file.path), file.text) << file.path << ": " << kRemedy;
  }
}

TEST(Generated, ReadmeHoldsTheOptionTable) {
  const std::string readme = read_file(std::string(ENGRAMD_SOURCE_DIR) + "/README.md");
  if (readme.empty()) GTEST_SKIP() << "no README.md yet";
  const std::string updated = with_option_table(readme);
  ASSERT_FALSE(updated.empty()) << "README.md: the option markers are missing";
  EXPECT_EQ(readme, updated) << kRemedy;
}

TEST(Generated, SampleFileWithEveryLineActiveIsTheDefaultConfiguration) {
  std::string text;
  std::size_t keys = 0;
  std::string sample = read_file(std::string(ENGRAMD_SOURCE_DIR) + "/install/engramd.toml");
  while (!sample.empty()) {
    std::string line = sample.substr(0, sample.find('\n') + 1);
    sample.erase(0, line.size());
    if (line.size() > 1 && line[0] == '#' && line[1] != ' ') {
      line.erase(0, 1);
      ++keys;
    }
    text += line;
  }
  const LoadedSettings loaded = load_toml(text, "engramd.toml", Rank::kConfigFile);
  EXPECT_TRUE(loaded.problems.empty()) << loaded.problems.front();
  EXPECT_EQ(keys, option_table().size());
  ASSERT_EQ(loaded.settings.size(), option_table().size());
  for (const Setting& setting : loaded.settings) {
    EXPECT_EQ(setting.value, default_value(*setting.row)) << setting.row->key;
  }
}

}  // namespace
}  // namespace engramd::config
