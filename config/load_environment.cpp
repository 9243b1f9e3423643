#include "config/load_environment.h"

#include <algorithm>

#include <unistd.h>

#include "config/option_value.h"

namespace engramd::config {
namespace {

constexpr std::string_view kPrefix = "ENGRAMD_";

bool is_name(std::string_view text) {
  const auto letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

char unescaped(char c) {
  if (c == 'n') return '\n';
  if (c == 't') return '\t';
  return c;
}

bool is_comment_or_empty(std::string_view rest) {
  rest = trimmed(rest);
  return rest.empty() || rest[0] == '#';
}

// `text` starts with a quote; nullopt when it does not end on this line.
std::optional<std::string> quoted_value(std::string_view text) {
  const char quote = text[0];
  std::string value;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == quote) {
      if (!is_comment_or_empty(text.substr(i + 1))) return std::nullopt;
      return value;
    }
    if (quote == '"' && text[i] == '\\' && i + 1 < text.size()) {
      value += unescaped(text[++i]);
    } else {
      value += text[i];
    }
  }
  return std::nullopt;
}

std::optional<std::string> line_value(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('"') || text.starts_with('\'')) return quoted_value(text);
  if (text.starts_with('#')) return std::string();
  // A # inside a word belongs to the value (keys contain them); after a space it is a comment.
  const auto comment = std::min(text.find(" #"), text.find("\t#"));
  return std::string(trimmed(text.substr(0, comment)));
}

struct Assignment {
  std::string name;
  std::string value;
};

std::optional<Assignment> parse_assignment(std::string_view line) {
  for (const std::string_view word : {"export ", "export\t"}) {
    if (line.starts_with(word)) line = trimmed(line.substr(word.size()));
  }
  const auto equals = line.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const std::string_view name = trimmed(line.substr(0, equals));
  std::optional<std::string> value = line_value(line.substr(equals + 1));
  const bool has_nul = value && value->find('\0') != std::string::npos;
  if (!is_name(name) || !value || has_nul) return std::nullopt;
  return Assignment{std::string(name), std::move(*value)};
}

void add_variable(const OptionRow& row, const std::string& name, const Variable& variable,
                  LoadedSettings& loaded) {
  Result<Value> value = parse_text(row, variable.value);
  if (!value) {
    loaded.problems.push_back(variable.origin + ": " + value.error().message);
    return;
  }
  loaded.settings.push_back({&row, *value, Rank::kEnvironment, name, variable.origin});
}

void note_unknown_names(const Environment& environment, LoadedSettings& loaded) {
  std::vector<std::string> known = {"ENGRAMD_CONFIG_DIR"};
  for (const OptionRow& row : option_table()) {
    known.push_back(row.environment);
    if (!row.environment_alias.empty()) known.push_back(row.environment_alias);
  }
  for (auto at = environment.lower_bound(kPrefix); at != environment.end(); ++at) {
    const std::string& name = at->first;
    if (!std::string_view(name).starts_with(kPrefix)) break;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = nearest_name(name, known);
    loaded.notes.push_back(at->second.origin + ": no option has this name" +
                           (nearest.empty() ? "" : "; the nearest known name is " + nearest));
  }
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** at = environ; at && *at; ++at) {
    const std::string_view entry = *at;
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos || equals + 1 == entry.size()) continue;
    const std::string name(entry.substr(0, equals));
    environment[name] = {std::string(entry.substr(equals + 1)), "environment " + name};
  }
  return environment;
}

std::vector<std::string> add_dot_env(std::string_view text, const std::string& path,
                                     Environment& environment) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Environment defaults;
  std::vector<std::string> problems;
  for (std::int64_t line_number = 1; !text.empty(); ++line_number) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    const std::string place = path + ":" + std::to_string(line_number);
    std::optional<Assignment> assignment = parse_assignment(line);
    if (!assignment) {
      problems.push_back(place +
                         ": expected NAME=value on one line, quotes closed, got something "
                         "else (not shown: it may hold a key)");
    } else if (!assignment->value.empty()) {
      const std::string origin = place + " " + assignment->name;
      defaults[assignment->name] = {std::move(assignment->value), origin};
    }
  }
  environment.insert(defaults.begin(), defaults.end());
  return problems;
}

LoadedSettings load_environment(const Environment& environment) {
  LoadedSettings loaded;
  for (const OptionRow& row : option_table()) {
    for (const std::string& name : {row.environment_alias, row.environment}) {
      const auto found = environment.find(name);
      if (found == environment.end() || found->second.value.empty()) continue;
      add_variable(row, name, found->second, loaded);
    }
  }
  note_unknown_names(environment, loaded);
  return loaded;
}

std::optional<std::string> find_variable(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return std::nullopt;
  return found->second.value;
}

}  // namespace engramd::config
