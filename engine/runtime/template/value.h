// Values of a running chat template and Execution, the budget and first error of one rendering.
// Values are immutable but for namespaces, which Execution owns, so that no cycle outlives it.
// Private to this folder and chat_template.cpp; one thread per Execution.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "config/result.h"
#include "engine/runtime/chat_template.h"

namespace engramd::engine::jinja {

struct Value;
struct Statement;
struct ListData;
struct ObjectData;
struct LoopData;
struct NamespaceData;

struct Undefined {
  std::string message;  // why, for the error if it is used
};
struct Function {  // a global ("range"), a method of `self`, or a macro
  std::string_view name;
  std::shared_ptr<const Value> self;
  const Statement* macro = nullptr;
};
using None = std::monostate;
using Text = std::shared_ptr<const std::string>;
using List = std::shared_ptr<const ListData>;
using Object = std::shared_ptr<const ObjectData>;
using Loop = std::shared_ptr<LoopData>;
using Namespace = NamespaceData*;  // owned by Execution

struct Value {
  std::variant<Undefined, None, bool, std::int64_t, double, Text, List, Object, Namespace, Loop,
               Function>
      data;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data);
  }
};

struct ListData {
  std::vector<Value> items;
  int depth = 0;
};
struct ObjectData {
  std::vector<std::pair<std::string, Value>> entries;  // in order of insertion
  int depth = 0;
  const Value* find(std::string_view key) const;
};
struct NamespaceData {
  std::unordered_map<std::string, Value> entries;
};
struct LoopData {
  List items;
  std::int64_t index0 = 0;
};

// What one rendering may still use, and its first error. After an error every operation returns
// at once, so callers need not look after each step; results are meaningless then.
class Execution {
 public:
  explicit Execution(const TemplateBudget& budget) : budget_(budget) {}
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  Value fail(std::string_view what);  // at the current line; returns an Undefined
  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }
  void set_line(int line) { line_ = line; }

  // False, and an error, when fewer than n steps are left.
  bool charge(std::int64_t n);
  bool charge_text(std::string_view text);  // for reading through it
  // False, and an error, for a text longer than output_bytes_max.
  bool check_text_bytes(std::int64_t bytes);
  // Appends unless the text would be longer than output_bytes_max; costs by length.
  bool append(std::string& out, std::string_view text);

  Value text(std::string value);
  Value list(std::vector<Value> items);
  Value object(std::vector<std::pair<std::string, Value>> entries);
  Value new_namespace();
  Value import(const TemplateValue& value, int depth = 0);

 private:
  bool check_depth(int depth);

  TemplateBudget budget_;
  std::int64_t steps_used_ = 0;
  int line_ = 1;
  std::optional<Error> error_;
  std::vector<std::unique_ptr<NamespaceData>> namespaces_;
};

const char* type_name(const Value& value);  // Python's
bool truthy(const Value& value);
std::optional<std::int64_t> as_integer(const Value& value);  // also of a bool
std::optional<double> as_number(const Value& value);
// Linear operations charge the execution.
bool equal(Execution& run, const Value& a, const Value& b);
void append_text(Execution& run, std::string& out, const Value& value);  // Python's str()
void append_repr(Execution& run, std::string& out, const Value& value);
// json.dumps without ASCII escaping; indent < 0: one line with Python's separators.
void append_json(Execution& run, std::string& out, const Value& value, int indent, int level = 0);
std::string to_text(Execution& run, const Value& value);
// Items, keys or characters; an error if there are none to iterate over.
List iterate(Execution& run, const Value& value);

// Characters are code points; a byte that is no UTF-8 counts as one character.
std::size_t character_bytes(std::string_view text, std::size_t position);
std::int64_t character_count(std::string_view text);
char32_t decode_character(std::string_view character);

}  // namespace engramd::engine::jinja
