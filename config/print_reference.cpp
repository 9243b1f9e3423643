#include "config/print_reference.h"

#include "config/effective_config.h"
#include "config/option_table.h"

namespace engramd::config {
namespace {

constexpr std::size_t kColumnsMax = 80;

std::string wrapped(std::string_view text, const std::string& indent) {
  std::string out;
  std::string line = indent;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.size() > indent.size() && line.size() + 1 + word.size() > kColumnsMax) {
      out += line + "\n";
      line = indent;
    }
    if (line.size() > indent.size()) line += ' ';
    line += word;
  }
  return out + line + "\n";
}

// What stands after the flag: "N", "NUMBER", "cpu|..." and so on.
std::string value_name(const OptionRow& row) {
  switch (row.member.type) {
    case ValueType::kBool:
      return "[on|off]";
    case ValueType::kInteger:
      return "N";
    case ValueType::kNumber:
      return "NUMBER";
    case ValueType::kIntegerList:
    case ValueType::kNumberList:
      return "N,N,...";
    case ValueType::kTextList:
      return "TEXT,TEXT,...";
    case ValueType::kText:
      break;
    case ValueType::kChoice: {
      std::string names;
      for (const std::string_view name : row.member.choices) {
        names += (names.empty() ? "" : "|") + std::string(name);
      }
      return names;
    }
  }
  return row.syntax == Syntax::kPath ? "PATH" : "TEXT";
}

std::string help_of(const OptionRow& row) {
  return row.no_effect_yet ? row.help + " (" + std::string(kNoEffectYet) + ")" : row.help;
}

std::string environment_names(const OptionRow& row, const std::string& separator) {
  if (row.environment_alias.empty()) return row.environment;
  return row.environment + separator + row.environment_alias;
}

std::string joined(const std::vector<std::string>& items, const std::string& around) {
  std::string out;
  for (const std::string& item : items) {
    out += (out.empty() ? "" : ", ") + around + item + around;
  }
  return out;
}

// `|` would end a cell.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string print_option_help() {
  std::string out = wrapped(
      "Every option is a flag, a variable and a key of config.toml. A flag wins over the "
      "environment, the environment over config.toml, config.toml over the JSON files. An empty "
      "variable counts as not set.",
      "  ");
  for (const CommandFlag& flag : source_flags()) {
    out += "\n  " + flag.name + " " + flag.value_name + "\n" + wrapped(flag.help, "      ");
  }
  std::string_view section;
  for (const OptionRow& row : option_table()) {
    if (section_of(row) != section) {
      section = section_of(row);
      out += "\n [" + std::string(section) + "]\n";
    }
    out += "\n  " + row.flag + " " + value_name(row) + "\n" + wrapped(help_of(row), "      ");
    out += wrapped("Takes " + expected_value(row) + ". Default " + to_toml(default_value(row)) +
                       ". Key " + row.key + ", variable " + environment_names(row, " or ") + ".",
                   "      ");
  }
  return out;
}

std::string print_sample_file() {
  std::string out =
      "# Every option of engramd at its default. Uncomment what you change, and put the file\n"
      "# into ~/.config/engramd/config.toml or name its folder with --config-dir.\n"
      "# Generated from the option table; `engramd config` shows the values in effect.\n";
  std::string_view section;
  for (const OptionRow& row : option_table()) {
    if (section_of(row) != section) {
      section = section_of(row);
      out += "\n[" + std::string(section) + "]\n";
    } else {
      out += "\n";
    }
    out += wrapped(help_of(row), "# ");
    out += wrapped("Takes " + expected_value(row) + ".", "# ");
    out += "#" + row.key.substr(section.size() + 1) + " = " + to_toml(default_value(row)) + "\n";
  }
  return out;
}

std::string print_option_table() {
  std::string out =
      "| key | flag | variable | JSON key | default | takes | meaning |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const OptionRow& row : option_table()) {
    std::vector<std::string> keys = {row.key};
    keys.insert(keys.end(), row.toml_aliases.begin(), row.toml_aliases.end());
    const std::string variables = "`" + environment_names(row, "`, `") + "`";
    out += "| " + joined(keys, "`") + " | `" + row.flag + "` | " + variables + " | " +
           joined(row.json_keys, "`") + " | `" + to_toml(default_value(row)) + "` | " +
           cell(expected_value(row)) + " | " + cell(help_of(row)) + " |\n";
  }
  return out;
}

}  // namespace engramd::config
