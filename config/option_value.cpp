#include "config/option_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "config/option_table.h"

namespace engramd::config {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::string number_text(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

// TOML and JSON tell 48 from 48.0; keep the decimal point so that a number reads back as one.
std::string toml_number(double value) {
  std::string text = number_text(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      constexpr std::string_view kHex = "0123456789abcdef";
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

template <class Items, class Format>
std::string joined(const Items& items, std::string_view separator, Format format) {
  std::string out;
  for (const auto& item : items) {
    if (!out.empty()) out += separator;
    out += format(item);
  }
  return out;
}

std::string range_text(const OptionRow& row) {
  const bool whole =
      row.member.type == ValueType::kInteger || row.member.type == ValueType::kIntegerList;
  const auto text = [whole](double bound) {
    return whole ? std::to_string(static_cast<std::int64_t>(bound)) : number_text(bound);
  };
  return "from " + text(row.minimum) + " to " + text(row.maximum);
}

bool in_range(const OptionRow& row, double value) {
  return value >= row.minimum && value <= row.maximum;  // false for nan
}

bool is_device(std::string_view text) {
  if (text == "auto" || text == "cpu") return true;
  if (!text.starts_with("cuda:")) return false;
  text.remove_prefix(5);
  return !text.empty() && text.size() <= 3 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// A password in a URL would be printed with it, so such a URL is not taken at all.
bool is_url(std::string_view text) {
  const std::size_t scheme = text.starts_with("http://") ? 7 : text.starts_with("https://") ? 8 : 0;
  if (scheme == 0) return false;
  const std::string_view rest = text.substr(scheme);
  const std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
  return !host.empty() && host.find('@') == std::string_view::npos &&
         text.find(' ') == std::string_view::npos;
}

bool is_variable_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::all_of(text.begin(), text.end(), allowed);
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// As a Host header has it: a name or an address, an IPv6 address in brackets, maybe a port.
bool is_host(std::string_view text) {
  const auto name_end = text.starts_with('[') ? text.find(']') + 1 : text.find(':');
  const std::string_view name = text.substr(0, name_end);
  const std::string_view rest = text.substr(name.size());
  const auto allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view(".-_:[]").find(c) != std::string_view::npos;
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), allowed) &&
         (rest.empty() || (rest[0] == ':' && is_port(rest.substr(1))));
}

// As an Origin header has it: a scheme and a host, and nothing after them.
bool is_origin(std::string_view text) {
  const auto scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos || scheme_end == 0) return false;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.';
  };
  return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(scheme_end),
                     allowed) &&
         is_host(text.substr(scheme_end + 3));
}

bool is_alias(std::string_view text) {
  const std::size_t equals = text.rfind('=');
  return equals != std::string_view::npos && equals > 0 && equals + 1 < text.size();
}

bool has_syntax(const OptionRow& row, std::string_view text) {
  const bool clean = std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (!clean || text.size() > kTextBytesMax) return false;
  switch (row.syntax) {
    case Syntax::kAny:
    case Syntax::kPath:
      return true;
    case Syntax::kDevice:
      return is_device(text);
    case Syntax::kUrl:
      return text.empty() || is_url(text);
    case Syntax::kVariableName:
      return text.empty() || is_variable_name(text);
    case Syntax::kHost:
      return is_host(text);
    case Syntax::kOrigin:
      return is_origin(text);
    case Syntax::kAlias:
      return is_alias(text);
  }
  return false;
}

// What was found, for a message. People paste keys into the wrong place: a text that should have
// been the name of a variable or a URL is not repeated.
std::string got_text(const OptionRow& row, const FoundValue& found) {
  if (!found.value) return found.kind;
  const bool may_be_secret = row.syntax == Syntax::kVariableName || row.syntax == Syntax::kUrl;
  const auto* text = std::get_if<std::string>(&*found.value);
  if (text && may_be_secret) return "a text of " + std::to_string(text->size()) + " bytes";
  if (text && text->size() > 80) return toml_string(text->substr(0, 80)) + "...";
  return to_toml(*found.value);
}

std::optional<double> as_number(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    return static_cast<double>(*integer);
  }
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

std::optional<Value> to_integer(const OptionRow& row, const Value& value) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  if (!integer || !in_range(row, static_cast<double>(*integer))) return std::nullopt;
  return value;
}

std::optional<Value> to_number(const OptionRow& row, const Value& value) {
  const std::optional<double> number = as_number(value);
  if (!number || !in_range(row, *number)) return std::nullopt;
  return *number;
}

std::optional<Value> to_choice(const OptionRow& row, const Value& value) {
  // `allow_remote = true` is natural to write where the choices are auto, true, false.
  const auto* flag = std::get_if<bool>(&value);
  const auto* text = std::get_if<std::string>(&value);
  if (!flag && !text) return std::nullopt;
  const std::string name = flag ? (*flag ? "true" : "false") : *text;
  const auto& choices = row.member.choices;
  if (std::find(choices.begin(), choices.end(), name) == choices.end()) return std::nullopt;
  return name;
}

std::optional<Value> to_list(const OptionRow& row, const Value& value) {
  std::vector<double> numbers;
  const auto* integers = std::get_if<std::vector<std::int64_t>>(&value);
  if (integers) {
    numbers.assign(integers->begin(), integers->end());
  } else if (const auto* doubles = std::get_if<std::vector<double>>(&value)) {
    numbers = *doubles;
  } else {
    return std::nullopt;
  }
  if (numbers.size() > kListItemsMax) return std::nullopt;
  for (const double number : numbers) {
    if (!in_range(row, number)) return std::nullopt;
  }
  if (row.member.type == ValueType::kNumberList) return numbers;
  if (!integers) return std::nullopt;
  return value;
}

std::optional<Value> to_text_list(const OptionRow& row, const Value& value) {
  // An empty list has no type of its own.
  const auto* none = std::get_if<std::vector<std::int64_t>>(&value);
  if (none && none->empty()) return std::vector<std::string>();
  const auto* texts = std::get_if<std::vector<std::string>>(&value);
  if (!texts || texts->size() > kListItemsMax) return std::nullopt;
  for (const std::string& text : *texts) {
    if (text.find(',') != std::string::npos || !has_syntax(row, text)) return std::nullopt;
  }
  return value;
}

std::optional<Value> converted(const OptionRow& row, const Value& value) {
  switch (row.member.type) {
    case ValueType::kBool:
      if (std::holds_alternative<bool>(value)) return value;
      return std::nullopt;
    case ValueType::kInteger:
      return to_integer(row, value);
    case ValueType::kNumber:
      return to_number(row, value);
    case ValueType::kText: {
      const auto* text = std::get_if<std::string>(&value);
      if (text && has_syntax(row, *text)) return value;
      return std::nullopt;
    }
    case ValueType::kChoice:
      return to_choice(row, value);
    case ValueType::kIntegerList:
    case ValueType::kNumberList:
      return to_list(row, value);
    case ValueType::kTextList:
      return to_text_list(row, value);
  }
  return std::nullopt;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string> list_items(std::string_view text) {
  std::vector<std::string> items;
  while (!trimmed(text).empty()) {
    const auto comma = std::min(text.find(','), text.size());
    items.emplace_back(trimmed(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

template <class Number>
std::optional<Value> parse_list(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<Number> numbers;
  for (const std::string& item : list_items(text)) {
    const auto number = parse_number<Number>(item);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

template <class T>
std::optional<Value> as_value(const std::optional<T>& item) {
  if (!item) return std::nullopt;
  return Value(*item);
}

std::optional<Value> parsed(ValueType type, std::string_view text) {
  switch (type) {
    case ValueType::kBool:
      return as_value(parse_bool_word(text));
    case ValueType::kInteger:
      return as_value(parse_number<std::int64_t>(text));
    case ValueType::kNumber:
      return as_value(parse_number<double>(text));
    case ValueType::kText:
    case ValueType::kChoice:
      return std::string(text);
    case ValueType::kIntegerList:
      return parse_list<std::int64_t>(text);
    case ValueType::kNumberList:
      return parse_list<double>(text);
    case ValueType::kTextList:
      return list_items(text);
  }
  return std::nullopt;
}

std::string expected_text(const OptionRow& row) {
  switch (row.syntax) {
    case Syntax::kAny:
      return "a text without control characters";
    case Syntax::kPath:
      return "a path";
    case Syntax::kDevice:
      return "auto, cpu or cuda:N";
    case Syntax::kUrl:
      return "an http:// or https:// address without user and password";
    case Syntax::kVariableName:
      return "the name of an environment variable (never the key itself)";
    case Syntax::kHost:
      return "a host name or address, maybe with :port";
    case Syntax::kOrigin:
      return "an origin, scheme://host or scheme://host:port";
    case Syntax::kAlias:
      return "name=local name";
  }
  return "a text";
}

}  // namespace

std::optional<bool> parse_bool_word(std::string_view text) {
  constexpr std::array<std::string_view, 4> kTrue = {"true", "on", "yes", "1"};
  constexpr std::array<std::string_view, 4> kFalse = {"false", "off", "no", "0"};
  if (std::find(kTrue.begin(), kTrue.end(), text) != kTrue.end()) return true;
  if (std::find(kFalse.begin(), kFalse.end(), text) != kFalse.end()) return false;
  return std::nullopt;
}

std::string expected_value(const OptionRow& row) {
  switch (row.member.type) {
    case ValueType::kBool:
      return "true or false";
    case ValueType::kInteger:
      return "an integer " + range_text(row);
    case ValueType::kNumber:
      return "a number " + range_text(row);
    case ValueType::kText:
      return expected_text(row);
    case ValueType::kChoice:
      return "one of " + joined(row.member.choices, ", ", [](auto name) { return name; });
    case ValueType::kIntegerList:
      return "a list of up to " + std::to_string(kListItemsMax) + " integers " + range_text(row);
    case ValueType::kNumberList:
      return "a list of up to " + std::to_string(kListItemsMax) + " numbers " + range_text(row);
    case ValueType::kTextList:
      return "a list of up to " + std::to_string(kListItemsMax) + " texts, each " +
             expected_text(row);
  }
  return {};
}

Result<Value> convert(const OptionRow& row, const FoundValue& found) {
  if (found.value) {
    if (std::optional<Value> value = converted(row, *found.value)) return *value;
  }
  return invalid_argument("expected " + expected_value(row) + ", got " + got_text(row, found));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

Result<Value> parse_text(const OptionRow& row, std::string_view text) {
  std::optional<Value> value = parsed(row.member.type, text);
  // An unreadable number is reported as the text that stands there.
  return convert(row, {value ? std::move(*value) : Value(std::string(text)), {}});
}

std::string to_toml(const Value& value) {
  return std::visit(
      Overloaded{
          [](bool flag) -> std::string { return flag ? "true" : "false"; },
          [](std::int64_t number) { return std::to_string(number); },
          [](double number) { return toml_number(number); },
          [](const std::string& text) { return toml_string(text); },
          [](const std::vector<std::int64_t>& items) {
            return "[" + joined(items, ", ", [](auto item) { return std::to_string(item); }) + "]";
          },
          [](const std::vector<double>& items) {
            return "[" + joined(items, ", ", toml_number) + "]";
          },
          [](const std::vector<std::string>& items) {
            return "[" + joined(items, ", ", toml_string) + "]";
          },
      },
      value);
}

std::string to_text(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    return joined(*texts, ",", [](const std::string& text) { return text; });
  }
  std::string out = to_toml(value);
  if (out.starts_with('[')) out = out.substr(1, out.size() - 2);
  std::erase(out, ' ');
  return out;
}

}  // namespace engramd::config
