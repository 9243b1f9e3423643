// A setting: one option's value with where it was found. Loaders produce settings and problems and
// never stop at the first mistake; effective_config merges them.
// Plain values, any thread. For config/ and its tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/option_table.h"

namespace engramd::config {

// Who wins: the higher rank; within a rank the later setting.
enum class Rank { kDefault, kSideFile, kConfigFile, kEnvironment, kFlag };

struct Setting {
  const OptionRow* row = nullptr;
  Value value;
  Rank rank = Rank::kDefault;
  std::string written_key;  // as the source spells it: "moe.experts_per_token", "--model"
  std::string origin;       // "config.toml:12", "environment NAME", "flag --model", "default"
};

// Problems stop the program after everything was read; notes do not. One line each, no secrets.
struct LoadedSettings {
  std::vector<Setting> settings;
  std::vector<std::string> problems;
  std::vector<std::string> notes;
};

enum class KeySpace { kToml, kJson };  // which names of a row count

// One key of a file as its parser found it.
struct FoundKey {
  std::string key;  // dotted
  std::int64_t line = 0;
  FoundValue value;
};

struct SourceFile {
  std::string path;
  KeySpace keys = KeySpace::kToml;
  Rank rank = Rank::kConfigFile;
};

// Turns what a file says into a setting, or into a problem that names file, line, key, what was
// expected, what was found and the nearest known key. Relative paths become relative to the file.
void add_found(const SourceFile& file, const FoundKey& found, LoadedSettings& loaded);

FoundValue found_list(const std::vector<FoundValue>& items);
inline constexpr std::string_view kEmptyTable = "an empty table";

}  // namespace engramd::config
