#include "engine/checkpoint/json_value.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace engramd::engine {
namespace {

constexpr std::size_t kPrintableBytesMax = 120;

// Builds the tree from nlohmann's events. Every handler returns false to stop the parser.
class TreeBuilder {
 public:
  TreeBuilder(std::string_view subject, const JsonLimits& limits)
      : subject_(subject), limits_(limits) {}

  bool null() { return add({nullptr}); }
  bool boolean(bool value) { return add({value}); }
  bool number_integer(std::int64_t value) { return add({value}); }
  bool number_unsigned(std::uint64_t value) { return add({value}); }
  bool number_float(double value, const std::string&) { return add({value}); }
  bool string(std::string& value) { return add({std::move(value)}); }
  bool binary(nlohmann::json::binary_t&) { return false; }  // no such thing in a JSON text
  bool start_object(std::size_t) { return open({JsonValue::Object{}}); }
  bool start_array(std::size_t) { return open({JsonValue::Array{}}); }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  bool key(std::string& name) {
    names_.back() = std::move(name);
    return true;
  }
  bool end_object();
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& exception) {
    const bool utf8 = std::string_view(exception.what()).find("UTF-8") != std::string_view::npos;
    return fail(utf8 ? " is not valid UTF-8 at byte " : " is not valid JSON at byte ", position);
  }

  Result<JsonValue> take() {
    if (!error_.empty()) return invalid_argument(std::move(error_));
    return std::move(root_);
  }

 private:
  bool fail(std::string_view what, std::size_t number) {
    error_ = subject_ + std::string(what) + std::to_string(number);
    return false;
  }
  JsonValue* insert(JsonValue value) {
    if (++n_values_ > limits_.values_max) {
      fail(" holds more values than the limit of ", limits_.values_max);
      return nullptr;
    }
    if (open_.empty()) return &(root_ = std::move(value));
    if (auto* array = std::get_if<JsonValue::Array>(&open_.back()->data)) {
      return &array->emplace_back(std::move(value));
    }
    auto& object = std::get<JsonValue::Object>(open_.back()->data);
    return &object.emplace_back(JsonMember{names_.back(), std::move(value)}).value;
  }
  bool add(JsonValue value) { return insert(std::move(value)) != nullptr; }
  bool open(JsonValue value) {
    if (open_.size() >= limits_.depth_max) {
      return fail(" is nested too deeply: more levels than ", limits_.depth_max);
    }
    const bool is_object = std::holds_alternative<JsonValue::Object>(value.data);
    JsonValue* place = insert(std::move(value));
    if (place == nullptr) return false;
    // A container grows only while it is the innermost open one, so these pointers stay valid.
    open_.push_back(place);
    if (is_object) names_.emplace_back();
    return true;
  }

  std::string subject_;
  JsonLimits limits_;
  std::size_t n_values_ = 0;
  JsonValue root_;
  std::vector<JsonValue*> open_;
  std::vector<std::string> names_;  // last key of each open object
  std::vector<std::string_view> sorted_;
  std::string error_;
};

bool TreeBuilder::end_object() {
  sorted_.clear();
  for (const JsonMember& member : std::get<JsonValue::Object>(open_.back()->data)) {
    sorted_.push_back(member.name);
  }
  std::sort(sorted_.begin(), sorted_.end());
  const auto twice = std::adjacent_find(sorted_.begin(), sorted_.end());
  names_.pop_back();
  open_.pop_back();
  if (twice == sorted_.end()) return true;
  error_ = subject_ + ": " + (names_.empty() ? "" : printable(names_.back()) + ": ") +
           "duplicate key " + printable(*twice);
  return false;
}

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
  const Object* object = as<Object>();
  if (object == nullptr) return nullptr;
  for (const JsonMember& member : *object) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

std::string JsonValue::describe() const {
  if (const auto* value = as<bool>()) return *value ? "true" : "false";
  if (const auto* value = as<std::uint64_t>()) return std::to_string(*value);
  if (const auto* value = as<std::int64_t>()) return std::to_string(*value);
  if (const auto* value = as<double>()) return nlohmann::json(*value).dump();
  if (const auto* value = as<std::string>()) return "the string \"" + printable(*value) + "\"";
  if (as<Array>() != nullptr) return "an array";
  return is_null() ? "null" : "an object";
}

Result<JsonValue> parse_json(std::string_view text, std::string_view subject,
                             const JsonLimits& limits) {
  // nlohmann reads a NUL as the end of the text; in JSON it may stand nowhere.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return invalid_argument(std::string(subject) + " is not valid JSON at byte " +
                            std::to_string(nul + 1));
  }
  TreeBuilder builder(subject, limits);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string printable(std::string_view name) {
  std::string text(name.substr(0, kPrintableBytesMax));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  if (name.size() > kPrintableBytesMax) {
    // Never cut inside a UTF-8 character: the message may become JSON.
    std::size_t keep = kPrintableBytesMax;
    while (keep > 0 && (static_cast<unsigned char>(name[keep]) & 0xC0) == 0x80) --keep;
    text.resize(keep);
    text += "...";
  }
  return text;
}

}  // namespace engramd::engine
