#include "engine/runtime/template/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "engine/runtime/template/lexer.h"

namespace engramd::engine::jinja {
namespace {

// A string is charged one step per this many bytes: about what an evaluation step costs.
constexpr std::int64_t kBytesPerStep = 64;

int depth_of(const Value& value) {
  if (const List* list = value.as<List>()) return (*list)->depth;
  if (const Object* object = value.as<Object>()) return (*object)->depth;
  if (const Loop* loop = value.as<Loop>()) return (*loop)->items->depth + 1;
  if (const Function* function = value.as<Function>()) {
    return function->self == nullptr ? 0 : depth_of(*function->self) + 1;
  }
  return 0;
}

// repr() of a float: the shortest digits that read back, exponent below 1e-4 and from 1e16.
std::string float_text(double value, bool json) {
  if (std::isnan(value)) return json ? "NaN" : "nan";
  if (std::isinf(value)) {
    return std::string(value < 0 ? "-" : "") + (json ? "Infinity" : "inf");
  }
  const double size = std::fabs(value);
  const bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  std::array<char, 64> buffer;
  const auto [end, status] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                    exponent ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer.data(), end);
  if (!exponent && text.find('.') == std::string::npos) text += ".0";
  return text;
}

void append_string_repr(Execution& run, std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string quoted(1, quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      (quoted += '\\') += c;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      quoted += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (byte < 32 || byte == 127) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\x%02x", byte);
      quoted += escape.data();
    } else {
      quoted += c;
    }
  }
  run.append(out, quoted += quote);
}

void append_json_string(Execution& run, std::string& out, std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    constexpr std::string_view kPlain = "\"\\\n\r\t\f\b", kNames = "\"\\nrtfb";
    if (const auto which = kPlain.find(c); which != std::string_view::npos) {
      (quoted += '\\') += kNames[which];
    } else if (static_cast<unsigned char>(c) < 32) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      quoted += escape.data();
    } else {
      quoted += c;
    }
  }
  run.append(out, quoted += '"');
}

// The parts of str(), repr() and JSON that differ only in spelling.
bool append_scalar(Execution& run, std::string& out, const Value& value, bool json) {
  if (value.is<None>()) return run.append(out, json ? "null" : "None");
  if (const bool* b = value.as<bool>()) {
    return run.append(out, json ? (*b ? "true" : "false") : (*b ? "True" : "False"));
  }
  if (const std::int64_t* i = value.as<std::int64_t>()) return run.append(out, std::to_string(*i));
  if (const double* d = value.as<double>()) return run.append(out, float_text(*d, json));
  return false;
}

}  // namespace

const Value* ObjectData::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

// Namespaces may refer to each other; emptied while all are alive, they go one by one.
Execution::~Execution() {
  for (const auto& owned : namespaces_) owned->entries.clear();
}

Value Execution::fail(std::string_view what) {
  if (!error_) error_ = error_at(line_, what);
  return {};
}

bool Execution::charge(std::int64_t n) {
  if (failed()) return false;
  if (n <= budget_.steps_max - steps_used_) {
    steps_used_ += n;
    return true;
  }
  fail("needs more than " + std::to_string(budget_.steps_max) +
       " steps (steps_max); shorten the conversation or simplify the template");
  error_->kind = ErrorKind::kLimitExceeded;
  return false;
}

bool Execution::charge_text(std::string_view text) {
  return charge(1 + static_cast<std::int64_t>(text.size()) / kBytesPerStep);
}

bool Execution::check_text_bytes(std::int64_t bytes) {
  if (bytes <= budget_.output_bytes_max) return true;
  fail("makes a text longer than " + std::to_string(budget_.output_bytes_max) +
       " bytes (output_bytes_max); shorten the conversation");
  error_->kind = ErrorKind::kLimitExceeded;
  return false;
}

bool Execution::append(std::string& out, std::string_view text) {
  if (!charge_text(text)) return false;
  if (!check_text_bytes(static_cast<std::int64_t>(out.size() + text.size()))) return false;
  out += text;
  return true;
}

bool Execution::check_depth(int depth) {
  if (depth <= budget_.depth_max) return true;
  fail("values are nested deeper than " + std::to_string(budget_.depth_max) + " (depth_max)");
  error_->kind = ErrorKind::kLimitExceeded;
  return false;
}

Value Execution::text(std::string value) {
  if (!charge_text(value)) return {};
  return {std::make_shared<const std::string>(std::move(value))};
}

Value Execution::list(std::vector<Value> items) {
  if (!charge(1 + static_cast<std::int64_t>(items.size()))) return {};
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item) + 1);
  if (!check_depth(depth)) return {};
  return {std::make_shared<const ListData>(ListData{std::move(items), depth})};
}

Value Execution::object(std::vector<std::pair<std::string, Value>> entries) {
  if (!charge(1 + static_cast<std::int64_t>(entries.size()))) return {};
  int depth = 0;
  for (const auto& [key, value] : entries) depth = std::max(depth, depth_of(value) + 1);
  if (!check_depth(depth)) return {};
  return {std::make_shared<const ObjectData>(ObjectData{std::move(entries), depth})};
}

Value Execution::new_namespace() {
  if (!charge(1)) return {};
  namespaces_.push_back(std::make_unique<NamespaceData>());
  return {namespaces_.back().get()};
}

Value Execution::import(const TemplateValue& value, int depth) {
  if (!check_depth(depth)) return {};
  if (const bool* b = std::get_if<bool>(&value.value)) return {*b};
  if (const auto* i = std::get_if<std::int64_t>(&value.value)) return {*i};
  if (const double* d = std::get_if<double>(&value.value)) return {*d};
  if (const auto* s = std::get_if<std::string>(&value.value)) return text(*s);
  if (const auto* list_value = std::get_if<TemplateValue::List>(&value.value)) {
    std::vector<Value> items;
    for (const TemplateValue& item : *list_value) items.push_back(import(item, depth + 1));
    return list(std::move(items));
  }
  if (const auto* object_value = std::get_if<TemplateValue::Object>(&value.value)) {
    std::vector<std::pair<std::string, Value>> entries;
    for (const auto& [key, item] : *object_value)
      entries.emplace_back(key, import(item, depth + 1));
    return object(std::move(entries));
  }
  return {None{}};
}

const char* type_name(const Value& value) {
  constexpr std::array<const char*, 11> kNames = {"Undefined", "NoneType",    "bool",    "int",
                                                  "float",     "str",         "list",    "dict",
                                                  "Namespace", "LoopContext", "function"};
  static_assert(kNames.size() == std::variant_size_v<decltype(value.data)>);
  return kNames[value.data.index()];
}

bool truthy(const Value& value) {
  if (value.is<Undefined>() || value.is<None>()) return false;
  if (const std::optional<double> number = as_number(value)) return *number != 0;
  if (const Text* text = value.as<Text>()) return !(*text)->empty();
  if (const List* list = value.as<List>()) return !(*list)->items.empty();
  if (const Object* object = value.as<Object>()) return !(*object)->entries.empty();
  return true;
}

std::optional<std::int64_t> as_integer(const Value& value) {
  if (const bool* b = value.as<bool>()) return *b ? 1 : 0;
  if (const std::int64_t* i = value.as<std::int64_t>()) return *i;
  return std::nullopt;
}

std::optional<double> as_number(const Value& value) {
  if (const double* d = value.as<double>()) return *d;
  if (const auto i = as_integer(value)) return static_cast<double>(*i);
  return std::nullopt;
}

bool equal(Execution& run, const Value& a, const Value& b) {
  if (!run.charge(1)) return false;
  const auto x = as_integer(a), y = as_integer(b);
  if (x && y) return *x == *y;
  const auto p = as_number(a), q = as_number(b);
  if (p && q) return *p == *q;
  if (a.data.index() != b.data.index()) return false;
  if (const Text* text = a.as<Text>()) {
    return run.charge_text(**text) && **text == **b.as<Text>();
  }
  if (const List* list = a.as<List>()) {
    const auto& left = (*list)->items;
    const auto& right = (*b.as<List>())->items;
    if (left.size() != right.size()) return false;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!equal(run, left[i], right[i])) return false;
    }
    return true;
  }
  if (const Object* object = a.as<Object>()) {
    const ObjectData& right = **b.as<Object>();
    if ((*object)->entries.size() != right.entries.size()) return false;
    for (const auto& [key, value] : (*object)->entries) {
      if (!run.charge(static_cast<std::int64_t>(right.entries.size()) / kBytesPerStep))
        return false;
      const Value* other = right.find(key);
      if (other == nullptr || !equal(run, value, *other)) return false;
    }
    return true;
  }
  if (const Namespace* space = a.as<Namespace>()) return *space == *b.as<Namespace>();
  return a.is<Undefined>() || a.is<None>();
}

void append_text(Execution& run, std::string& out, const Value& value) {
  if (value.is<Undefined>()) return;
  if (const Text* text = value.as<Text>()) {
    run.append(out, **text);
  } else {
    append_repr(run, out, value);
  }
}

void append_repr(Execution& run, std::string& out, const Value& value) {
  if (run.failed() || append_scalar(run, out, value, false)) return;
  if (const Text* text = value.as<Text>()) return append_string_repr(run, out, **text);
  if (const List* list = value.as<List>()) {
    run.append(out, "[");
    for (std::size_t i = 0; i < (*list)->items.size() && !run.failed(); ++i) {
      if (i > 0) run.append(out, ", ");
      append_repr(run, out, (*list)->items[i]);
    }
    run.append(out, "]");
  } else if (const Object* object = value.as<Object>()) {
    run.append(out, "{");
    for (std::size_t i = 0; i < (*object)->entries.size() && !run.failed(); ++i) {
      if (i > 0) run.append(out, ", ");
      append_string_repr(run, out, (*object)->entries[i].first);
      run.append(out, ": ");
      append_repr(run, out, (*object)->entries[i].second);
    }
    run.append(out, "}");
  } else if (value.is<Undefined>()) {
    run.append(out, "Undefined");
  } else if (!run.failed()) {
    run.fail(std::string("a ") + type_name(value) + " has no text");
  }
}

void append_json(Execution& run, std::string& out, const Value& value, int indent, int level) {
  if (run.failed() || append_scalar(run, out, value, true)) return;
  if (const Text* text = value.as<Text>()) return append_json_string(run, out, **text);
  const List* list = value.as<List>();
  const Object* object = value.as<Object>();
  if (list == nullptr && object == nullptr) {
    if (!run.failed()) run.fail(std::string("a ") + type_name(value) + " cannot be JSON");
    return;
  }
  const std::size_t n = list != nullptr ? (*list)->items.size() : (*object)->entries.size();
  const auto new_line = [&](int to_level) {
    if (indent >= 0) {
      run.append(out, "\n" + std::string(static_cast<std::size_t>(indent * to_level), ' '));
    }
  };
  run.append(out, list != nullptr ? "[" : "{");
  for (std::size_t i = 0; i < n && !run.failed(); ++i) {
    if (i > 0) run.append(out, indent >= 0 ? "," : ", ");
    new_line(level + 1);
    if (object != nullptr) {
      append_json_string(run, out, (*object)->entries[i].first);
      run.append(out, ": ");
    }
    append_json(run, out, list != nullptr ? (*list)->items[i] : (*object)->entries[i].second,
                indent, level + 1);
  }
  if (n > 0) new_line(level);
  run.append(out, list != nullptr ? "]" : "}");
}

std::string to_text(Execution& run, const Value& value) {
  std::string text;
  append_text(run, text, value);
  return text;
}

List iterate(Execution& run, const Value& value) {
  if (const List* list = value.as<List>()) return *list;
  std::vector<Value> items;
  if (const Object* object = value.as<Object>()) {
    for (const auto& entry : (*object)->entries) items.push_back(run.text(entry.first));
  } else if (const Text* text = value.as<Text>()) {
    for (std::size_t i = 0; i < (*text)->size() && !run.failed();) {
      const std::size_t n = character_bytes(**text, i);
      items.push_back(run.text((*text)->substr(i, n)));
      i += n;
    }
  } else if (!value.is<Undefined>() && !run.failed()) {
    run.fail(std::string("'") + type_name(value) + "' object is not iterable");
  }
  const Value result = run.list(std::move(items));
  return run.failed() ? std::make_shared<const ListData>() : *result.as<List>();
}

std::size_t character_bytes(std::string_view text, std::size_t position) {
  const auto lead = static_cast<unsigned char>(text[position]);
  const std::size_t n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (position + n > text.size()) return 1;
  for (std::size_t i = 1; i < n; ++i) {
    if ((static_cast<unsigned char>(text[position + i]) & 0xC0U) != 0x80U) return 1;
  }
  return n;
}

std::int64_t character_count(std::string_view text) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < text.size(); i += character_bytes(text, i)) ++count;
  return count;
}

char32_t decode_character(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  char32_t code = byte(0) & (0xFFU >> (character.size() + 1));
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6U | (byte(i) & 0x3FU);
  return code;
}

}  // namespace engramd::engine::jinja
