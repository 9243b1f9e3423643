// engramd: chooses the command, reads the configuration, and runs it.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "config/effective_config.h"
#include "config/option_table.h"
#include "mcp/text.h"
#include "server/commands/command.h"
#include "server/commands/help.h"
#include "server/config_facts.h"

namespace engramd::server {
namespace {

const Command* find_command(const std::string& name) {
  const auto& commands = all_commands();
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [&](const Command& command) { return command.name == name; });
  return found == commands.end() ? nullptr : &*found;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  // What follows `--` is text, not flags.
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, word) != end;
}

int unknown_command(const std::string& name) {
  std::vector<std::string> known;
  for (const Command& command : all_commands()) known.push_back(command.name);
  const std::string nearest = config::nearest_name(name, known);
  const std::string hint =
      nearest.empty() ? "`engramd --help` lists the commands" : "the nearest one is " + nearest;
  std::fprintf(stderr, "engramd: unknown command %.64s; %s\n", name.c_str(), hint.c_str());
  return kExitUsage;
}

int unexpected_word(const std::string& command, const std::string& word) {
  return fail(invalid_argument(command + ": expected no further words, got " + mcp::quote(word)));
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

// What became of the settings. A model that cannot be read is the command's to report. Only what
// somebody has set is judged: without settings the start reads no file for it.
std::vector<config::Verdict> judge(const config::EffectiveConfig& config) {
  const auto is_default = [](const config::Setting& s) { return s.rank == config::Rank::kDefault; };
  if (std::all_of(config.settings.begin(), config.settings.end(), is_default)) return {};
  const auto facts = read_config_facts(config);
  return facts ? config::judge(config, *facts) : std::vector<config::Verdict>();
}

int run(const Command& command, std::vector<std::string> arguments) {
  config::ConfigRequest request;
  request.arguments = std::move(arguments);
  request.command_flags = command.flags;
  request.environment = config::process_environment();
  const config::EffectiveConfig config = config::load_effective_config(request);
  if (!config.problems.empty() && !command.reports_problems) {
    for (const std::string& problem : config.problems) {
      std::fprintf(stderr, "engramd: %s\n", problem.c_str());
    }
    return kExitUsage;
  }
  if (!command.takes_words && !config.positional.empty()) {
    return unexpected_word(command.name, config.positional.front());
  }
  if (command.judges_settings) return command.run(config);
  const std::vector<config::Verdict> verdicts = judge(config);
  if (print_refusals(verdicts)) return kExitUsage;
  if (command.opens_model) log_warnings(config, verdicts);
  return command.run(config);
}

int main_with(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    std::fputs(short_help().c_str(), stderr);
    return kExitUsage;
  }
  const std::string first = arguments.front();
  const std::size_t n_words_max = first == "--version" ? 1 : 2;
  if ((first == "--version" || first == "help") && arguments.size() > n_words_max) {
    return unexpected_word(first, arguments[n_words_max]);
  }
  if (first == "--version") return print("engramd " ENGRAMD_VERSION "\n");
  if (first == "help") {
    if (arguments.size() == 1) return print(program_help());
    const Command* topic = find_command(arguments[1] == "stdio" ? "--stdio" : arguments[1]);
    return topic == nullptr ? unknown_command(arguments[1]) : print(command_help(*topic));
  }
  // `--stdio` may stand among other flags: clients write it where they like.
  const bool is_flag = first.starts_with("-");
  const Command* command = is_flag ? nullptr : find_command(first);
  if (is_flag && contains(arguments, "--stdio")) command = find_command("--stdio");
  const bool wants_help = contains(arguments, "--help") || contains(arguments, "-h");
  if (wants_help) return print(command == nullptr ? program_help() : command_help(*command));
  if (command == nullptr) return unknown_command(first);
  if (!is_flag) arguments.erase(arguments.begin());
  return run(*command, std::move(arguments));
}

// The exit code, when everything that was printed has arrived: a full disk is a failure.
int finish_output(int exit_code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  std::fprintf(stderr, "engramd: standard output could not be written%s%s\n",
               errno == 0 ? "" : ": ", errno == 0 ? "" : std::strerror(errno));
  return exit_code == kExitOk ? kExitFailed : exit_code;
}

}  // namespace
}  // namespace engramd::server

int main(int argc, char** argv) {
  return engramd::server::finish_output(engramd::server::main_with({argv + 1, argv + argc}));
}
