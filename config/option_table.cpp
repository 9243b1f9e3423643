#include "config/option_table.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "config/option_rows.h"

namespace engramd::config {
namespace {

std::string derived_flag(std::string_view key) {
  std::string flag = "--" + std::string(key);
  for (char& c : flag) {
    if (c == '.' || c == '_') c = '-';
  }
  return flag;
}

std::string derived_environment(std::string_view key) {
  std::string name = "ENGRAMD_" + std::string(key);
  for (char& c : name) {
    c = c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::vector<OptionRow> built_table() {
  std::vector<OptionRow> rows = model_rows();
  const std::vector<OptionRow> service = service_rows();
  rows.insert(rows.end(), service.begin(), service.end());
  for (OptionRow& row : rows) {
    if (row.flag.empty()) row.flag = derived_flag(row.key);
    row.environment = derived_environment(row.key);
  }
  return rows;
}

// Levenshtein distance; names are short, two rows of the matrix are enough.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = above[j] + (a[i] == b[j] ? 0 : 1);
      row[j + 1] = std::min({replaced, above[j + 1] + 1, row[j] + 1});
    }
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string_view last_part(std::string_view key) {
  const auto dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

}  // namespace

const std::vector<OptionRow>& option_table() {
  static const std::vector<OptionRow> table = built_table();
  return table;
}

const OptionRow* find_option(std::string_view key) {
  const auto& table = option_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const OptionRow& row) { return row.key == key; });
  return found == table.end() ? nullptr : &*found;
}

std::string_view section_of(const OptionRow& row) {
  const std::string_view key = row.key;
  return key.substr(0, key.rfind('.'));
}

Value default_value(const OptionRow& row) {
  return row.member.get(Options{});
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  constexpr std::size_t kNameBytesMax = 128;  // longer ones are not typing mistakes
  if (name.size() > kNameBytesMax) return {};
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 4) + 1;
  std::string best;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (!best.empty()) return best;
  // The beginning of a name, or the right name in the wrong section.
  for (const std::string& candidate : known) {
    const bool is_beginning = name.size() >= 3 && candidate.starts_with(name);
    if (is_beginning || last_part(candidate) == last_part(name)) return candidate;
  }
  return {};
}

}  // namespace engramd::config
