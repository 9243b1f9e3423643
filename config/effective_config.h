// The effective configuration: every option's value and where it came from.
// Precedence: flag, environment (with .env as defaults), config.toml, the files beside it, default.
// Within a rank the later one wins and a disagreement is noted; the order of the files in a folder
// is that of kConfigFiles, files given by --config come after them in the order given.
// Call once at start-up, before threads; the result is a plain value.
// Not here: what a value means for the opened model (verdict.h), printing (print_config.h).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "config/load_environment.h"
#include "config/load_flags.h"
#include "config/options.h"
#include "config/setting.h"

namespace engramd::config {

// Known by name in a configuration folder; only config.toml has the rank of its own.
inline constexpr std::array<std::string_view, 6> kConfigFiles = {
    "engram_config.json",  "engram_lookup.json", "moe_routing.toml",
    "model_settings.json", "taotoken.json",      "config.toml"};

inline constexpr std::size_t kConfigFileBytesMax = 1 << 20;

struct ConfigRequest {
  std::vector<std::string> arguments;      // what follows the program's name
  std::vector<CommandFlag> command_flags;  // --config and --config-dir are added
  Environment environment;                 // process_environment(), or a test's own
};

struct EffectiveConfig {
  Options options;
  std::vector<std::string> arguments;  // as given
  std::vector<Setting> settings;       // one per row of the table, in its order
  std::vector<std::string> problems;   // empty, or the program must not start; one line each
  std::vector<std::string> notes;
  std::vector<std::string> files_loaded;
  std::vector<std::string> files_ignored;  // *.toml and *.json in the folder that are not known
  std::vector<std::pair<std::string, std::string>> command_flags;
  std::vector<std::string> positional;
  Environment environment;   // with .env; holds secrets, never printed
  bool api_key_set = false;  // the variable that api.api_key_env names has a value
};

// Reads everything and reports all problems of all sources, not only the first.
EffectiveConfig load_effective_config(const ConfigRequest& request);

// --config and --config-dir, for --help.
std::vector<CommandFlag> source_flags();

}  // namespace engramd::config
