#include "engine/runtime/template/methods.h"

#include <algorithm>
#include <limits>

namespace engramd::engine::jinja {
namespace {

using TextMethod = Value (*)(Execution&, std::string_view self, const Bound&);

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
char to_lower(char c) {
  return is_upper(c) ? static_cast<char>(c + 32) : c;
}
char to_upper(char c) {
  return is_lower(c) ? static_cast<char>(c - 32) : c;
}

// Python's str.isspace: White_Space of Unicode and U+001C..1F.
bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_absent(const Value* value) {
  return value == nullptr || value->is<None>();
}

// The argument's text; an error unless it is a string.
std::string_view need_text(Execution& run, const Value* value, const char* what) {
  if (value != nullptr && value->is<Text>()) return **value->as<Text>();
  if (!run.failed()) {
    run.fail(std::string(what) + " must be a string, got " +
             (value == nullptr ? "nothing" : type_name(*value)));
  }
  return {};
}

std::int64_t need_integer(Execution& run, const Value* value, std::int64_t absent,
                          const char* what) {
  if (is_absent(value)) return absent;
  if (const auto integer = as_integer(*value)) return *integer;
  run.fail(std::string(what) + " must be an integer, got " + type_name(*value));
  return absent;
}

Value strip_method(Execution& run, std::string_view self, Side side, const Bound& bound) {
  return run.text(std::string(strip(run, self, side, bound[0])));
}

// Runs of white space separate; none at the ends.
Value split_words(Execution& run, std::string_view self, std::int64_t splits_max) {
  std::vector<Value> parts;
  std::string_view rest = strip(run, self, Side::kLeft, nullptr);
  while (!rest.empty() && !run.failed()) {
    std::size_t end = 0;
    while (end < rest.size() &&
           !is_space(decode_character(rest.substr(end, character_bytes(rest, end))))) {
      end += character_bytes(rest, end);
    }
    if (static_cast<std::int64_t>(parts.size()) == splits_max) {
      parts.push_back(run.text(std::string(strip(run, rest, Side::kRight, nullptr))));
      break;
    }
    parts.push_back(run.text(std::string(rest.substr(0, end))));
    rest = strip(run, rest.substr(end), Side::kLeft, nullptr);
  }
  return run.list(std::move(parts));
}

Value split(Execution& run, std::string_view self, const Bound& bound) {
  const std::int64_t given = need_integer(run, bound[1], -1, "maxsplit");
  const std::int64_t splits_max = given < 0 ? std::numeric_limits<std::int64_t>::max() : given;
  if (is_absent(bound[0])) return split_words(run, self, splits_max);
  const std::string_view separator = need_text(run, bound[0], "separator");
  if (separator.empty()) return run.fail("empty separator");
  std::vector<Value> parts;
  std::size_t begin = 0;
  for (std::size_t found = self.find(separator);
       found != std::string_view::npos && !run.failed() &&
       static_cast<std::int64_t>(parts.size()) < splits_max;
       found = self.find(separator, begin)) {
    parts.push_back(run.text(std::string(self.substr(begin, found - begin))));
    begin = found + separator.size();
  }
  parts.push_back(run.text(std::string(self.substr(begin))));
  return run.list(std::move(parts));
}

Value rsplit(Execution& run, std::string_view self, const Bound& bound) {
  const std::int64_t splits_max = need_integer(run, bound[1], -1, "maxsplit");
  if (splits_max < 0) return split(run, self, {bound[0]});
  const std::string_view separator = need_text(run, bound[0], "separator");
  if (separator.empty()) return run.fail("empty separator");
  std::vector<Value> parts;
  while (static_cast<std::int64_t>(parts.size()) < splits_max && !run.failed()) {
    const std::size_t found = self.rfind(separator);
    if (found == std::string_view::npos) break;
    parts.push_back(run.text(std::string(self.substr(found + separator.size()))));
    self = self.substr(0, found);
  }
  parts.push_back(run.text(std::string(self)));
  std::reverse(parts.begin(), parts.end());
  return run.list(std::move(parts));
}

Value splitlines(Execution& run, std::string_view self, const Bound&) {
  std::vector<Value> lines;
  while (!self.empty() && !run.failed()) {
    const std::size_t end = std::min(self.find_first_of("\r\n"), self.size());
    lines.push_back(run.text(std::string(self.substr(0, end))));
    const std::size_t newline = self.substr(end, 2) == "\r\n" ? 2 : 1;
    self = self.substr(std::min(end + newline, self.size()));
  }
  return run.list(std::move(lines));
}

// startswith and endswith take one text or a list of them.
template <class Matches>
Value any_affix(Execution& run, const Value* affixes, Matches matches) {
  if (affixes == nullptr || !affixes->is<List>()) {
    return {matches(need_text(run, affixes, "prefix or suffix"))};
  }
  bool found = false;
  for (const Value& affix : (*affixes->as<List>())->items) {
    found = found || matches(need_text(run, &affix, "prefix or suffix"));
  }
  return {found};
}

Value title(Execution& run, std::string_view self, const Bound&) {
  std::string text;
  bool in_word = false;
  for (const char c : self) {
    text += in_word ? to_lower(c) : to_upper(c);
    in_word = is_lower(c) || is_upper(c) || (static_cast<unsigned char>(c) & 0x80U) != 0;
  }
  return run.text(std::move(text));
}

Value join_method(Execution& run, std::string_view self, const Bound& bound) {
  if (bound[0] == nullptr) return run.fail("join needs a list");
  std::string text;
  const List items = iterate(run, *bound[0]);
  for (std::size_t i = 0; i < items->items.size() && !run.failed(); ++i) {
    if (i > 0) run.append(text, self);
    run.append(text, need_text(run, &items->items[i], "what join() joins"));
  }
  return run.text(std::move(text));
}

Value count(Execution& run, std::string_view self, const Bound& bound) {
  const std::string_view part = need_text(run, bound[0], "what is counted");
  if (part.empty()) return {character_count(self) + 1};
  std::int64_t n = 0;
  for (std::size_t at = self.find(part); at != std::string_view::npos;
       at = self.find(part, at + part.size())) {
    ++n;
  }
  return {n};
}

Value find(Execution& run, std::string_view self, const Bound& bound) {
  const std::size_t at = self.find(need_text(run, bound[0], "what is looked for"));
  return {at == std::string_view::npos ? std::int64_t{-1} : character_count(self.substr(0, at))};
}

Value starts_with(Execution& run, std::string_view self, const Bound& bound) {
  return any_affix(run, bound[0], [&](std::string_view a) { return self.starts_with(a); });
}
Value ends_with(Execution& run, std::string_view self, const Bound& bound) {
  return any_affix(run, bound[0], [&](std::string_view a) { return self.ends_with(a); });
}
Value remove_prefix(Execution& run, std::string_view self, const Bound& bound) {
  const std::string_view prefix = need_text(run, bound[0], "prefix");
  return run.text(std::string(self.substr(self.starts_with(prefix) ? prefix.size() : 0)));
}
Value remove_suffix(Execution& run, std::string_view self, const Bound& bound) {
  const std::string_view suffix = need_text(run, bound[0], "suffix");
  const std::size_t cut = self.ends_with(suffix) ? suffix.size() : 0;
  return run.text(std::string(self.substr(0, self.size() - cut)));
}
Value is_digits(Execution&, std::string_view self, const Bound&) {
  return {!self.empty() &&
          std::all_of(self.begin(), self.end(), [](char c) { return c >= '0' && c <= '9'; })};
}

struct TextMethodRow {
  std::string_view name;
  Parameters parameters;
  TextMethod method;
};

const std::array<TextMethodRow, 20> kTextMethods = {{
    {"strip",
     {"chars"},
     [](Execution& r, std::string_view s, const Bound& b) {
       return strip_method(r, s, Side::kBoth, b);
     }},
    {"lstrip",
     {"chars"},
     [](Execution& r, std::string_view s, const Bound& b) {
       return strip_method(r, s, Side::kLeft, b);
     }},
    {"rstrip",
     {"chars"},
     [](Execution& r, std::string_view s, const Bound& b) {
       return strip_method(r, s, Side::kRight, b);
     }},
    {"split", {"sep", "maxsplit"}, split},
    {"rsplit", {"sep", "maxsplit"}, rsplit},
    {"splitlines", {}, splitlines},
    {"startswith", {"prefix"}, starts_with},
    {"endswith", {"suffix"}, ends_with},
    {"replace", {"old", "new", "count"}, replace},
    {"upper",
     {},
     [](Execution& r, std::string_view s, const Bound&) { return r.text(upper_ascii(s)); }},
    {"lower",
     {},
     [](Execution& r, std::string_view s, const Bound&) { return r.text(lower_ascii(s)); }},
    {"capitalize",
     {},
     [](Execution& r, std::string_view s, const Bound&) { return r.text(capitalize_ascii(s)); }},
    {"title", {}, title},
    {"join", {"iterable"}, join_method},
    {"find", {"sub"}, find},
    {"count", {"sub"}, count},
    {"removeprefix", {"prefix"}, remove_prefix},
    {"removesuffix", {"suffix"}, remove_suffix},
    {"isdigit", {}, is_digits},
    {"isnumeric", {}, is_digits},
}};

constexpr std::array<std::string_view, 4> kDictMethods = {"get", "items", "keys", "values"};
constexpr std::array<std::string_view, 1> kLoopMethods = {"cycle"};
constexpr std::array<std::string_view, 5> kGlobals = {"dict", "namespace", "raise_exception",
                                                      "range", "strftime_now"};

template <class Names>
std::optional<std::string_view> find_in(const Names& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional(*found);
}

Value call_dict_method(Execution& run, const ObjectData& self, std::string_view name,
                       const Arguments& arguments) {
  Bound bound{};
  const bool is_get = name == "get";
  if (!bind_arguments(run, name, is_get ? Parameters{"key", "default"} : Parameters{}, arguments,
                      bound)) {
    return {};
  }
  if (is_get) {
    if (bound[0] == nullptr) return run.fail("get needs a key");
    const Text* key = bound[0]->as<Text>();
    if (!run.charge(static_cast<std::int64_t>(self.entries.size()) / 16)) return {};
    const Value* found = key == nullptr ? nullptr : self.find(**key);
    if (found != nullptr) return *found;
    return bound[1] == nullptr ? Value{None{}} : *bound[1];
  }
  if (name == "items") return items_of(run, self);
  std::vector<Value> values;
  for (const auto& [key, value] : self.entries) {
    values.push_back(name == "keys" ? run.text(key) : value);
  }
  return run.list(std::move(values));
}

Value range(Execution& run, const Arguments& arguments) {
  Bound bound{};
  if (!bind_arguments(run, "range", {"start", "stop", "step"}, arguments, bound)) return {};
  if (bound[0] == nullptr) return run.fail("range needs one to three integers");
  std::int64_t start = need_integer(run, bound[0], 0, "range's start");
  std::int64_t stop = need_integer(run, bound[1], 0, "range's stop");
  const std::int64_t step = need_integer(run, bound[2], 1, "range's step");
  if (bound[1] == nullptr) stop = std::exchange(start, 0);
  if (step == 0) return run.fail("range's step cannot be zero");
  std::vector<Value> items;
  for (std::int64_t i = start; (step > 0 ? i < stop : i > stop) && run.charge(1);) {
    items.push_back({i});
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return run.list(std::move(items));
}

Value make_entries(Execution& run, bool is_namespace, const Arguments& arguments) {
  std::vector<std::pair<std::string, Value>> entries;
  for (const Value& base : arguments.positional) {
    const Object* object = base.as<Object>();
    if (object == nullptr || arguments.positional.size() > 1) {
      return run.fail("namespace and dict take named values or one dict");
    }
    entries = (*object)->entries;
  }
  for (const std::pair<std::string, Value>& named : arguments.named) {
    if (!run.charge(1 + static_cast<std::int64_t>(entries.size()) / 16)) return {};
    const auto same = std::find_if(entries.begin(), entries.end(),
                                   [&](const auto& entry) { return entry.first == named.first; });
    if (same == entries.end()) {
      entries.push_back(named);
    } else {
      same->second = named.second;
    }
  }
  if (!is_namespace) return run.object(std::move(entries));
  Value result = run.new_namespace();
  if (run.failed() || !run.charge(static_cast<std::int64_t>(entries.size()))) return {};
  for (auto& [name, value] : entries) {
    (*result.as<Namespace>())->entries[name] = std::move(value);
  }
  return result;
}

Value cycle(Execution& run, const LoopData& loop, const Arguments& arguments) {
  if (arguments.positional.empty()) return run.fail("loop.cycle needs values");
  const auto n = static_cast<std::int64_t>(arguments.positional.size());
  return arguments.positional[static_cast<std::size_t>(loop.index0 % n)];
}

Value call_global(Execution& run, std::string_view name, const Arguments& arguments) {
  if (name == "range") return range(run, arguments);
  if (name == "namespace" || name == "dict") {
    return make_entries(run, name == "namespace", arguments);
  }
  if (name == "raise_exception") {
    Bound bound{};
    if (!bind_arguments(run, name, {"message"}, arguments, bound)) return {};
    return run.fail(bound[0] == nullptr ? "" : to_text(run, *bound[0]));
  }
  return run.fail(std::string(name) +
                  " is not available: a prompt must not depend on the clock; "
                  "give the template a date variable");
}

}  // namespace

bool bind_arguments(Execution& run, std::string_view function, const Parameters& parameters,
                    const Arguments& arguments, Bound& bound) {
  const auto n = static_cast<std::size_t>(
      std::find(parameters.begin(), parameters.end(), std::string_view()) - parameters.begin());
  if (arguments.positional.size() > n) {
    run.fail(std::string(function) + " takes at most " + std::to_string(n) + " arguments, got " +
             std::to_string(arguments.positional.size()));
    return false;
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto which = static_cast<std::size_t>(
        std::find(parameters.begin(), parameters.begin() + static_cast<std::ptrdiff_t>(n), name) -
        parameters.begin());
    if (which == n || bound[which] != nullptr) {
      run.fail(std::string(function) + " does not take an argument '" + name.substr(0, 100) + "'");
      return false;
    }
    bound[which] = &value;
  }
  return !run.failed();
}

std::optional<std::string_view> find_method(const Value& self, std::string_view name) {
  if (self.is<Object>()) return find_in(kDictMethods, name);
  if (self.is<Loop>()) return find_in(kLoopMethods, name);
  if (!self.is<Text>()) return std::nullopt;
  for (const TextMethodRow& row : kTextMethods) {
    if (row.name == name) return row.name;
  }
  return std::nullopt;
}

std::optional<std::string_view> find_global(std::string_view name) {
  return find_in(kGlobals, name);
}

std::optional<Value> loop_attribute(const LoopData& loop, std::string_view name) {
  const auto& items = loop.items->items;
  const auto length = static_cast<std::int64_t>(items.size());
  const auto item = [&](std::int64_t i) {
    return i >= 0 && i < length ? items[static_cast<std::size_t>(i)]
                                : Value{Undefined{"there is no item before the first or after the "
                                                  "last"}};
  };
  if (name == "index0") return Value{loop.index0};
  if (name == "index") return Value{loop.index0 + 1};
  if (name == "first") return Value{loop.index0 == 0};
  if (name == "last") return Value{loop.index0 + 1 == length};
  if (name == "length") return Value{length};
  if (name == "revindex0") return Value{length - loop.index0 - 1};
  if (name == "revindex") return Value{length - loop.index0};
  if (name == "depth0") return Value{std::int64_t{0}};  // counts recursive loops only
  if (name == "depth") return Value{std::int64_t{1}};
  if (name == "previtem") return item(loop.index0 - 1);
  if (name == "nextitem") return item(loop.index0 + 1);
  return std::nullopt;
}

Value call_function(Execution& run, const Function& function, const Arguments& arguments) {
  if (function.self == nullptr) return call_global(run, function.name, arguments);
  if (const Object* self = function.self->as<Object>()) {
    return call_dict_method(run, **self, function.name, arguments);
  }
  if (const Loop* self = function.self->as<Loop>()) return cycle(run, **self, arguments);
  const std::string_view self = **function.self->as<Text>();
  const auto row = std::find_if(kTextMethods.begin(), kTextMethods.end(),
                                [&](const auto& r) { return r.name == function.name; });
  Bound bound{};
  if (!run.charge_text(self) || !bind_arguments(run, row->name, row->parameters, arguments, bound))
    return {};
  return row->method(run, self, bound);
}

std::string lower_ascii(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), to_lower);
  return result;
}

std::string upper_ascii(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), to_upper);
  return result;
}

std::string capitalize_ascii(std::string_view text) {
  std::string result = lower_ascii(text);
  if (!result.empty()) result[0] = to_upper(result[0]);
  return result;
}

std::string_view strip(Execution& run, std::string_view text, Side side, const Value* characters) {
  const bool white = is_absent(characters);
  const std::string_view set = white ? "" : need_text(run, characters, "characters to strip");
  const auto goes = [&](std::string_view character) {
    if (white) return is_space(decode_character(character));
    return run.charge_text(set) && set.find(character) != std::string_view::npos;
  };
  if (side != Side::kRight) {
    while (!text.empty() && goes(text.substr(0, character_bytes(text, 0)))) {
      text.remove_prefix(character_bytes(text, 0));
    }
  }
  while (side != Side::kLeft && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && text.size() - begin < 4 &&
           (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) {
      --begin;
    }
    if (character_bytes(text, begin) != text.size() - begin) begin = text.size() - 1;
    if (!goes(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

Value replace(Execution& run, std::string_view text, const Bound& old_new_count) {
  const std::string_view old = need_text(run, old_new_count[0], "what replace() looks for");
  const std::string_view with = need_text(run, old_new_count[1], "the replacement");
  std::int64_t left = need_integer(run, old_new_count[2], -1, "replace()'s count");
  std::string result;
  std::size_t begin = 0;
  while (begin <= text.size() && left != 0 && !run.failed()) {
    const std::size_t found = text.find(old, begin);
    if (found == std::string_view::npos) break;
    run.append(result, text.substr(begin, found - begin));
    run.append(result, with);
    begin = found + old.size();
    if (old.empty()) {  // before every character and at the end
      if (begin == text.size()) return run.text(std::move(result));
      const std::size_t n = character_bytes(text, begin);
      run.append(result, text.substr(begin, n));
      begin += n;
    }
    --left;
  }
  run.append(result, text.substr(std::min(begin, text.size())));
  return run.text(std::move(result));
}

Value items_of(Execution& run, const ObjectData& object) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : object.entries) {
    pairs.push_back(run.list({run.text(key), value}));
  }
  return run.list(std::move(pairs));
}

}  // namespace engramd::engine::jinja
