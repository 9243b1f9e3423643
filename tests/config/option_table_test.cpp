#include "config/option_table.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "config/load_environment.h"
#include "config/load_flags.h"
#include "config/load_json.h"
#include "config/load_toml.h"

namespace engramd::config {
namespace {

// A legal value that is not the default.
Value other_value(const OptionRow& row) {
  const Value standard = default_value(row);
  switch (row.member.type) {
    case ValueType::kBool:
      return !std::get<bool>(standard);
    case ValueType::kInteger:
      return std::get<std::int64_t>(standard) == static_cast<std::int64_t>(row.maximum)
                 ? static_cast<std::int64_t>(row.minimum)
                 : static_cast<std::int64_t>(row.maximum);
    case ValueType::kNumber:
      return std::get<double>(standard) == row.maximum ? row.minimum : row.maximum;
    case ValueType::kText:
      break;
    case ValueType::kChoice:
      return std::string(row.member.choices.front() == std::get<std::string>(standard)
                             ? row.member.choices.back()
                             : row.member.choices.front());
    case ValueType::kIntegerList:
      return std::vector<std::int64_t>{static_cast<std::int64_t>(row.minimum),
                                       static_cast<std::int64_t>(row.maximum)};
    case ValueType::kNumberList:
      return std::vector<double>{row.minimum, row.maximum};
    case ValueType::kTextList:
      if (row.syntax == Syntax::kHost) return std::vector<std::string>{"example.org", "[::1]:80"};
      if (row.syntax == Syntax::kOrigin) return std::vector<std::string>{"https://example.org"};
      if (row.syntax == Syntax::kAlias) return std::vector<std::string>{"gpt-4=engram-nano", "a=b"};
      return std::vector<std::string>{"a b", "c"};
  }
  switch (row.syntax) {
    case Syntax::kDevice:
      return std::string("cuda:3");
    case Syntax::kUrl:
      return std::string("http://127.0.0.1:8080/v1");
    case Syntax::kVariableName:
      return std::string("ANOTHER_KEY");
    case Syntax::kPath:
      return std::string("/a folder/\"x\"=#.bin");
    case Syntax::kHost:
      return std::string("0.0.0.0");
    case Syntax::kOrigin:
      return std::string("https://example.org");
    case Syntax::kAlias:
      return std::string("gpt-4=engram-nano");
    case Syntax::kAny:
      return std::string("other \"value\" \\ with # signs, \xC3\xA9");
  }
  return standard;
}

FoundValue wrong_type(const OptionRow& row) {
  const bool takes_text =
      row.member.type == ValueType::kText || row.member.type == ValueType::kChoice;
  return takes_text ? FoundValue{std::int64_t{7}, {}} : FoundValue{std::string("text"), {}};
}

// Values just outside the row's range; none for rows without one.
std::vector<Value> outside(const OptionRow& row) {
  // Of the rows of integers; a number's largest value need not be one.
  const bool integers =
      row.member.type == ValueType::kInteger || row.member.type == ValueType::kIntegerList;
  const auto low = integers ? static_cast<std::int64_t>(row.minimum) - 1 : 0;
  const auto high = integers ? static_cast<std::int64_t>(row.maximum) + 1 : 0;
  switch (row.member.type) {
    case ValueType::kInteger:
      return {low, high, 1.5};
    case ValueType::kNumber:
      return {row.minimum - 0.5, row.maximum * 1.5, std::nan(""), INFINITY};
    case ValueType::kIntegerList:
      return {std::vector<std::int64_t>{low}, std::vector<std::int64_t>{high},
              std::vector<std::int64_t>(kListItemsMax + 1, high - 1)};
    case ValueType::kNumberList:
      return {std::vector<double>{row.minimum - 0.5}, std::vector<double>{row.maximum * 1.5}};
    case ValueType::kChoice:
      return {std::string("nonsense")};
    case ValueType::kText:
      return {std::string("line\nbreak"), std::string(kTextBytesMax + 1, 'x')};
    case ValueType::kTextList:
      return {std::vector<std::string>{"line\nbreak"}, std::vector<std::string>{"a,b"},
              std::vector<std::string>(kListItemsMax + 1, "https://example.org"),
              std::vector<std::int64_t>{1}};
    case ValueType::kBool:
      return {std::int64_t{1}};
  }
  return {};
}

TEST(OptionTable, EveryRowGetsAndSetsItsOwnMember) {
  for (const OptionRow& row : option_table()) {
    Options options;
    const Value value = other_value(row);
    ASSERT_NE(value, default_value(row)) << row.key;
    row.member.set(options, value);
    EXPECT_EQ(row.member.get(options), value) << row.key;
    for (const OptionRow& another : option_table()) {
      if (&another == &row) continue;
      EXPECT_EQ(another.member.get(options), default_value(another))
          << row.key << " also changes " << another.key;
    }
  }
}

TEST(OptionTable, EveryDefaultAndOtherValueIsAllowed) {
  for (const OptionRow& row : option_table()) {
    for (const Value& value : {default_value(row), other_value(row)}) {
      const Result<Value> converted = convert(row, {value, {}});
      ASSERT_TRUE(converted.has_value()) << row.key << ": " << converted.error().message;
      EXPECT_EQ(*converted, value);
    }
  }
}

TEST(OptionTable, EveryRowRefusesWrongTypesAndValuesOutOfRange) {
  for (const OptionRow& row : option_table()) {
    EXPECT_FALSE(convert(row, wrong_type(row)).has_value()) << row.key;
    EXPECT_FALSE(convert(row, {{}, "null"}).has_value()) << row.key;
    for (const Value& value : outside(row)) {
      const Result<Value> converted = convert(row, {value, {}});
      ASSERT_FALSE(converted.has_value()) << row.key << " = " << to_toml(value);
      EXPECT_NE(converted.error().message.find("expected " + expected_value(row)),
                std::string::npos);
    }
  }
}

TEST(OptionTable, EveryRowRoundTripsThroughToml) {
  for (const OptionRow& row : option_table()) {
    std::vector<std::string> keys = row.toml_aliases;
    keys.push_back(row.key);
    for (const std::string& key : keys) {
      const std::string text = key + " = " + to_toml(other_value(row)) + "\n";
      const LoadedSettings loaded = load_toml(text, "/x.toml", Rank::kConfigFile);
      ASSERT_EQ(loaded.settings.size(), 1u) << text << loaded.problems.front();
      EXPECT_EQ(loaded.settings[0].row, &row);
      EXPECT_EQ(loaded.settings[0].value, other_value(row)) << text;
    }
  }
}

TEST(OptionTable, EveryJsonKeyReachesItsRow) {
  for (const OptionRow& row : option_table()) {
    for (const std::string& key : row.json_keys) {
      std::string text = to_toml(other_value(row));
      std::string rest = key;
      for (auto dot = rest.rfind('.'); dot != std::string::npos; dot = rest.rfind('.')) {
        text = "{\"" + rest.substr(dot + 1) + "\": " + text + "}";
        rest.resize(dot);
      }
      text = "{\"" + rest + "\": " + text + "}";
      const LoadedSettings loaded = load_json(text, "/x.json");
      ASSERT_EQ(loaded.settings.size(), 1u) << text << loaded.problems.front();
      EXPECT_EQ(loaded.settings[0].row, &row);
      EXPECT_EQ(loaded.settings[0].value, other_value(row)) << text;
    }
  }
}

TEST(OptionTable, EveryRowRoundTripsThroughTheEnvironment) {
  for (const OptionRow& row : option_table()) {
    for (const std::string& name : {row.environment, row.environment_alias}) {
      if (name.empty()) continue;
      const Environment environment = {{name, {to_text(other_value(row)), "environment " + name}}};
      const LoadedSettings loaded = load_environment(environment);
      ASSERT_EQ(loaded.settings.size(), 1u) << name << loaded.problems.front();
      EXPECT_EQ(loaded.settings[0].row, &row);
      EXPECT_EQ(loaded.settings[0].value, other_value(row)) << name;
      EXPECT_TRUE(loaded.notes.empty());
    }
  }
}

TEST(OptionTable, EveryRowRoundTripsThroughItsFlag) {
  for (const OptionRow& row : option_table()) {
    const std::string text = to_text(other_value(row));
    const std::vector<std::vector<std::string>> spellings = {{row.flag, text},
                                                             {row.flag + "=" + text}};
    for (const std::vector<std::string>& arguments : spellings) {
      const ParsedFlags parsed = load_flags(arguments, {});
      ASSERT_EQ(parsed.loaded.settings.size(), 1u) << row.flag;
      EXPECT_EQ(parsed.loaded.settings[0].row, &row);
      EXPECT_EQ(parsed.loaded.settings[0].value, other_value(row)) << row.flag;
      EXPECT_TRUE(parsed.positional.empty());
    }
  }
}

TEST(OptionTable, NamesAreUniqueAndHelpIsASentence) {
  std::set<std::string> toml, json, flags, variables;
  for (const OptionRow& row : option_table()) {
    EXPECT_TRUE(toml.insert(row.key).second) << row.key;
    for (const std::string& alias : row.toml_aliases) EXPECT_TRUE(toml.insert(alias).second);
    for (const std::string& key : row.json_keys) EXPECT_TRUE(json.insert(key).second) << key;
    EXPECT_TRUE(flags.insert(row.flag).second) << row.flag;
    EXPECT_TRUE(variables.insert(row.environment).second) << row.environment;
    if (!row.environment_alias.empty()) {
      EXPECT_TRUE(variables.insert(row.environment_alias).second) << row.environment_alias;
    }
    ASSERT_FALSE(row.help.empty()) << row.key;
    EXPECT_EQ(row.help.back(), '.') << row.key;
    EXPECT_TRUE(row.minimum <= row.maximum) << row.key;
  }
}

TEST(NearestName, FindsTypingMistakesAndTheRightNameInTheWrongSection) {
  const std::vector<std::string> known = {"moe.top_k", "engram.enable", "sampling.temperature"};
  EXPECT_EQ(nearest_name("moe.topk", known), "moe.top_k");
  EXPECT_EQ(nearest_name("engram.enabled", known), "engram.enable");
  EXPECT_EQ(nearest_name("model.temperature", known), "sampling.temperature");
  EXPECT_EQ(nearest_name("entirely.different", known), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'm'), known), "");
}

}  // namespace
}  // namespace engramd::config
