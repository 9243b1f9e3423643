// A subcommand of engramd: its help and its function. One file per command; the table is in
// all_commands(). A command prints its answer to stdout and everything else to stderr.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/effective_config.h"
#include "config/result.h"

namespace engramd::server {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;         // the command could not do it; stderr says why
inline constexpr int kExitUsage = 2;          // wrong flags, arguments or configuration
inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT, as shells count

struct Command {
  std::string name;
  std::string usage;        // after the program's name
  std::string summary;      // one line, without a full stop
  std::string description;  // paragraphs for --help
  std::string examples;     // lines for --help
  std::vector<config::CommandFlag> flags;
  bool takes_words = false;  // main refuses words that are no flags otherwise
  // Shows refused settings beside everything else; nothing else runs with them.
  bool judges_settings = false;
  bool reports_problems = false;  // runs with sources that cannot be read, too
  bool opens_model = false;       // tells first where the configuration and the model differ
  int (*run)(const config::EffectiveConfig& config) = nullptr;
};

const std::vector<Command>& all_commands();

// Helpers that every command needs.
// The last value of a flag, or `otherwise`.
std::string flag_or(const config::EffectiveConfig& config, const std::string& flag,
                    const std::string& otherwise);
// Numbers separated by commas; errors name the flag.
Result<std::vector<std::int64_t>> parse_integers(const std::string& flag, const std::string& text);
Result<std::vector<double>> parse_numbers(const std::string& flag, const std::string& text);
bool has_flag(const config::EffectiveConfig& config, const std::string& name);
std::vector<std::string> flag_values(const config::EffectiveConfig& config,
                                     const std::string& name);
int fail(const Error& error);  // prints it; the exit code that fits its kind
// The text a command works on: its arguments joined, or standard input when that is no terminal.
Result<std::string> read_text(const config::EffectiveConfig& config);
bool colour_wanted(const config::EffectiveConfig& config);  // a terminal, and NO_COLOR not set

}  // namespace engramd::server
