// One option's value between its source and Options: the types a value can have, how it is written
// in TOML, JSON and plain text, and how a value found somewhere is turned into what a row wants.
// Pure functions on plain values, any thread. Not here: which options exist (option_table.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/result.h"

namespace engramd::config {

struct OptionRow;

using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                           std::vector<double>, std::vector<std::string>>;

// What a file holds at a key: a value, or a kind that no option takes ("null", "a date", ...).
struct FoundValue {
  std::optional<Value> value;
  std::string kind;  // for messages when there is no value
};

// Both refuse what the row does not allow; the message is "expected ..., got ...".
Result<Value> convert(const OptionRow& row, const FoundValue& found);
// Words for booleans: true/false, on/off, yes/no, 1/0; lists are separated by commas.
Result<Value> parse_text(const OptionRow& row, std::string_view text);
std::optional<bool> parse_bool_word(std::string_view text);

// "an integer from 0 to 64", "one of cpu, ...": what a row takes, for messages and references.
std::string expected_value(const OptionRow& row);

// Without the blanks around it.
std::string_view trimmed(std::string_view text);

std::string to_toml(const Value& value);  // also valid JSON, except that JSON forbids inf and nan
std::string to_text(const Value& value);  // as a flag or an environment variable takes it

}  // namespace engramd::config
