#include "engine/runtime/template/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>

#include "engine/runtime/template/operators.h"

namespace engramd::engine::jinja {
namespace {

using Filter = Value (*)(Execution&, const Value& input, const Bound&);

bool flag(const Value* value) {
  return value != nullptr && truthy(*value);
}

std::int64_t integer_or(Execution& run, const Value* value, std::int64_t absent) {
  if (value == nullptr || value->is<None>()) return absent;
  const auto integer = as_integer(*value);
  if (!integer) run.fail(std::string("expected an integer, got ") + type_name(*value));
  return integer.value_or(absent);
}

// a.b.0 from a map or selectattr argument; what is missing on the way becomes the default
Value attribute_path(Execution& run, Value value, std::string_view path, const Value* absent) {
  while (!run.failed()) {
    const std::string_view part = path.substr(0, path.find('.'));
    std::int64_t index = 0;
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = status == std::errc() && end == part.data() + part.size();
    value = subscript(run, value, is_index ? Value{index} : run.text(std::string(part)));
    if (absent != nullptr && value.is<Undefined>()) value = *absent;
    if (part.size() == path.size()) break;
    path.remove_prefix(part.size() + 1);
  }
  return value;
}

Value attribute_of(Execution& run, const Value& item, const Value& name,
                   const Value* absent = nullptr) {
  if (const Text* path = name.as<Text>()) return attribute_path(run, item, **path, absent);
  return subscript(run, item, name);
}

Value length(Execution& run, const Value& input, const Bound&) {
  if (const Text* text = input.as<Text>()) {
    return run.charge_text(**text) ? Value{character_count(**text)} : Value{};
  }
  if (const List* list = input.as<List>()) {
    return {static_cast<std::int64_t>((*list)->items.size())};
  }
  if (const Object* object = input.as<Object>()) {
    return {static_cast<std::int64_t>((*object)->entries.size())};
  }
  if (input.is<Undefined>()) return {std::int64_t{0}};
  return run.fail(std::string("object of type '") + type_name(input) + "' has no length");
}

Value trim(Execution& run, const Value& input, const Bound& bound) {
  const std::string text = to_text(run, input);
  return run.text(std::string(strip(run, text, Side::kBoth, bound[0])));
}

Value to_json(Execution& run, const Value& input, const Bound& bound) {
  constexpr std::int64_t kIndentMax = 16;
  const std::int64_t indent = integer_or(run, bound[0], -1);
  std::string text;
  append_json(run, text, input, static_cast<int>(std::clamp<std::int64_t>(indent, -1, kIndentMax)));
  return run.text(std::move(text));
}

Value default_value(Execution& run, const Value& input, const Bound& bound) {
  if (!input.is<Undefined>() && (truthy(input) || !flag(bound[1]))) return input;
  return bound[0] != nullptr ? *bound[0] : run.text("");
}

Value join(Execution& run, const Value& input, const Bound& bound) {
  const std::string separator = bound[0] != nullptr ? to_text(run, *bound[0]) : "";
  const List items = iterate(run, input);
  std::string text;
  for (std::size_t i = 0; i < items->items.size() && !run.failed(); ++i) {
    if (i > 0) run.append(text, separator);
    const Value& item = items->items[i];
    append_text(run, text, bound[1] != nullptr ? attribute_of(run, item, *bound[1]) : item);
  }
  return run.text(std::move(text));
}

Value first(Execution& run, const Value& input, const Bound&) {
  const List items = iterate(run, input);
  return items->items.empty() ? Value{Undefined{"no first item, sequence was empty"}}
                              : items->items.front();
}

Value last(Execution& run, const Value& input, const Bound&) {
  const List items = iterate(run, input);
  return items->items.empty() ? Value{Undefined{"no last item, sequence was empty"}}
                              : items->items.back();
}

Value items(Execution& run, const Value& input, const Bound&) {
  if (input.is<Undefined>()) return run.list({});
  if (const Object* object = input.as<Object>()) return items_of(run, **object);
  return run.fail(std::string("items needs a mapping, got ") + type_name(input));
}

Value replace_filter(Execution& run, const Value& input, const Bound& bound) {
  return replace(run, to_text(run, input), bound);
}

Value reverse(Execution& run, const Value& input, const Bound&) {
  return slice(run, input.is<Text>() ? input : Value{iterate(run, input)}, {None{}}, {None{}},
               {std::int64_t{-1}});
}

// int and float read a text's whole content, white space around it allowed.
template <class Number>
std::optional<Number> parse_number(Execution& run, const Value& input) {
  const Text* text = input.as<Text>();
  if (text == nullptr) return std::nullopt;
  std::string_view digits = strip(run, **text, Side::kBoth, nullptr);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  Number number{};
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = status == std::errc() && end == digits.data() + digits.size();
  return whole ? std::optional(number) : std::nullopt;
}

Value to_integer(Execution& run, const Value& input, const Bound& bound) {
  if (const auto integer = as_integer(input)) return {*integer};
  if (const auto integer = parse_number<std::int64_t>(run, input)) return {*integer};
  const auto number = input.is<double>() ? as_number(input) : parse_number<double>(run, input);
  if (number && std::fabs(*number) < 0x1p63) return {static_cast<std::int64_t>(*number)};
  return bound[0] != nullptr ? *bound[0] : Value{std::int64_t{0}};
}

Value to_float(Execution& run, const Value& input, const Bound& bound) {
  if (const auto number = as_number(input)) return {*number};
  if (const auto number = parse_number<double>(run, input)) return {*number};
  return bound[0] != nullptr ? *bound[0] : Value{0.0};
}

Value absolute(Execution& run, const Value& input, const Bound&) {
  const auto number = as_number(input);
  if (!number) return run.fail(std::string("abs needs a number, got ") + type_name(input));
  if (*number < 0) return negate(run, input);
  return input.is<bool>() ? Value{*as_integer(input)} : input;
}

// First letters of words, which start after white space, a dash or an opening bracket.
Value title(Execution& run, const Value& input, const Bound&) {
  std::string text = lower_ascii(to_text(run, input));
  bool starts = true;
  for (char& c : text) {
    if (starts && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    starts = std::string_view("-({[< \t\n\r\f\v").find(c) != std::string_view::npos;
  }
  return run.text(std::move(text));
}

Value indent(Execution& run, const Value& input, const Bound& bound) {
  std::string margin;
  if (bound[0] != nullptr && bound[0]->is<Text>()) {
    margin = **bound[0]->as<Text>();
  } else {
    constexpr std::int64_t kMarginMax = 1000;
    margin.assign(static_cast<std::size_t>(
                      std::clamp<std::int64_t>(integer_or(run, bound[0], 4), 0, kMarginMax)),
                  ' ');
  }
  const std::string text = to_text(run, input);
  std::string result = flag(bound[1]) ? margin : "";
  for (std::size_t begin = 0; begin <= text.size() && !run.failed();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (begin > 0) {
      run.append(result, "\n");
      if (end > begin || flag(bound[2])) run.append(result, margin);
    }
    run.append(result, std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
  return run.text(std::move(result));
}

// Like Jinja, without regard to the case of letters. The keys are computed once.
Value sort_by(Execution& run, std::vector<std::pair<Value, Value>> keyed, bool descending) {
  for (auto& [key, value] : keyed) {
    if (const Text* text = key.as<Text>()) key = run.text(lower_ascii(**text));
  }
  // checked before sorting: std::sort needs an order that cannot fail
  for (std::size_t i = 1; i < keyed.size() && !run.failed(); ++i) {
    compare(run, Operator::kLess, keyed[0].first, keyed[i].first);
  }
  const auto n = static_cast<std::int64_t>(keyed.size());
  if (!run.charge(n * (1 + static_cast<std::int64_t>(std::log2(1.0 + static_cast<double>(n)))))) {
    return {};
  }
  std::stable_sort(keyed.begin(), keyed.end(), [descending](const auto& a, const auto& b) {
    const auto& [x, y] = descending ? std::tie(b.first, a.first) : std::tie(a.first, b.first);
    if (x.template is<Text>()) return **x.template as<Text>() < **y.template as<Text>();
    const auto i = as_integer(x), j = as_integer(y);
    return i && j ? *i < *j : as_number(x) < as_number(y);
  });
  std::vector<Value> values;
  for (auto& [key, value] : keyed) values.push_back(std::move(value));
  return run.list(std::move(values));
}

Value sort(Execution& run, const Value& input, const Bound& bound) {
  std::vector<std::pair<Value, Value>> keyed;
  const List items_in = iterate(run, input);
  for (const Value& item : items_in->items) {
    keyed.emplace_back(bound[1] != nullptr ? attribute_of(run, item, *bound[1]) : item, item);
  }
  return sort_by(run, std::move(keyed), flag(bound[0]));
}

Value dict_sort(Execution& run, const Value& input, const Bound& bound) {
  const Object* object = input.as<Object>();
  if (object == nullptr)
    return run.fail(std::string("dictsort needs a mapping, got ") + type_name(input));
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : (*object)->entries) {
    keyed.emplace_back(run.text(key), run.list({run.text(key), value}));
  }
  return sort_by(run, std::move(keyed), flag(bound[0]));
}

struct FilterRow {
  std::string_view name;
  Parameters parameters;
  Filter filter;
};

constexpr auto kText = [](Execution& run, const Value& input, const Bound&) {
  return input.is<Text>() ? input : run.text(to_text(run, input));
};
constexpr auto kUpper = [](Execution& run, const Value& input, const Bound&) {
  return run.text(upper_ascii(to_text(run, input)));
};
constexpr auto kLower = [](Execution& run, const Value& input, const Bound&) {
  return run.text(lower_ascii(to_text(run, input)));
};
constexpr auto kCapitalize = [](Execution& run, const Value& input, const Bound&) {
  return run.text(capitalize_ascii(to_text(run, input)));
};
constexpr auto kList = [](Execution& run, const Value& input, const Bound&) {
  return Value{iterate(run, input)};
};

const FilterRow kFilters[] = {
    {"abs", {}, absolute},
    {"capitalize", {}, kCapitalize},
    {"count", {}, length},
    {"d", {"default_value", "boolean"}, default_value},
    {"default", {"default_value", "boolean"}, default_value},
    {"dictsort", {"reverse"}, dict_sort},
    {"first", {}, first},
    {"float", {"default"}, to_float},
    {"indent", {"width", "first", "blank"}, indent},
    {"int", {"default"}, to_integer},
    {"items", {}, items},
    {"join", {"d", "attribute"}, join},
    {"last", {}, last},
    {"length", {}, length},
    {"list", {}, kList},
    {"lower", {}, kLower},
    {"replace", {"old", "new", "count"}, replace_filter},
    {"reverse", {}, reverse},
    {"safe", {}, kText},  // nothing is escaped here
    {"sort", {"reverse", "attribute"}, sort},
    {"string", {}, kText},
    {"title", {}, title},
    {"tojson", {"indent"}, to_json},
    {"trim", {"chars"}, trim},
    {"upper", {}, kUpper},
};

constexpr std::string_view kSelections[] = {"map", "select", "reject", "selectattr", "rejectattr"};

const FilterRow* find_row(std::string_view name) {
  const auto* row = std::find_if(std::begin(kFilters), std::end(kFilters),
                                 [&](const FilterRow& r) { return r.name == name; });
  return row == std::end(kFilters) ? nullptr : row;
}

bool is_selection(std::string_view name) {
  return std::find(std::begin(kSelections), std::end(kSelections), name) != std::end(kSelections);
}

// map(attribute='a.b', default=x) or map('filter', arguments...)
Value map_item(Execution& run, const Value& item, const Arguments& arguments) {
  if (!arguments.positional.empty()) {
    const Text* name = arguments.positional[0].as<Text>();
    if (name == nullptr || !is_filter(**name)) return run.fail("map needs the name of a filter");
    return apply_filter(
        run, **name, item,
        {{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named});
  }
  Bound bound{};
  if (!bind_arguments(run, "map", {"attribute", "default"}, arguments, bound)) return {};
  if (bound[0] == nullptr) return run.fail("map needs a filter or attribute=");
  return attribute_of(run, item, *bound[0], bound[1]);
}

// select(test...) and selectattr(attribute, test...), and their opposites
bool selects(Execution& run, const Value& item, bool by_attribute, const Arguments& arguments) {
  const auto& given = arguments.positional;
  const std::size_t test_at = by_attribute ? 1 : 0;
  if (given.size() < test_at) {
    run.fail("selectattr and rejectattr need an attribute");
    return false;
  }
  const Value subject = by_attribute ? attribute_of(run, item, given[0]) : item;
  if (given.size() == test_at) return truthy(subject);
  const Text* test = given[test_at].as<Text>();
  if (test == nullptr || !is_test(**test)) {
    run.fail("select and reject need the name of a test");
    return false;
  }
  const auto rest = given.begin() + static_cast<std::ptrdiff_t>(test_at) + 1;
  return apply_test(run, **test, subject, {{rest, given.end()}, arguments.named});
}

Value apply_selection(Execution& run, std::string_view name, const Value& input,
                      const Arguments& arguments) {
  const bool wanted = name.starts_with("select");
  std::vector<Value> results;
  const List items_in = iterate(run, input);
  for (const Value& item : items_in->items) {
    if (!run.charge(1)) return {};
    if (name == "map") {
      results.push_back(map_item(run, item, arguments));
    } else if (selects(run, item, name.ends_with("attr"), arguments) == wanted) {
      results.push_back(item);
    }
  }
  return run.list(std::move(results));
}

using Predicate = bool (*)(const Value&);

struct TestRow {
  std::string_view name;
  Predicate holds;
};
constexpr TestRow kTests[] = {
    {"boolean", [](const Value& v) { return v.is<bool>(); }},
    {"callable", [](const Value& v) { return v.is<Function>(); }},
    {"defined", [](const Value& v) { return !v.is<Undefined>(); }},
    {"false", [](const Value& v) { return v.is<bool>() && !*v.as<bool>(); }},
    {"float", [](const Value& v) { return v.is<double>(); }},
    {"integer", [](const Value& v) { return v.is<std::int64_t>(); }},
    {"iterable",
     [](const Value& v) {
       return v.is<Text>() || v.is<List>() || v.is<Object>() || v.is<Undefined>();
     }},
    {"mapping", [](const Value& v) { return v.is<Object>(); }},
    {"none", [](const Value& v) { return v.is<None>(); }},
    {"number", [](const Value& v) { return as_number(v).has_value(); }},
    {"sequence", [](const Value& v) { return v.is<Text>() || v.is<List>() || v.is<Object>(); }},
    {"string", [](const Value& v) { return v.is<Text>(); }},
    {"true", [](const Value& v) { return v.is<bool>() && *v.as<bool>(); }},
    {"undefined", [](const Value& v) { return v.is<Undefined>(); }},
};

struct ComparisonRow {
  std::string_view name;
  Operator comparison;
};
constexpr ComparisonRow kComparisons[] = {
    {"eq", Operator::kEqual},        {"equalto", Operator::kEqual},
    {"==", Operator::kEqual},        {"ne", Operator::kNotEqual},
    {"!=", Operator::kNotEqual},     {"lt", Operator::kLess},
    {"lessthan", Operator::kLess},   {"<", Operator::kLess},
    {"le", Operator::kLessEqual},    {"<=", Operator::kLessEqual},
    {"gt", Operator::kGreater},      {"greaterthan", Operator::kGreater},
    {">", Operator::kGreater},       {"ge", Operator::kGreaterEqual},
    {">=", Operator::kGreaterEqual}, {"in", Operator::kIn},
};

struct RemainderRow {
  std::string_view name;
  std::int64_t rest;
};
constexpr RemainderRow kRemainders[] = {{"even", 0}, {"odd", 1}};

template <class Rows>
auto find_name(const Rows& rows, std::string_view name) {
  const auto* row =
      std::find_if(std::begin(rows), std::end(rows), [&](const auto& r) { return r.name == name; });
  return row == std::end(rows) ? nullptr : row;
}

}  // namespace

bool is_filter(std::string_view name) {
  return find_row(name) != nullptr || is_selection(name);
}

bool is_test(std::string_view name) {
  return find_name(kTests, name) != nullptr || find_name(kComparisons, name) != nullptr ||
         find_name(kRemainders, name) != nullptr || name == "divisibleby";
}

Value apply_filter(Execution& run, std::string_view name, const Value& input,
                   const Arguments& arguments) {
  if (!run.charge(1)) return {};
  if (is_selection(name)) return apply_selection(run, name, input, arguments);
  const FilterRow* row = find_row(name);
  Bound bound{};
  if (!bind_arguments(run, name, row->parameters, arguments, bound)) return {};
  return row->filter(run, input, bound);
}

bool apply_test(Execution& run, std::string_view name, const Value& input,
                const Arguments& arguments) {
  if (!run.charge(1)) return false;
  const TestRow* plain = find_name(kTests, name);
  const RemainderRow* remainder = find_name(kRemainders, name);
  const bool has_operand = plain == nullptr && remainder == nullptr;
  Bound bound{};
  if (!bind_arguments(run, name, has_operand ? Parameters{"other"} : Parameters{}, arguments,
                      bound)) {
    return false;
  }
  if (plain != nullptr) return plain->holds(input);
  if (has_operand && bound[0] == nullptr) {
    run.fail("test '" + std::string(name) + "' needs a value to compare with");
    return false;
  }
  if (const ComparisonRow* row = find_name(kComparisons, name)) {
    return compare(run, row->comparison, input, *bound[0]);
  }
  const Value divisor = remainder != nullptr ? Value{std::int64_t{2}} : *bound[0];
  const Value rest = arithmetic(run, Operator::kModulo, input, divisor);
  return equal(run, rest, {remainder != nullptr ? remainder->rest : std::int64_t{0}});
}

}  // namespace engramd::engine::jinja
