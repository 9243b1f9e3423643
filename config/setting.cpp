#include "config/setting.h"

#include <algorithm>
#include <filesystem>

namespace engramd::config {
namespace {

std::vector<std::string> names_of(const OptionRow& row, KeySpace keys) {
  if (keys == KeySpace::kJson) return row.json_keys;
  std::vector<std::string> names = {row.key};
  names.insert(names.end(), row.toml_aliases.begin(), row.toml_aliases.end());
  if (!row.toml_table.empty()) names.push_back(row.toml_table + ".NAME");
  return names;
}

std::vector<std::string> known_names(KeySpace keys) {
  std::vector<std::string> known;
  for (const OptionRow& row : option_table()) {
    for (std::string& name : names_of(row, keys)) known.push_back(std::move(name));
  }
  return known;
}

const OptionRow* find_row(std::string_view key, KeySpace keys) {
  for (const OptionRow& row : option_table()) {
    const std::vector<std::string> names = names_of(row, keys);
    if (std::find(names.begin(), names.end(), key) != names.end()) return &row;
  }
  return nullptr;
}

const OptionRow* find_table(const FoundKey& found, KeySpace keys) {
  for (const OptionRow& row : option_table()) {
    if (keys != KeySpace::kToml || row.toml_table.empty()) continue;
    if (found.key.starts_with(row.toml_table + ".")) return &row;
  }
  return nullptr;
}

// Keys come from files: anything unusual is quoted and escaped before it reaches a message.
std::string printable_key(const std::string& key) {
  constexpr std::size_t kShownBytesMax = 128;
  const bool plain = std::all_of(key.begin(), key.end(), [](char c) {
    return c == '.' || c == '_' || c == '-' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
           (c >= 'a' && c <= 'z');
  });
  if (plain && !key.empty() && key.size() <= kShownBytesMax) return key;
  return to_toml(key.substr(0, kShownBytesMax));
}

std::string unknown_key_message(const FoundKey& found, const std::vector<std::string>& known) {
  const std::string key = printable_key(found.key);
  const bool is_section = std::any_of(known.begin(), known.end(), [&](const std::string& name) {
    return name.starts_with(found.key + ".");
  });
  if (is_section) return key + ": expected a table, got a single value";
  const std::string nearest = nearest_name(found.key, known);
  if (!nearest.empty()) return "unknown key " + key + "; the nearest known key is " + nearest;
  return "unknown key " + key + "; `engramd config` lists the known keys";
}

Value resolved_path(const Value& value, const std::string& file) {
  const std::filesystem::path path = std::get<std::string>(value);
  if (path.empty() || path.is_absolute()) return value;
  return (std::filesystem::path(file).parent_path() / path).lexically_normal().string();
}

// One entry of a table that stands for a list: the entries of a file together are its items.
void add_entry(const SourceFile& file, const OptionRow& row, const FoundKey& found,
               const std::string& place, LoadedSettings& loaded) {
  const auto same_table = [&](const Setting& setting) {
    return setting.row == &row && setting.written_key == row.toml_table;
  };
  const auto earlier = std::find_if(loaded.settings.begin(), loaded.settings.end(), same_table);
  std::vector<std::string> items;
  if (earlier != loaded.settings.end()) {
    items = std::get<std::vector<std::string>>(earlier->value);
  }
  const auto* text = found.value.value ? std::get_if<std::string>(&*found.value.value) : nullptr;
  if (text == nullptr) {
    loaded.problems.push_back(place + ": " + printable_key(found.key) + ": expected a text");
    return;
  }
  items.push_back(found.key.substr(row.toml_table.size() + 1) + "=" + *text);
  Result<Value> value = convert(row, {items, {}});
  if (!value) {
    loaded.problems.push_back(place + ": " + printable_key(found.key) + ": " +
                              value.error().message);
  } else if (earlier != loaded.settings.end()) {
    earlier->value = *value;
  } else {
    loaded.settings.push_back({&row, *value, file.rank, row.toml_table, place});
  }
}

}  // namespace

void add_found(const SourceFile& file, const FoundKey& found, LoadedSettings& loaded) {
  const std::string place = file.path + ":" + std::to_string(found.line);
  const OptionRow* row = find_row(found.key, file.keys);
  if (const OptionRow* table = row ? nullptr : find_table(found, file.keys)) {
    return add_entry(file, *table, found, place, loaded);
  }
  if (!row) {
    const std::vector<std::string> known = known_names(file.keys);
    const auto below = [&](const std::string& name) { return name.starts_with(found.key + "."); };
    const bool empty_section = !found.value.value && found.value.kind == kEmptyTable &&
                               std::any_of(known.begin(), known.end(), below);
    if (!empty_section) {
      loaded.problems.push_back(place + ": " + unknown_key_message(found, known));
    }
    return;
  }
  Result<Value> value = convert(*row, found.value);
  if (!value) {
    loaded.problems.push_back(place + ": " + found.key + ": " + value.error().message);
    return;
  }
  if (row->syntax == Syntax::kPath) *value = resolved_path(*value, file.path);
  loaded.settings.push_back({row, *value, file.rank, found.key, place});
}

FoundValue found_list(const std::vector<FoundValue>& items) {
  std::vector<std::int64_t> integers;
  std::vector<double> numbers;
  std::vector<std::string> texts;
  for (const FoundValue& item : items) {
    if (!item.value) return {{}, "a list with " + item.kind};
    if (const auto* text = std::get_if<std::string>(&*item.value)) {
      texts.push_back(*text);
    } else if (const auto* integer = std::get_if<std::int64_t>(&*item.value)) {
      integers.push_back(*integer);
      numbers.push_back(static_cast<double>(*integer));
    } else if (const auto* number = std::get_if<double>(&*item.value)) {
      numbers.push_back(*number);
    } else {
      return {{}, "a list with " + to_toml(*item.value)};
    }
  }
  if (integers.size() == items.size()) return {integers, {}};
  if (numbers.size() == items.size()) return {numbers, {}};
  if (texts.size() == items.size()) return {texts, {}};
  return {{}, "a list of texts and numbers"};
}

}  // namespace engramd::config
