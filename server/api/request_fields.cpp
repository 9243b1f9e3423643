#include "server/api/request_fields.h"

#include <cmath>
#include <cstdio>
#include <utility>

namespace engramd::server {
namespace {

using nlohmann::json;

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace

RequestFields::RequestFields(const json& object, std::string path, RequestProblems& problems)
    : object_(&object), path_(std::move(path)), problems_(&problems) {}

RequestFields::RequestFields(const json& request, RequestProblems& problems)
    : RequestFields(request, "", problems) {}

RequestFields RequestFields::inside(const json& object, const std::string& name) const {
  return {object, path_of(name), *problems_};
}

const json* RequestFields::find(const char* name) const {
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::string RequestFields::path_of(const std::string& name) const {
  return path_.empty() ? name : path_ + "." + name;
}

void RequestFields::refuse(const std::string& name, const std::string& message) {
  if (failed()) return;
  const std::string path = path_of(name);
  problems_->wrong = bad_field(path, path + ": " + message);
}

void RequestFields::refuse_locally(const std::string& name, const std::string& message) {
  if (problems_->beyond_local) return;
  const std::string path = path_of(name);
  problems_->beyond_local = bad_field(path, path + ": " + message);
}

void RequestFields::refuse_type(const std::string& name, const char* expected, const json& got) {
  refuse(name, std::string("expected ") + expected + ", got " + got.type_name());
}

std::optional<std::string> RequestFields::text(const char* name) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  refuse_type(name, "a string", *value);
  return std::nullopt;
}

std::string RequestFields::required_text(const char* name) {
  if (find(name) == nullptr) refuse(name, "required, got none");
  return text(name).value_or("");
}

std::optional<bool> RequestFields::boolean(const char* name) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  refuse_type(name, "true or false", *value);
  return std::nullopt;
}

std::optional<double> RequestFields::number(const char* name, double minimum, double maximum) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    refuse_type(name, "a number", *value);
    return std::nullopt;
  }
  const auto number = value->get<double>();
  if (number >= minimum && number <= maximum) return number;
  refuse(name, "expected " + number_text(minimum) + " to " + number_text(maximum) + ", got " +
                   number_text(number));
  return std::nullopt;
}

std::optional<std::int64_t> RequestFields::integer(const char* name, std::int64_t minimum,
                                                   std::int64_t maximum) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  // Some clients send 256.0.
  const bool whole =
      value->is_number_integer() ||
      (value->is_number_float() && std::floor(value->get<double>()) == value->get<double>() &&
       std::abs(value->get<double>()) < 0x1p53);
  if (!whole) {
    refuse(name, std::string("expected a whole number, got ") +
                     (value->is_number() ? number_text(value->get<double>()) : value->type_name()));
    return std::nullopt;
  }
  const bool beyond = value->is_number_unsigned() &&
                      value->get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
  const std::int64_t number =
      beyond ? std::numeric_limits<std::int64_t>::max() : value->get<std::int64_t>();
  if (number >= minimum && number <= maximum) return number;
  refuse(name, "expected " + std::to_string(minimum) + " to " + std::to_string(maximum) + ", got " +
                   std::to_string(number));
  return std::nullopt;
}

const json* RequestFields::array(const char* name) {
  const json* value = find(name);
  if (value == nullptr || value->is_array()) return value;
  refuse_type(name, "an array", *value);
  return nullptr;
}

const json* RequestFields::object(const char* name) {
  const json* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  refuse_type(name, "an object", *value);
  return nullptr;
}

}  // namespace engramd::server
