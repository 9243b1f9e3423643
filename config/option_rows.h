// The rows of the option table in two parts, for option_table.cpp alone, and the two functions that
// tie a row to its field in Options.
#pragma once

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/assert.h"
#include "config/option_table.h"

namespace engramd::config {

std::vector<OptionRow> model_rows();    // the model, its experts, its Engram tables, inference
std::vector<OptionRow> service_rows();  // sampling, remote, limits, server, experiment, planner

template <class T>
constexpr ValueType value_type() {
  if constexpr (std::is_same_v<T, bool>) return ValueType::kBool;
  if constexpr (std::is_same_v<T, std::int64_t>) return ValueType::kInteger;
  if constexpr (std::is_same_v<T, double>) return ValueType::kNumber;
  if constexpr (std::is_same_v<T, std::string>) return ValueType::kText;
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) return ValueType::kIntegerList;
  if constexpr (std::is_same_v<T, std::vector<double>>) return ValueType::kNumberList;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return ValueType::kTextList;
}

template <class Section, class T>
Member field(Section Options::*section, T Section::*member) {
  return {
      value_type<T>(),
      {},
      [=](const Options& options) -> Value { return options.*section.*member; },
      [=](Options& options, const Value& value) { options.*section.*member = std::get<T>(value); }};
}

template <class E>
using Names = std::vector<std::pair<std::string_view, E>>;

template <class Section, class E>
Member choice(Section Options::*section, E Section::*member, Names<E> names) {
  std::vector<std::string_view> choices;
  for (const auto& [name, value] : names) choices.push_back(name);
  const auto get = [=](const Options& options) -> Value {
    const auto same = [&](const auto& pair) { return pair.second == options.*section.*member; };
    const auto found = std::find_if(names.begin(), names.end(), same);
    ENGRAMD_ASSERT(found != names.end());
    return std::string(found->first);
  };
  const auto set = [=](Options& options, const Value& value) {
    const auto same = [&](const auto& pair) { return pair.first == std::get<std::string>(value); };
    const auto found = std::find_if(names.begin(), names.end(), same);
    ENGRAMD_ASSERT(found != names.end());
    options.*section.*member = found->second;
  };
  return {ValueType::kChoice, choices, get, set};
}

}  // namespace engramd::config
