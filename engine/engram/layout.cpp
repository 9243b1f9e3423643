#include "engine/engram/layout.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "engine/engram/multipliers.h"
#include "engine/engram/primes.h"

namespace engramd::engine {
namespace {

constexpr std::int64_t kLayerIdMax = 1 << 20;
constexpr std::int64_t kHashedVocabMax = std::int64_t{1} << 31;  // ids are int32

std::optional<Error> out_of_range(const char* name, std::int64_t low, std::int64_t high,
                                  std::int64_t got) {
  if (got >= low && got <= high) return std::nullopt;
  return invalid_argument(std::string("Engram layout: ") + name + ": expected " +
                          std::to_string(low) + " .. " + std::to_string(high) + ", got " +
                          std::to_string(got));
}

std::optional<Error> check_layer_ids(const std::vector<std::int64_t>& layer_ids) {
  if (layer_ids.empty()) return invalid_argument("Engram layout: expected layer_ids, got none");
  std::vector<std::int64_t> sorted = layer_ids;
  std::sort(sorted.begin(), sorted.end());
  for (const std::int64_t id : {sorted.front(), sorted.back()}) {
    if (auto error = out_of_range("layer_ids", 0, kLayerIdMax, id)) return error;
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return std::nullopt;
  return invalid_argument("Engram layout: layer_ids: expected each layer once, got layer " +
                          std::to_string(*twice) + " twice");
}

std::optional<Error> check_config(const EngramLayoutConfig& config) {
  if (auto error = check_layer_ids(config.layer_ids)) return error;
  if (auto error = out_of_range("max_ngram_size", 2, 16, config.max_ngram_size)) return error;
  if (auto error = out_of_range("n_heads", 1, 64, config.n_heads)) return error;
  if (auto error = out_of_range("head_dim", 1, 65536, config.head_dim)) return error;
  if (auto error =
          out_of_range("hashed_vocab_size", 1, kHashedVocabMax, config.hashed_vocab_size)) {
    return error;
  }
  const auto n_orders = static_cast<std::size_t>(config.max_ngram_size - 1);
  if (config.vocab_size.size() != n_orders) {
    return invalid_argument("Engram layout: vocab_size: expected " + std::to_string(n_orders) +
                            " numbers (orders 2 .. " + std::to_string(config.max_ngram_size) +
                            "), got " + std::to_string(config.vocab_size.size()));
  }
  if (config.variant == EngramVariant::kPeft &&
      !std::is_sorted(config.layer_ids.begin(), config.layer_ids.end())) {
    return invalid_argument(
        "Engram layout: layer_ids: engram-peft searches primes in rising order "
        "of layers: expected sorted layer_ids");
  }
  if (config.variant == EngramVariant::kQwen4Exp && config.eos_token_ids.empty()) {
    return invalid_argument("Engram layout: eos_token_ids: expected at least one, got none");
  }
  return std::nullopt;
}

Error differs(const char* name, std::int64_t layer_id) {
  return invalid_argument(std::string("Engram layout: stored ") + name + " of layer " +
                          std::to_string(layer_id) +
                          " differ from those derived from seed, sizes and compressed vocabulary; "
                          "the table would be addressed wrongly");
}

Error wrong_extent(const char* name, std::int64_t layer_id) {
  return invalid_argument(std::string("Engram layout: stored ") + name + " of layer " +
                          std::to_string(layer_id) +
                          ": expected one per N-gram slot of every Engram layer");
}

Result<std::vector<std::uint64_t>> layer_multipliers(const EngramLayoutConfig& config,
                                                     std::size_t index) {
  const std::int64_t layer_id = config.layer_ids[index];
  const auto n = static_cast<std::size_t>(config.max_ngram_size);
  const bool stored = !config.multipliers.empty();
  if (stored && (config.multipliers.size() != config.layer_ids.size() ||
                 config.multipliers[index].size() != n)) {
    return wrong_extent("multipliers", layer_id);
  }
  if (config.variant == EngramVariant::kQwen4Exp) {
    if (stored) return config.multipliers[index];
    return qwen_multipliers(config.seed, static_cast<std::int64_t>(index), config.hashed_vocab_size,
                            config.max_ngram_size);
  }
  std::vector<std::uint64_t> derived =
      demo_multipliers(config.seed, layer_id, config.hashed_vocab_size, config.max_ngram_size);
  if (stored && config.multipliers[index] != derived) return differs("multipliers", layer_id);
  return derived;
}

// Where the prime search of each order begins.
std::vector<std::int64_t> prime_bases(const EngramLayoutConfig& config) {
  std::vector<std::int64_t> bases = config.vocab_size;
  if (config.variant == EngramVariant::kPeft) {
    for (std::int64_t& base : bases) base /= config.n_heads;
  }
  return bases;
}

EngramLayer make_layer(EngramVariant variant, std::int64_t layer_id,
                       std::vector<std::uint64_t> multipliers,
                       const std::vector<std::vector<std::int64_t>>& primes_per_order) {
  EngramLayer layer;
  layer.layer_id = layer_id;
  layer.oldest_first = variant == EngramVariant::kPeft;
  layer.multipliers = std::move(multipliers);
  for (const auto& heads : primes_per_order) {
    for (const std::int64_t prime : heads) {
      layer.primes.push_back(prime);
      layer.offsets.push_back(layer.n_rows);
      layer.n_rows += prime;
    }
  }
  return layer;
}

}  // namespace

const char* name_of(EngramVariant variant) {
  switch (variant) {
    case EngramVariant::kDemo:
      return "demo";
    case EngramVariant::kDeepSeekV41:
      return "deepseek_v41";
    case EngramVariant::kQwen4Exp:
      return "qwen4_exp";
    case EngramVariant::kBundled:
      return "engram_moe";
    case EngramVariant::kPeft:
      return "engram_peft";
  }
  ENGRAMD_ASSERT(false);
  return "";
}

Result<EngramLayout> make_layout(EngramLayoutConfig config) {
  if (auto error = check_config(config)) return *error;
  const auto primes =
      search_primes(static_cast<int>(config.layer_ids.size()), prime_bases(config), config.n_heads);
  if (!primes.has_value()) return primes.error();
  EngramLayout layout;
  for (std::size_t i = 0; i < config.layer_ids.size(); ++i) {
    if (!config.primes.empty()) {
      if (i >= config.primes.size()) return wrong_extent("primes", config.layer_ids[i]);
      if (config.primes[i] != (*primes)[i]) return differs("primes", config.layer_ids[i]);
    }
    Result<std::vector<std::uint64_t>> multipliers = layer_multipliers(config, i);
    if (!multipliers.has_value()) return multipliers.error();
    layout.layers.push_back(
        make_layer(config.variant, config.layer_ids[i], std::move(*multipliers), (*primes)[i]));
  }
  layout.config = std::move(config);
  return layout;
}

}  // namespace engramd::engine
