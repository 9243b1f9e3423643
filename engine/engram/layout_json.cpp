#include "engine/engram/layout_json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
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
  // prefix: what stands before a key in messages.
  Reader(const Json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {}

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
    error_ = invalid_argument(prefix_ + key + ": expected " + expected + ", got " + got);
  }
  // The value must be this one.
  void require(const char* key, const Json& expected) {
    const Json* value = find(key);
    if (value != nullptr && *value != expected) refuse(key, shown(expected), shown(*value));
  }
  bool boolean(const char* key) {
    const Json* value = find(key);
    if (value != nullptr && !value->is_boolean()) refuse(key, "true or false", shown(*value));
    return value != nullptr && *value == true;
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
  std::string prefix_;
  std::optional<Error> error_;
};

// The columns of one row, when `columns` of them are spread evenly over `n_rows`.
int head_dim_of(Reader& reader, const char* key, const char* of, int columns, std::int64_t n_rows) {
  if (n_rows > 0 && columns % n_rows == 0) return static_cast<int>(columns / n_rows);
  reader.refuse(key, std::string("a multiple of ") + of,
                std::to_string(columns) + " for " + std::to_string(n_rows));
  return 0;
}

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
  Reader reader(*engram, "layout file: engram.");
  refuse_unknown_keys(*engram, reader);
  EngramLayoutConfig config;
  config.variant = EngramVariant::kDemo;
  config.layer_ids = reader.integers("layer_ids");
  config.max_ngram_size = reader.small_integer("max_ngram_size");
  config.n_heads = reader.small_integer("n_head_per_ngram");
  config.vocab_size = reader.integers("engram_vocab_size");
  config.pad_token_id = reader.integer("pad_id");
  config.seed = reader.integer("seed");
  config.head_dim = head_dim_of(reader, "n_embed_per_ngram", "n_head_per_ngram",
                                reader.small_integer("n_embed_per_ngram"), config.n_heads);
  if (reader.error()) return *reader.error();
  return config;
}

bool is_peft_json(std::string_view json) {
  const Json file = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  return file.is_object() && !file.contains("engram") &&
         file.value("model_type", Json()) == "engram";
}

Result<PeftLayout> parse_peft_json(std::string_view json) {
  const Json file = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) return invalid_argument("engram-peft config.json: expected a JSON object");
  Reader reader(file, "engram-peft config.json: ");
  reader.require("model_type", "engram");
  reader.require("engine", "deepseek");
  reader.require("prime_sizes", nullptr);
  PeftLayout layout;
  layout.compresses_tokens = reader.boolean("enable_tokenizer_compression");
  EngramLayoutConfig& config = layout.config;
  config.variant = EngramVariant::kPeft;
  config.layer_ids = reader.integers("target_layers");
  std::sort(config.layer_ids.begin(), config.layer_ids.end());  // as its prime search
  const std::vector<std::int64_t> orders = reader.integers("ngram_sizes");
  config.max_ngram_size = reader.small_integer("max_ngram_size");
  std::vector<std::int64_t> expected(orders.size());
  std::iota(expected.begin(), expected.end(), 2);
  if (orders != expected || std::ssize(orders) != std::int64_t{config.max_ngram_size} - 1) {
    reader.refuse("ngram_sizes", "2 .. max_ngram_size", shown(Json(orders)));
  }
  config.n_heads = reader.small_integer("n_head_per_ngram");
  config.vocab_size = reader.integers("engram_vocab_size_per_ngram");
  config.pad_token_id = reader.integer("pad_id");
  config.seed = reader.integer("seed");
  config.hashed_vocab_size = reader.integer("compressed_vocab_size");
  config.head_dim = head_dim_of(reader, "embedding_dim", "orders times n_head_per_ngram",
                                reader.small_integer("embedding_dim"),
                                std::int64_t{config.n_heads} * std::ssize(orders));
  if (reader.error()) return *reader.error();
  return layout;
}

}  // namespace engramd::engine
