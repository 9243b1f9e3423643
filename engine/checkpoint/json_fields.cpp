#include "engine/checkpoint/json_fields.h"

#include <utility>

namespace engramd::engine {
namespace {

template <class Number>
std::string range_text(const char* kind, Number low, Number high) {
  return std::string(kind) + " " + JsonValue{low}.describe() + " .. " + JsonValue{high}.describe();
}

}  // namespace

std::optional<std::int64_t> integer_of(const JsonValue& value, std::int64_t low,
                                       std::int64_t high) {
  std::optional<std::int64_t> number;
  if (const auto* plain = value.as<std::uint64_t>(); plain != nullptr && *plain <= INT64_MAX) {
    number = static_cast<std::int64_t>(*plain);
  }
  if (const auto* with_sign = value.as<std::int64_t>()) number = *with_sign;
  if (number && (*number < low || *number > high)) return std::nullopt;
  return number;
}

std::optional<std::vector<std::int64_t>> integers_of(const JsonValue& value, std::int64_t low,
                                                     std::int64_t high) {
  const auto* array = value.as<JsonValue::Array>();
  if (array == nullptr) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const JsonValue& item : *array) {
    const auto number = integer_of(item, low, high);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

JsonFields::JsonFields(const JsonValue& root, std::string subject)
    : root_(root), subject_(std::move(subject)) {
  if (root.as<JsonValue::Object>() == nullptr) {
    error_ = invalid_argument(subject_ + ": expected a JSON object, got " + root.describe());
  }
}

const JsonValue* JsonFields::find(std::string_view name) const {
  const JsonValue* value = root_.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void JsonFields::fail(std::string_view name, std::string_view expected, const JsonValue* got) {
  if (error_) return;
  const std::string key = subject_ + ": " + std::string(name);
  error_ = invalid_argument(got == nullptr ? key + " is missing, expected " + std::string(expected)
                                           : key + ": expected " + std::string(expected) +
                                                 ", got " + got->describe());
}

std::optional<std::int64_t> JsonFields::optional_integer(std::string_view name, std::int64_t low,
                                                         std::int64_t high) {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = integer_of(*value, low, high);
  if (!number) fail(name, range_text("an integer", low, high), value);
  return number.value_or(low);
}

std::optional<double> JsonFields::optional_number(std::string_view name, double low, double high) {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  std::optional<double> number;
  if (const auto* real = value->as<double>()) number = *real;
  if (const auto* plain = value->as<std::uint64_t>()) number = static_cast<double>(*plain);
  if (const auto* with_sign = value->as<std::int64_t>()) number = static_cast<double>(*with_sign);
  if (number && *number >= low && *number <= high) return number;
  fail(name, range_text("a number", low, high), value);
  return low;
}

std::optional<bool> JsonFields::optional_boolean(std::string_view name) {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = value->as<bool>()) return *flag;
  fail(name, "true or false", value);
  return false;
}

std::optional<std::string> JsonFields::optional_text(std::string_view name) {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* string = value->as<std::string>()) return *string;
  fail(name, "a string", value);
  return std::string();
}

std::int64_t JsonFields::integer(std::string_view name, std::int64_t low, std::int64_t high) {
  const auto value = optional_integer(name, low, high);
  if (!value) fail(name, range_text("an integer", low, high), nullptr);
  return value.value_or(low);
}

int JsonFields::small_integer(std::string_view name, int low, int high) {
  return static_cast<int>(integer(name, low, high));
}

double JsonFields::number(std::string_view name, double low, double high) {
  const auto value = optional_number(name, low, high);
  if (!value) fail(name, range_text("a number", low, high), nullptr);
  return value.value_or(low);
}

bool JsonFields::boolean(std::string_view name) {
  const auto value = optional_boolean(name);
  if (!value) fail(name, "true or false", nullptr);
  return value.value_or(false);
}

std::string JsonFields::text(std::string_view name) {
  auto value = optional_text(name);
  if (!value) fail(name, "a string", nullptr);
  return std::move(value).value_or("");
}

std::vector<std::int64_t> JsonFields::integers(std::string_view name, std::int64_t low,
                                               std::int64_t high, std::size_t n_min,
                                               std::size_t n_max) {
  const JsonValue* value = find(name);
  auto numbers = value == nullptr ? std::nullopt : integers_of(*value, low, high);
  if (numbers && numbers->size() >= n_min && numbers->size() <= n_max) return *numbers;
  std::string count = std::to_string(n_min);
  if (n_max != n_min) count += " .. " + std::to_string(n_max);
  fail(name, "an array of " + count + " " + range_text("integers", low, high), value);
  return std::vector<std::int64_t>(n_min, low);
}

}  // namespace engramd::engine
