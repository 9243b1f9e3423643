#include "config/load_toml.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

// toml++ 3.3.0 asserts on some wrong files, `[~moe]` for one (and with NDEBUG assumes that they
// cannot be, which is worse). In this file its assertions are exceptions, so that such a file is an
// error like any other.
[[noreturn]] static void toml_assertion_failed() {
  throw std::logic_error("unexpected character");
}
#undef NDEBUG
#define TOML_ASSERT(expression) ((expression) ? static_cast<void>(0) : toml_assertion_failed())
#include <toml++/impl/preprocessor.h>
// And its tables of characters call unreachable what an accented letter reaches: there it means no.
#pragma push_macro("TOML_UNREACHABLE")
#undef TOML_UNREACHABLE
#define TOML_UNREACHABLE return false
#include <toml++/impl/forward_declarations.h>
#include <toml++/impl/unicode.h>
#pragma pop_macro("TOML_UNREACHABLE")
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

struct SyntaxError {
  std::int64_t line = 0;
  std::string message;
};

// The line whose reading trips an assertion of the parser; `text` as a whole does. All shorter
// prefixes are fine or merely incomplete, so a binary search finds it.
std::int64_t asserting_line(std::string_view text) {
  std::vector<std::size_t> line_ends;
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n', end + 1)) {
    line_ends.push_back(end + 1);
  }
  const auto parses = [&](std::size_t end) {
    try {
      static_cast<void>(toml::parse(text.substr(0, end)));
    } catch (const toml::parse_error&) {
      return true;
    } catch (const std::logic_error&) {
      return false;
    }
    return true;
  };
  const auto at = std::partition_point(line_ends.begin(), line_ends.end(), parses);
  return at - line_ends.begin() + 1;
}

std::optional<SyntaxError> parse(std::string_view text, std::vector<FoundKey>& found) {
  try {
    flatten(toml::parse(text), "", found);
  } catch (const toml::parse_error& error) {
    return SyntaxError{error.source().begin.line, std::string(error.description())};
  } catch (const std::logic_error& error) {
    return SyntaxError{asserting_line(text), error.what()};
  }
  return std::nullopt;
}

}  // namespace

LoadedSettings load_toml(std::string_view text, const std::string& path, Rank rank) {
  LoadedSettings loaded;
  std::vector<FoundKey> found;
  if (const std::optional<SyntaxError> error = parse(text, found)) {
    loaded.problems.push_back(path + ":" + std::to_string(error->line) +
                              ": not valid TOML: " + error->message);
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
