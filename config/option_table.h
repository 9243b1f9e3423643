// The option table: every option is one row, and the row is the only place that knows its key, its
// names in other sources, its type, range and help. Loaders, --help, the sample file, the README's
// reference and the tests walk it. Built once, constant afterwards, any thread may read it.
// Not here: defaults (they are the initialisers in options.h), meaning for a model (verdict.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/option_value.h"
#include "config/options.h"

namespace engramd::config {

enum class ValueType {
  kBool,
  kInteger,
  kNumber,
  kText,
  kChoice,
  kIntegerList,
  kNumberList,
  kTextList
};

// What a text, or each one of a list, must look like beyond being free of control characters.
enum class Syntax { kAny, kPath, kDevice, kUrl, kVariableName, kHost, kOrigin, kAlias };

// Where in Options a row lives. Choices travel as texts, so that a Value needs no enumerations.
struct Member {
  ValueType type = ValueType::kText;
  std::vector<std::string_view> choices;
  std::function<Value(const Options&)> get;
  std::function<void(Options&, const Value&)> set;  // the value must have come from convert()
};

struct OptionRow {
  std::string key;  // dotted TOML key
  Member member;
  double minimum = 0;  // numbers, and the items of lists
  double maximum = 0;
  Syntax syntax = Syntax::kAny;
  std::string help = {};                       // one sentence, unit included
  std::vector<std::string> toml_aliases = {};  // other dotted keys that mean the same
  std::string toml_table = {};  // a table whose entries, as "key=value", are the items of the list
  std::vector<std::string> json_keys = {};  // dotted paths in the users' JSON files
  std::string flag = {};                    // "--name"; derived from the key when not given
  std::string environment = {};             // ENGRAMD_<KEY>; always derived
  std::string environment_alias = {};       // a name users already have; the ENGRAMD_ one wins
  bool no_effect_yet = false;               // says kNoEffectYet wherever the row is shown
};

inline constexpr std::string_view kNoEffectYet = "read and checked; nothing acts on it yet";
inline constexpr std::size_t kTextBytesMax = 4096;
inline constexpr std::size_t kListItemsMax = 16;

const std::vector<OptionRow>& option_table();
const OptionRow* find_option(std::string_view key);  // by TOML key; null when there is none
std::string_view section_of(const OptionRow& row);   // "engram.table" of "engram.table.path"
Value default_value(const OptionRow& row);

// The known name that looks most like `name`; empty when nothing is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace engramd::config
