// Command-line flags: those of the option table and those of a command. `--key value` and
// `--key=value`; a boolean takes its value after `=` or as the next word when that is true, false,
// on, off, yes or no, and is true alone; `--` ends the flags. Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/setting.h"

namespace engramd::config {

// A flag that is not an option: "--json", "-h", "--config FILE".
struct CommandFlag {
  std::string name;
  std::string value_name;  // empty: takes no value
  std::string help;
};

struct ParsedFlags {
  LoadedSettings loaded;
  std::vector<std::pair<std::string, std::string>>
      command_flags;  // name, value; as given, in order
  std::vector<std::string> positional;

  bool has(std::string_view name) const;
  std::vector<std::string> values_of(std::string_view name) const;
};

// `arguments`: what follows the program's name.
ParsedFlags load_flags(std::span<const std::string> arguments,
                       std::span<const CommandFlag> command_flags);

}  // namespace engramd::config
