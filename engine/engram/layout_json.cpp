#include "engine/engram/layout_json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace engramd::engine {
namespace {

using Json = nlohmann::json;

constexpr std::array kKnownKeys{"tokenizer_name_or_path",
                                "engram_vocab_size",
                                "max_ngram_size",
                                "n_embed_per_ngram",
                                "n_head_per_ngram",
                                "layer_ids",
                                "pad_id",
                                "seed",
                                "kernel_size"};
constexpr std::size_t kShownMax = 60;  // bytes of a foreign value in a message

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShownMax) text = text.substr(0, kShownMax) + "...";
  return text;
}

// Reads the values of one object; the first failure stays, later reads give zeros.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  std::int64_t integer(const char* key) {
    const Json* value = find(key);
    return value == nullptr ? 0 : integer_of(key, *value);
  }
  int small_integer(const char* key) {
    const std::int64_t value = integer(key);
    if (value >= 0 && value <= std::numeric_limits<int>::max()) return static_cast<int>(value);
    refuse(key, "a number 0 .. 2147483647", std::to_string(value));
    return 0;
  }
  std::vector<std::int64_t> integers(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_array()) {
      refuse(key, "a list of integers", shown(*value));
      return {};
    }
    std::vector<std::int64_t> numbers;
    for (const Json& item : *value) numbers.push_back(integer_of(key, item));
    return numbers;
  }
  const std::optional<Error>& error() const { return error_; }
  void refuse(const std::string& key, const std::string& expected, const std::string& got) {
    if (error_) return;
    error_ =
        invalid_argument("layout file: engram." + key + ": expected " + expected + ", got " + got);
  }

 private:
  const Json* find(const char* key) {
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    refuse(key, "a value", "nothing");
    return nullptr;
  }
  std::int64_t integer_of(const char* key, const Json& value) {
    const bool fits = !value.is_number_unsigned() ||
                      value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
    if (value.is_number_integer() && fits) return value.get<std::int64_t>();
    refuse(key, "a 64-bit integer", shown(value));
    return 0;
  }

  const Json& object_;
  std::optional<Error> error_;
};

void refuse_unknown_keys(const Json& object, Reader& reader) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(kKnownKeys.begin(), kKnownKeys.end(), key) != kKnownKeys.end()) continue;
    std::string known;
    for (const char* name : kKnownKeys) known += (known.empty() ? "" : ", ") + std::string(name);
    reader.refuse(shown(Json(key)), "one of the keys " + known, "this unknown key");
  }
}

}  // namespace

Result<EngramLayoutConfig> parse_layout_json(std::string_view json) {
  const Json file = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (file.is_discarded()) return invalid_argument("layout file: expected JSON text");
  const auto engram = file.is_object() ? file.find("engram") : file.end();
  if (engram == file.end() || !engram->is_object()) {
    return invalid_argument("layout file: expected an object \"engram\", got " + shown(file));
  }
  Reader reader(*engram);
  refuse_unknown_keys(*engram, reader);
  EngramLayoutConfig config;
  config.variant = EngramVariant::kDemo;
  config.layer_ids = reader.integers("layer_ids");
  config.max_ngram_size = reader.small_integer("max_ngram_size");
  config.n_heads = reader.small_integer("n_head_per_ngram");
  config.vocab_size = reader.integers("engram_vocab_size");
  config.pad_token_id = reader.integer("pad_id");
  config.seed = reader.integer("seed");
  const int columns_per_order = reader.small_integer("n_embed_per_ngram");
  if (config.n_heads == 0 || columns_per_order % config.n_heads != 0) {
    reader.refuse("n_embed_per_ngram", "a multiple of n_head_per_ngram",
                  std::to_string(columns_per_order) + " for " + std::to_string(config.n_heads));
  } else {
    config.head_dim = columns_per_order / config.n_heads;
  }
  if (reader.error()) return *reader.error();
  return config;
}

}  // namespace engramd::engine
