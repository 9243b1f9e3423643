#include "config/load_flags.h"

#include <algorithm>
#include <optional>

namespace engramd::config {
namespace {

const OptionRow* find_flag(std::string_view flag) {
  const auto& table = option_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const OptionRow& row) { return row.flag == flag; });
  return found == table.end() ? nullptr : &*found;
}

// `--key=value` in its parts.
struct Word {
  std::string name;
  std::optional<std::string> value;
};

Word split(const std::string& argument) {
  const auto equals = argument.find('=');
  if (equals == std::string::npos) return {argument, std::nullopt};
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

class Parser {
 public:
  Parser(std::span<const std::string> arguments, std::span<const CommandFlag> command_flags)
      : arguments_(arguments), command_flags_(command_flags) {}

  ParsedFlags run() {
    while (next_ < arguments_.size()) {
      const std::string& argument = arguments_[next_++];
      if (argument == "--") break;
      if (argument.size() < 2 || argument[0] != '-') {
        parsed_.positional.push_back(argument);
      } else {
        parse(split(argument));
      }
    }
    for (; next_ < arguments_.size(); ++next_) parsed_.positional.push_back(arguments_[next_]);
    return std::move(parsed_);
  }

 private:
  void parse(const Word& word) {
    const auto command =
        std::find_if(command_flags_.begin(), command_flags_.end(),
                     [&](const CommandFlag& flag) { return flag.name == word.name; });
    if (command != command_flags_.end()) {
      parse_command_flag(*command, word);
    } else if (const OptionRow* row = find_flag(word.name)) {
      parse_option(*row, word);
    } else if (const OptionRow* negated = find_negated(word)) {
      parse_option(*negated, {word.name, "false"});
    } else {
      unknown(word);
    }
  }

  void parse_command_flag(const CommandFlag& flag, Word word) {
    if (flag.value_name.empty()) {
      if (word.value) return problem(word.name, "expected no value");
    } else if (!word.value) {
      word.value = next_word();
      if (!word.value) return problem(word.name, "expected " + flag.value_name + " after it");
    }
    parsed_.command_flags.emplace_back(word.name, word.value.value_or(""));
  }

  void parse_option(const OptionRow& row, Word word) {
    const bool is_bool = row.member.type == ValueType::kBool;
    if (!word.value && is_bool) {
      const bool has_word = next_ < arguments_.size() && is_bool_word(arguments_[next_]);
      word.value = has_word ? *next_word() : "true";
    }
    if (!word.value) word.value = next_word();
    if (!word.value) {
      return problem(word.name, "expected " + expected_value(row) + " after it, got nothing");
    }
    Result<Value> value = parse_text(row, *word.value);
    if (!value) return problem(word.name, value.error().message);
    parsed_.loaded.settings.push_back({&row, *value, Rank::kFlag, word.name, "flag " + word.name});
  }

  // "--no-auth" is "--auth=false".
  static const OptionRow* find_negated(const Word& word) {
    constexpr std::string_view kNo = "--no-";
    if (word.value || !word.name.starts_with(kNo)) return nullptr;
    const OptionRow* row = find_flag("--" + word.name.substr(kNo.size()));
    return row && row->member.type == ValueType::kBool ? row : nullptr;
  }

  // 1 and 0 are left out: `engramd chat --engram 1` may as well be a prompt.
  static bool is_bool_word(std::string_view text) {
    return text != "1" && text != "0" && parse_bool_word(text).has_value();
  }

  void unknown(const Word& word) {
    std::vector<std::string> known;
    for (const CommandFlag& flag : command_flags_) known.push_back(flag.name);
    for (const OptionRow& row : option_table()) known.push_back(row.flag);
    const std::string nearest = nearest_name(word.name, known);
    problem(word.name, "unknown flag; " + (nearest.empty() ? "`engramd --help` lists the flags"
                                                           : "the nearest one is " + nearest));
  }

  std::optional<std::string> next_word() {
    if (next_ >= arguments_.size()) return std::nullopt;
    return arguments_[next_++];
  }

  void problem(const std::string& flag, const std::string& message) {
    constexpr std::size_t kShownBytesMax = 64;
    parsed_.loaded.problems.push_back("flag " + flag.substr(0, kShownBytesMax) + ": " + message);
  }

  std::span<const std::string> arguments_;
  std::span<const CommandFlag> command_flags_;
  std::size_t next_ = 0;
  ParsedFlags parsed_;
};

}  // namespace

bool ParsedFlags::has(std::string_view name) const {
  return !values_of(name).empty();
}

std::vector<std::string> ParsedFlags::values_of(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [flag, value] : command_flags) {
    if (flag == name) values.push_back(value);
  }
  return values;
}

ParsedFlags load_flags(std::span<const std::string> arguments,
                       std::span<const CommandFlag> command_flags) {
  return Parser(arguments, command_flags).run();
}

}  // namespace engramd::config
