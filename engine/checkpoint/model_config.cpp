#include "engine/checkpoint/model_config.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/checkpoint/json_fields.h"
#include "engine/checkpoint/regular_file.h"
#include "kernels/limits.h"

namespace engramd::engine {
namespace {

constexpr const char* kSubject = "config.json";
constexpr const char* kSupportedType = "engram_moe";

// Bounds of every size, so that no product of two or three of them leaves an int64 (or, for head
// counts times head sizes, an int). An order of magnitude above the largest public models. What the
// kernels bound themselves is in kernels/limits.h.
constexpr std::int64_t kVocabMax = 1 << 24;
constexpr int kHiddenMax = 1 << 16;
constexpr int kLayersMax = 1024;
constexpr int kHeadDimMax = 4096;
constexpr int kPositionsMax = 1 << 24;
constexpr int kIntermediateMax = 1 << 20;
constexpr int kSharedExpertsMax = 64;
constexpr int kSinkhornIterationsMax = 64;
constexpr std::size_t kEosMax = 64;
constexpr std::size_t kEngramLayersMax = 64;  // bounds the prime search as well
constexpr int kDilationMax = 1024;
constexpr double kTiny = 1e-30;  // "greater than zero"

// A key that may be absent or null, and otherwise must say what this architecture computes.
template <class T>
void require_if_present(JsonFields& fields, std::string_view name, const T& only) {
  const JsonValue* value = fields.find(name);
  if (value == nullptr) return;
  const auto* got = value->as<T>();
  if (got == nullptr || *got != only) fields.fail(name, JsonValue{only}.describe(), value);
}

void require_absent(JsonFields& fields, std::string_view name) {
  if (const JsonValue* value = fields.find(name)) fields.fail(name, "null", value);
}

void read_attention(JsonFields& fields, ModelConfig& config) {
  config.num_attention_heads = fields.small_integer("num_attention_heads", 1, kernels::kHeadsMax);
  // Latent attention has a key per head; a model with fewer is another architecture.
  require_if_present(fields, "num_key_value_heads",
                     static_cast<std::uint64_t>(config.num_attention_heads));
  config.qk_nope_head_dim = fields.small_integer("qk_nope_head_dim", 1, kHeadDimMax);
  config.qk_rope_head_dim =
      fields.small_integer("qk_rope_head_dim", 2, kernels::kLatentWidthMax / 2);
  if (config.qk_rope_head_dim % 2 != 0) {
    fields.fail("qk_rope_head_dim", "an even number (rotary pairs)",
                fields.find("qk_rope_head_dim"));
  }
  config.v_head_dim = fields.small_integer("v_head_dim", 1, kHeadDimMax);
  config.kv_lora_rank =
      fields.small_integer("kv_lora_rank", 1, kernels::kLatentWidthMax - config.qk_rope_head_dim);
  require_absent(fields, "q_lora_rank");
  config.rope_theta = fields.number("rope_theta", 1.0, 1e12);
  require_absent(fields, "rope_scaling");
  require_if_present(fields, "attention_bias", false);
  config.max_position_embeddings =
      fields.small_integer("max_position_embeddings", 1, kPositionsMax);
}

void read_feed_forward(JsonFields& fields, ModelConfig& config) {
  config.first_k_dense_replace =
      fields.small_integer("first_k_dense_replace", 0, config.num_hidden_layers);
  config.intermediate_size = fields.small_integer("intermediate_size", 1, kIntermediateMax);
  config.moe_intermediate_size = fields.small_integer("moe_intermediate_size", 1, kIntermediateMax);
  config.n_routed_experts = fields.small_integer("n_routed_experts", 1, kernels::kExpertsMax);
  config.num_experts_per_tok =
      fields.small_integer("num_experts_per_tok", 1, config.n_routed_experts);
  config.n_shared_experts = fields.small_integer("n_shared_experts", 0, kSharedExpertsMax);
  config.norm_topk_prob = fields.boolean("norm_topk_prob");
  config.routed_scaling_factor = fields.number("routed_scaling_factor", kTiny, 1e6);
  require_if_present<std::uint64_t>(fields, "n_group", 1);
  require_if_present<std::uint64_t>(fields, "topk_group", 1);
  require_if_present<std::string>(fields, "scoring_func", "sigmoid");
  require_if_present<std::string>(fields, "topk_method", "noaux_tc");
  require_if_present<std::string>(fields, "hidden_act", "silu");
}

void read_tokens(JsonFields& fields, ModelConfig& config) {
  const std::int64_t last = config.vocab_size - 1;
  config.bos_token_id = fields.optional_integer("bos_token_id", 0, last).value_or(-1);
  config.pad_token_id = fields.optional_integer("pad_token_id", 0, last).value_or(-1);
  const JsonValue* eos = fields.find("eos_token_id");
  if (eos != nullptr && eos->as<JsonValue::Array>() != nullptr) {
    config.eos_token_ids = fields.integers("eos_token_id", 0, last, 1, kEosMax);
  } else if (eos != nullptr) {
    config.eos_token_ids = {fields.integer("eos_token_id", 0, last)};
  }
}

// {"1": ..., "3": ...}: the entry of each Engram layer, and nothing else.
std::vector<const JsonValue*> per_layer(JsonFields& fields, std::string_view name,
                                        const std::vector<std::int64_t>& layer_ids) {
  std::vector<const JsonValue*> entries;
  const JsonValue* value = fields.find(name);
  if (value == nullptr) return entries;
  for (const std::int64_t id : layer_ids) {
    if (const JsonValue* entry = value->find(std::to_string(id))) entries.push_back(entry);
  }
  const auto* object = value->as<JsonValue::Object>();
  if (object == nullptr || object->size() != layer_ids.size() ||
      entries.size() != layer_ids.size()) {
    fields.fail(name, "an object with one entry per layer of engram_layer_ids", value);
    entries.clear();
  }
  return entries;
}

// Numbers that the file stores beside what they are derived from; make_layout compares them.
void read_stored_layout(JsonFields& fields, EngramLayoutConfig& layout) {
  for (const JsonValue* entry : per_layer(fields, "engram_multipliers", layout.layer_ids)) {
    const auto numbers = integers_of(*entry, 1, INT64_MAX);
    if (!numbers) fields.fail("engram_multipliers", "arrays of positive integers", entry);
    auto& multipliers = layout.multipliers.emplace_back();
    if (numbers) multipliers.assign(numbers->begin(), numbers->end());
  }
  for (const JsonValue* entry : per_layer(fields, "engram_primes", layout.layer_ids)) {
    auto& orders = layout.primes.emplace_back();
    const auto* array = entry->as<JsonValue::Array>();
    if (array == nullptr) fields.fail("engram_primes", "arrays of arrays of integers", entry);
    for (const JsonValue& item : array == nullptr ? JsonValue::Array() : *array) {
      const auto heads = integers_of(item, 2, INT64_MAX);
      if (!heads) fields.fail("engram_primes", "arrays of arrays of integers", &item);
      orders.push_back(heads.value_or(std::vector<std::int64_t>()));
    }
  }
}

EngramConfig read_engram(JsonFields& fields, const ModelConfig& config) {
  EngramConfig engram;
  EngramLayoutConfig& layout = engram.layout;
  layout.variant = EngramVariant::kBundled;
  layout.layer_ids =
      fields.integers("engram_layer_ids", 0, config.num_hidden_layers - 1, 1, kEngramLayersMax);
  layout.max_ngram_size = fields.small_integer("engram_max_ngram_size", 2, 16);
  layout.n_heads = fields.small_integer("engram_n_heads", 1, 64);
  layout.head_dim = fields.small_integer("engram_head_dim", 1, 65536);
  const auto n_orders = static_cast<std::size_t>(layout.max_ngram_size - 1);
  layout.vocab_size =
      fields.integers("engram_vocab_size", 2, std::int64_t{1} << 40, n_orders, n_orders);
  layout.pad_token_id = fields.integer("engram_pad_token_id", 0, config.vocab_size - 1);
  layout.seed = fields.integer("engram_seed", 0, std::int64_t{1} << 48);
  layout.hashed_vocab_size = fields.integer("engram_compressed_vocab_size", 1, config.vocab_size);
  engram.kernel_size = fields.small_integer("engram_kernel_size", 1, kernels::kTapsMax);
  engram.dilation = fields.small_integer("engram_dilation", 1, kDilationMax);
  read_stored_layout(fields, layout);
  return engram;
}

ModelConfig read_model(JsonFields& fields) {
  ModelConfig config;
  config.model_type = kSupportedType;
  require_absent(fields, "quantization_config");
  config.vocab_size = fields.integer("vocab_size", 1, kVocabMax);
  config.hidden_size = fields.small_integer("hidden_size", 1, kHiddenMax);
  config.num_hidden_layers = fields.small_integer("num_hidden_layers", 1, kLayersMax);
  read_attention(fields, config);
  config.rms_norm_eps = fields.number("rms_norm_eps", kTiny, 0.1);
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings");
  read_feed_forward(fields, config);
  config.hc_mult = fields.small_integer("hc_mult", 1, kernels::kStreamsMax);
  config.hc_sinkhorn_iters = fields.small_integer("hc_sinkhorn_iters", 1, kSinkhornIterationsMax);
  config.hc_eps = fields.number("hc_eps", 0.0, 0.1);
  read_tokens(fields, config);
  if (fields.find("engram_layer_ids") != nullptr) config.engram = read_engram(fields, config);
  return config;
}

}  // namespace

Result<ModelConfig> parse_model_config(std::string_view json) {
  const auto root = parse_json(json, kSubject, {});
  if (!root) return root.error();
  JsonFields fields(*root, kSubject);
  if (fields.text("model_type") != kSupportedType) {
    fields.fail("model_type", std::string(kSupportedType) + " (the supported type)",
                fields.find("model_type"));
  }
  if (fields.error()) return *fields.error();
  ModelConfig config = read_model(fields);
  if (!fields.error() && !config.tie_word_embeddings) {
    fields.fail("tie_word_embeddings", "true (the head is the embedding)",
                fields.find("tie_word_embeddings"));
  }
  if (fields.error()) return *fields.error();
  if (config.engram) {
    const auto layout = make_layout(config.engram->layout);
    if (!layout) {
      Error error = layout.error();
      error.message = std::string(kSubject) + ": " + error.message;
      return error;
    }
  }
  return config;
}

std::string model_name_of(const std::string& folder) {  // "DIR/" is the same folder as "DIR"
  return std::filesystem::path(folder + "/").lexically_normal().parent_path().filename();
}

Result<ModelConfig> read_model_config(const std::string& folder) {
  constexpr std::int64_t kBytesMax = 4 << 20;  // the largest public config.json is 100 KB
  const std::string path = folder + "/config.json";
  const auto text = read_text_file(path, kBytesMax);
  if (text.has_error()) return text.error();
  auto config = parse_model_config(*text);
  if (config.has_error()) return Error{config.error().kind, path + ": " + config.error().message};
  return config;
}

}  // namespace engramd::engine
