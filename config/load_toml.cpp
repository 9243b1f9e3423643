#include "config/load_toml.h"

#include <algorithm>

#include <toml++/toml.h>

namespace engramd::config {
namespace {

FoundValue found_value(const toml::node& node);

FoundValue found_array(const toml::array& array) {
  std::vector<FoundValue> items;
  for (const toml::node& item : array) {
    if (items.size() > kListItemsMax) break;  // too long for any option; convert() says so
    items.push_back(item.is_array() ? FoundValue{{}, "a list"} : found_value(item));
  }
  return found_list(items);
}

FoundValue found_value(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return {node.as_string()->get(), {}};
    case toml::node_type::integer:
      return {node.as_integer()->get(), {}};
    case toml::node_type::floating_point:
      return {node.as_floating_point()->get(), {}};
    case toml::node_type::boolean:
      return {node.as_boolean()->get(), {}};
    case toml::node_type::array:
      return found_array(*node.as_array());
    case toml::node_type::table:
      return {{}, "a table"};
    default:
      return {{}, "a date or time"};
  }
}

// toml++ bounds the nesting of values (256), so the recursion is bounded too.
void flatten(const toml::table& table, const std::string& prefix, std::vector<FoundKey>& found) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    const auto line = static_cast<std::int64_t>(name.source().begin.line);
    const toml::table* nested = node.as_table();
    if (nested && !nested->empty()) {
      flatten(*nested, key + ".", found);
    } else if (nested) {
      found.push_back({key, line, {{}, std::string(kEmptyTable)}});
    } else {
      found.push_back({key, line, found_value(node)});
    }
  }
}

}  // namespace

LoadedSettings load_toml(std::string_view text, const std::string& path, Rank rank) {
  LoadedSettings loaded;
  std::vector<FoundKey> found;
  try {
    flatten(toml::parse(text), "", found);
  } catch (const toml::parse_error& error) {
    loaded.problems.push_back(path + ":" + std::to_string(error.source().begin.line) +
                              ": not valid TOML: " + std::string(error.description()));
    return loaded;
  }
  // toml++ sorts keys by name; people read files from the top.
  std::stable_sort(found.begin(), found.end(),
                   [](const FoundKey& a, const FoundKey& b) { return a.line < b.line; });
  const SourceFile file{path, KeySpace::kToml, rank};
  for (const FoundKey& key : found) add_found(file, key, loaded);
  return loaded;
}

}  // namespace engramd::config
