// JsonFields: reads named fields of one JSON object with type and range checks, and keeps the first
// error, so that a parser states one line per key and tests for failure once. After a failure the
// readers go on returning values inside the asked range. Only the parsers of this folder use it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/json_value.h"

namespace engramd::engine {

class JsonFields {
 public:
  // `subject` opens the messages ("config.json"); `root` must outlive this.
  JsonFields(const JsonValue& root, std::string subject);

  // Required. Ranges include both ends. An integer written as 4.0 or "4" is refused; a number may
  // be written as an integer.
  std::int64_t integer(std::string_view name, std::int64_t low, std::int64_t high);
  int small_integer(std::string_view name, int low, int high);
  double number(std::string_view name, double low, double high);
  bool boolean(std::string_view name);
  std::string text(std::string_view name);
  std::vector<std::int64_t> integers(std::string_view name, std::int64_t low, std::int64_t high,
                                     std::size_t n_min, std::size_t n_max);

  // Absent or null is nullopt.
  std::optional<std::int64_t> optional_integer(std::string_view name, std::int64_t low,
                                               std::int64_t high);
  std::optional<double> optional_number(std::string_view name, double low, double high);
  std::optional<bool> optional_boolean(std::string_view name);
  std::optional<std::string> optional_text(std::string_view name);

  // nullptr if absent or null.
  const JsonValue* find(std::string_view name) const;
  // "<subject>: <name>: expected <expected>, got <got>"; a nullptr reads "is missing".
  void fail(std::string_view name, std::string_view expected, const JsonValue* got);
  const std::optional<Error>& error() const { return error_; }

 private:
  const JsonValue& root_;
  std::string subject_;
  std::optional<Error> error_;
};

// The elements of an array of integers in low .. high; nullopt if it is anything else.
std::optional<std::vector<std::int64_t>> integers_of(const JsonValue& value, std::int64_t low,
                                                     std::int64_t high);
std::optional<std::int64_t> integer_of(const JsonValue& value, std::int64_t low, std::int64_t high);

}  // namespace engramd::engine
