#include "server/commands/command.h"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

#include <unistd.h>

#include "mcp/text.h"
#include "server/commands/chat.h"
#include "server/commands/client_config.h"
#include "server/commands/config.h"
#include "server/commands/doctor.h"
#include "server/commands/gates.h"
#include "server/commands/lookup.h"
#include "server/commands/serve.h"
#include "server/commands/stdio.h"
#include "server/commands/table.h"
#include "server/commands/teach.h"

namespace engramd::server {
namespace {

template <class T>
Result<std::vector<T>> parse_list(const std::string& flag, const std::string& text,
                                  const char* what) {
  std::vector<T> numbers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream reader(part);
    T number = 0;
    if (!(reader >> number) || !(reader >> std::ws).eof()) {
      return invalid_argument("flag " + flag + ": expected " + what + " separated by commas, got " +
                              mcp::quote(text));
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

const std::vector<Command>& all_commands() {
  static const std::vector<Command> commands = {
      stdio_command(), serve_command(),  chat_command(),          lookup_command(),
      gates_command(), teach_command(),  taught_command(),        forget_command(),
      table_command(), config_command(), client_config_command(), doctor_command()};
  return commands;
}

Result<std::vector<std::int64_t>> parse_integers(const std::string& flag, const std::string& text) {
  return parse_list<std::int64_t>(flag, text, "integers");
}

Result<std::vector<double>> parse_numbers(const std::string& flag, const std::string& text) {
  return parse_list<double>(flag, text, "numbers");
}

std::string flag_or(const config::EffectiveConfig& config, const std::string& flag,
                    const std::string& otherwise) {
  const auto values = flag_values(config, flag);
  return values.empty() ? otherwise : values.back();
}

bool has_flag(const config::EffectiveConfig& config, const std::string& name) {
  return !flag_values(config, name).empty();
}

std::vector<std::string> flag_values(const config::EffectiveConfig& config,
                                     const std::string& name) {
  std::vector<std::string> values;
  for (const auto& [flag, value] : config.command_flags) {
    if (flag == name) values.push_back(value);
  }
  return values;
}

int fail(const Error& error) {
  std::fprintf(stderr, "engramd: %s\n", error.message.c_str());
  if (error.kind == ErrorKind::kCancelled) return kExitInterrupted;
  return error.kind == ErrorKind::kInvalidArgument ? kExitUsage : kExitFailed;
}

Result<std::string> read_text(const config::EffectiveConfig& config) {
  std::string text;
  for (const std::string& word : config.positional) text += (text.empty() ? "" : " ") + word;
  if (!text.empty()) return text;
  if (::isatty(STDIN_FILENO) == 1) {
    return invalid_argument("expected a text as argument or on standard input, got none");
  }
  const auto bytes_max = static_cast<std::size_t>(config.options.limits.message_bytes_max);
  std::vector<char> buffer(65536);
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), stdin)) {
    text.append(buffer.data(), count);
    if (text.size() > bytes_max) {
      return limit_exceeded("standard input is longer than limits.message_bytes_max, " +
                            std::to_string(bytes_max) + " bytes");
    }
  }
  // The newline that echo and here-documents add is not part of the text.
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.empty()) return invalid_argument("expected a text on standard input, got none");
  return text;
}

bool colour_wanted(const config::EffectiveConfig& config) {
  return ::isatty(STDOUT_FILENO) == 1 &&
         !config::find_variable(config.environment, "NO_COLOR").has_value();
}

}  // namespace engramd::server
