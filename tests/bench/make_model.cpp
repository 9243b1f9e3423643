// make_model: writes a random model of the engram_moe architecture in any size, so that speed and
// memory can be studied beyond the bundled model. Same flags and seed, same bytes. Tensors are
// streamed: a table larger than memory is no problem. Names, types and initial values follow the
// bundled model's recipe (normal weights of scale fan_in^-0.5, norms 1, hyper-connections that
// start near the identity); what the recipe starts at zero and a forward pass should exercise (the
// convolution) is random too.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/model_config.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "engine/engram/row_codec.h"
#include "engine/engram/token_map.h"

namespace engramd::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Options {
  ordered_json config;
  fs::path out;
  fs::path tokenizer = fs::path(ENGRAMD_SOURCE_DIR) / "install/models/engram-nano/tokenizer.json";
  std::uint64_t seed = 0;
};

// Flags with an integer value; the default is the bundled model's.
struct IntegerFlag {
  const char* flag;
  const char* key;  // of config.json
  std::int64_t value;
};
constexpr std::array kIntegerFlags = std::to_array<IntegerFlag>({
    {"--vocab-size", "vocab_size", 0},  // 0: the tokenizer's
    {"--hidden-size", "hidden_size", 256},
    {"--layers", "num_hidden_layers", 6},
    {"--heads", "num_attention_heads", 4},
    {"--qk-nope-head-dim", "qk_nope_head_dim", 48},
    {"--qk-rope-head-dim", "qk_rope_head_dim", 16},
    {"--v-head-dim", "v_head_dim", 64},
    {"--kv-lora-rank", "kv_lora_rank", 96},
    {"--max-position-embeddings", "max_position_embeddings", 2048},
    {"--dense-layers", "first_k_dense_replace", 1},
    {"--intermediate-size", "intermediate_size", 768},
    {"--moe-intermediate-size", "moe_intermediate_size", 96},
    {"--experts", "n_routed_experts", 16},
    {"--experts-per-token", "num_experts_per_tok", 4},
    {"--shared-experts", "n_shared_experts", 1},
    {"--hc-mult", "hc_mult", 2},
    {"--hc-sinkhorn-iters", "hc_sinkhorn_iters", 4},
    {"--bos-token-id", "bos_token_id", 0},
    {"--eos-token-id", "eos_token_id", 1},
    {"--pad-token-id", "pad_token_id", 2},
    {"--engram-max-ngram-size", "engram_max_ngram_size", 3},
    {"--engram-vocab-size", "engram_vocab_size", 20011},
    {"--engram-heads", "engram_n_heads", 4},
    {"--engram-head-dim", "engram_head_dim", 32},
    {"--engram-kernel-size", "engram_kernel_size", 4},
    {"--engram-dilation", "engram_dilation", 3},
});

void print_usage() {
  std::puts(
      "make_model --out DIR [flags]: a random engram_moe model of any size\n"
      "  --seed N             default 0\n"
      "  --tokenizer FILE     tokenizer.json to copy; default: the bundled model's\n"
      "  --engram-layers A,B  layers with an Engram table, or none; default 1,3\n"
      "  --engram-vocab-size  rows per N-gram order and head (the prime search base)\n"
      "Integer flags and their defaults (--vocab-size 0: the tokenizer's):");
  for (const IntegerFlag& row : kIntegerFlags) {
    std::printf("  %-26s %lld\n", row.flag, static_cast<long long>(row.value));
  }
}

Result<std::int64_t> parse_integer(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0) {
    return invalid_argument(flag + ": expected an integer, got \"" + text + "\"");
  }
  return value;
}

Result<std::vector<std::int64_t>> parse_layers(const std::string& text) {
  std::vector<std::int64_t> layers;
  if (text == "none") return layers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto layer = parse_integer("--engram-layers", text.substr(begin, end - begin));
    if (!layer) return layer.error();
    layers.push_back(*layer);
    begin = end + 1;
  }
  return layers;
}

Result<Options> parse_flags(const std::vector<std::string>& arguments) {
  Options options;
  std::vector<std::int64_t> engram_layers = {1, 3};
  options.config = {{"model_type", "engram_moe"}, {"architectures", {"EngramMoeForCausalLM"}}};
  for (const IntegerFlag& row : kIntegerFlags) options.config[row.key] = row.value;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    const std::string& flag = arguments[i];
    if (i + 1 == arguments.size()) return invalid_argument(flag + ": the value is missing");
    const std::string& value = arguments[i + 1];
    const auto row = std::find_if(kIntegerFlags.begin(), kIntegerFlags.end(),
                                  [&](const IntegerFlag& r) { return flag == r.flag; });
    if (flag == "--out") {
      options.out = value;
    } else if (flag == "--tokenizer") {
      options.tokenizer = value;
    } else if (flag == "--engram-layers") {
      auto layers = parse_layers(value);
      if (!layers) return layers.error();
      engram_layers = std::move(*layers);
    } else if (flag == "--seed" || row != kIntegerFlags.end()) {
      const auto number = parse_integer(flag, value);
      if (!number) return number.error();
      if (flag == "--seed") options.seed = static_cast<std::uint64_t>(*number);
      if (flag != "--seed") options.config[row->key] = *number;
    } else {
      return invalid_argument(flag + ": unknown flag; --help lists them");
    }
  }
  if (options.out.empty()) return invalid_argument("--out: the folder is missing");
  if (!engram_layers.empty()) options.config["engram_layer_ids"] = engram_layers;
  return options;
}

// What the flags do not choose, the tokenizer's sizes, and the numbers derived from all of it.
Result<ModelConfig> complete_config(ordered_json& config, std::int64_t tokenizer_vocab_size,
                                    std::int64_t n_classes) {
  if (config["vocab_size"] == 0) config["vocab_size"] = tokenizer_vocab_size;
  if (config["vocab_size"] != tokenizer_vocab_size) {
    return invalid_argument("--vocab-size: the tokenizer has " +
                            std::to_string(tokenizer_vocab_size) +
                            " tokens; name another with --tokenizer");
  }
  config.update({{"q_lora_rank", nullptr},
                 {"rope_theta", 10000.0},
                 {"rms_norm_eps", 1e-6},
                 {"tie_word_embeddings", true},
                 {"n_group", 1},
                 {"topk_group", 1},
                 {"scoring_func", "sigmoid"},
                 {"topk_method", "noaux_tc"},
                 {"norm_topk_prob", true},
                 {"routed_scaling_factor", 1.0},
                 {"hc_eps", 1e-6},
                 {"torch_dtype", "bfloat16"},
                 {"engram_seed", 0},
                 {"engram_pad_token_id", config["pad_token_id"]},
                 {"engram_compressed_vocab_size", n_classes}});
  const std::int64_t max_ngram_size = config["engram_max_ngram_size"];
  const auto n_orders =
      static_cast<std::size_t>(std::clamp<std::int64_t>(max_ngram_size - 1, 0, 15));
  config["engram_vocab_size"] =
      std::vector<std::int64_t>(n_orders, config["engram_vocab_size"].get<std::int64_t>());
  auto parsed = parse_model_config(config.dump());
  if (!parsed || !parsed->engram) return parsed;
  const auto layout = make_layout(parsed->engram->layout);
  if (!layout) return layout.error();
  for (const EngramLayer& layer : layout->layers) {
    const std::string id = std::to_string(layer.layer_id);
    config["engram_multipliers"][id] = layer.multipliers;
    for (auto heads = layer.primes.begin(); heads != layer.primes.end();
         heads += parsed->engram->layout.n_heads) {
      config["engram_primes"][id].push_back(
          std::vector<std::int64_t>(heads, heads + parsed->engram->layout.n_heads));
    }
  }
  return parse_model_config(config.dump());  // with the stored numbers, as a loader will read it
}

enum class Fill { kNormal, kConstant, kHyperBase, kTokenMap, kOwner };

struct Plan {
  Fill fill = Fill::kNormal;
  double value = 0;  // standard deviation or the constant
};

// Collects the tensors of a model: specs for the writer, and how each is filled.
class TensorPlan {
 public:
  explicit TensorPlan(const ModelConfig& config);
  std::vector<TensorSpec> specs;
  std::map<std::string, Plan> plans;

 private:
  void add(const std::string& name, const char* dtype, std::vector<std::int64_t> shape,
           const Plan& plan) {
    plans[name] = plan;
    specs.push_back({name, dtype, std::move(shape)});
  }
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns,
              const char* dtype = "BF16") {
    add(name, dtype, {rows, columns}, {Fill::kNormal, std::pow(columns, -0.5)});
  }
  void constant(const std::string& name, std::vector<std::int64_t> shape, double value) {
    add(name, "F32", std::move(shape), {Fill::kConstant, value});
  }
  void feed_forward(const std::string& prefix, std::int64_t hidden, std::int64_t width) {
    matrix(prefix + "gate_proj.weight", width, hidden);
    matrix(prefix + "up_proj.weight", width, hidden);
    matrix(prefix + "down_proj.weight", hidden, width);
  }
  void hyper_connection(const std::string& prefix, std::int64_t n, std::int64_t hidden) {
    add(prefix + ".fn", "F32", {(2 + n) * n, n * hidden}, {Fill::kNormal, 0.02});
    add(prefix + ".base", "F32", {(2 + n) * n}, {Fill::kHyperBase, static_cast<double>(n)});
    constant(prefix + ".scale", {3}, 0.1);
  }
  void layer(const std::string& prefix, const ModelConfig& c, bool is_dense);
  void engram(const std::string& prefix, const ModelConfig& c, std::int64_t n_rows,
              std::int64_t width);
};

void TensorPlan::layer(const std::string& prefix, const ModelConfig& c, bool is_dense) {
  const std::int64_t d = c.hidden_size, heads = c.num_attention_heads;
  constant(prefix + "input_layernorm.weight", {d}, 1);
  constant(prefix + "post_attention_layernorm.weight", {d}, 1);
  hyper_connection(prefix + "hc_attn", c.hc_mult, d);
  hyper_connection(prefix + "hc_ffn", c.hc_mult, d);
  const std::string attention = prefix + "self_attn.";
  matrix(attention + "q_proj.weight", heads * (c.qk_nope_head_dim + c.qk_rope_head_dim), d);
  matrix(attention + "kv_a_proj_with_mqa.weight", c.kv_lora_rank + c.qk_rope_head_dim, d);
  matrix(attention + "kv_b_proj.weight", heads * (c.qk_nope_head_dim + c.v_head_dim),
         c.kv_lora_rank);
  matrix(attention + "o_proj.weight", d, heads * c.v_head_dim);
  constant(attention + "kv_a_layernorm.weight", {c.kv_lora_rank}, 1);
  if (is_dense) return feed_forward(prefix + "mlp.", d, c.intermediate_size);
  matrix(prefix + "mlp.gate.weight", c.n_routed_experts, d, "F32");
  constant(prefix + "mlp.gate.e_score_correction_bias", {c.n_routed_experts}, 0);
  for (int e = 0; e < c.n_routed_experts; ++e) {
    feed_forward(prefix + "mlp.experts." + std::to_string(e) + ".", d, c.moe_intermediate_size);
  }
  if (c.n_shared_experts == 0) return;
  feed_forward(prefix + "mlp.shared_experts.", d,
               std::int64_t{c.moe_intermediate_size} * c.n_shared_experts);
}

void TensorPlan::engram(const std::string& prefix, const ModelConfig& c, std::int64_t n_rows,
                        std::int64_t width) {
  const std::int64_t d = c.hidden_size, n = c.hc_mult, head_dim = c.engram->layout.head_dim;
  // Values of scale 0.02, stored as e4m3 x 2^-12: 82 of 448 leaves room for five deviations.
  add(prefix + "embed.weight", "F8_E4M3", {n_rows, head_dim}, {Fill::kNormal, 0.02 * 4096});
  add(prefix + "embed.scale", "F8_E8M0", {n_rows, (head_dim + kScaleBlock - 1) / kScaleBlock},
      {Fill::kConstant, 127 - 12});
  add(prefix + "embed.owner", "U16", {n_rows}, {Fill::kOwner});
  add(prefix + "key_proj.weight", "BF16", {n, d, width}, {Fill::kNormal, std::pow(width, -0.5)});
  constant(prefix + "key_proj.bias", {n, d}, 0);
  matrix(prefix + "value_proj.weight", d, width);
  constant(prefix + "value_proj.bias", {d}, 0);
  for (const char* norm : {"key_norm", "query_norm", "conv_norm"}) {
    constant(prefix + norm + ".weight", {n, d}, 1);
  }
  add(prefix + "conv.weight", "F32", {n, d, c.engram->kernel_size},
      {Fill::kNormal, std::pow(c.engram->kernel_size, -0.5)});
}

TensorPlan::TensorPlan(const ModelConfig& c) {
  const std::int64_t d = c.hidden_size, n = c.hc_mult;
  add("model.embed_tokens.weight", "BF16", {c.vocab_size, d}, {Fill::kNormal, 0.02});
  constant("model.norm.weight", {d}, 1);
  add("model.hc_head.fn", "F32", {n, n * d}, {Fill::kNormal, 0.02});
  constant("model.hc_head.base", {n}, 0);
  constant("model.hc_head.scale", {1}, 0.1);
  for (int i = 0; i < c.num_hidden_layers; ++i) {
    layer("model.layers." + std::to_string(i) + ".", c, i < c.first_k_dense_replace);
  }
  if (!c.engram) return;
  add("model.engram.token_map", "I32", {c.vocab_size}, {Fill::kTokenMap});
  const auto layout = make_layout(c.engram->layout);
  ENGRAMD_ASSERT(layout);  // parse_model_config made it once
  for (const EngramLayer& l : layout->layers) {
    engram("model.layers." + std::to_string(l.layer_id) + ".engram.", c, l.n_rows,
           layout->columns_width());
  }
}

// The codes of `values` in a tensor's dtype, one after the other.
std::vector<std::byte> encode(const std::string& dtype, const std::vector<float>& values) {
  const auto element_bytes = static_cast<std::size_t>(bits_of_dtype(dtype) / 8);
  std::vector<std::byte> codes(values.size() * element_bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bf16 = encode_bf16(values[i]);
    const std::uint8_t e4m3 = encode_e4m3(values[i]);
    const auto integer = static_cast<std::uint8_t>(values[i]);  // an e8m0 code as it is
    const void* code = &integer;
    if (dtype == "F32") code = &values[i];
    if (dtype == "BF16") code = &bf16;
    if (dtype == "F8_E4M3") code = &e4m3;
    std::memcpy(codes.data() + i * element_bytes, code, element_bytes);
  }
  return codes;
}

std::vector<float> hyper_base(int n) {
  std::vector<float> base(static_cast<std::size_t>((2 + n) * n), 0.0f);
  for (int i = 0; i < n; ++i) {
    base[static_cast<std::size_t>(i)] = n > 1 ? std::log(1.0f / static_cast<float>(n - 1)) : 3.0f;
    base[static_cast<std::size_t>(2 * n + i * n + i)] = 4.0f;  // comb starts near the identity
  }
  return base;
}

constexpr std::size_t kSamples = 4096;

class Filler {
 public:
  Filler(std::uint64_t seed, const TokenMap& token_map) : token_map_(token_map), random_(seed) {
    std::normal_distribution<float> normal;
    for (float& sample : samples_) sample = normal(random_);
  }

  Result<void> write(SafetensorsWriter& writer, const TensorInfo& tensor, const Plan& plan) {
    switch (plan.fill) {
      case Fill::kTokenMap:
        return writer.append(std::as_bytes(std::span(token_map_.classes)));
      case Fill::kHyperBase:
        return writer.append(encode("F32", hyper_base(static_cast<int>(plan.value))));
      case Fill::kConstant:
        return repeat(writer, tensor, encode(tensor.dtype, {static_cast<float>(plan.value)}));
      case Fill::kNormal: {
        std::vector<float> values(samples_.begin(), samples_.end());
        for (float& value : values) value *= static_cast<float>(plan.value);
        return repeat(writer, tensor, encode(tensor.dtype, values));
      }
      case Fill::kOwner: {
        std::vector<std::uint16_t> tags(kSamples);  // 0 would mean an empty row
        for (std::size_t i = 0; i < kSamples; ++i) tags[i] = static_cast<std::uint16_t>(1 + 15 * i);
        const auto bytes = std::as_bytes(std::span(tags));
        return repeat(writer, tensor, {bytes.begin(), bytes.end()});
      }
    }
    return {};
  }

 private:
  // The tensor's elements, each drawn from `codes`: a few thousand different values are random
  // enough, and a table of gigabytes is written at the speed of the disk.
  Result<void> repeat(SafetensorsWriter& writer, const TensorInfo& tensor,
                      const std::vector<std::byte>& codes) {
    const auto element_bytes = static_cast<std::size_t>(bits_of_dtype(tensor.dtype) / 8);
    const std::size_t n_codes = codes.size() / element_bytes;  // 1 or kSamples
    std::vector<std::byte> block(kBlockElements * element_bytes);
    for (std::int64_t left = tensor.length_bytes; left > 0;) {
      for (std::size_t i = 0; i < kBlockElements; i += 4) {
        const std::uint64_t draw = random_();
        for (std::size_t j = 0; j < 4; ++j) {
          const std::size_t code = (draw >> (16 * j)) % n_codes;
          std::memcpy(block.data() + (i + j) * element_bytes, codes.data() + code * element_bytes,
                      element_bytes);
        }
      }
      const auto n = std::min(left, static_cast<std::int64_t>(block.size()));
      const auto appended = writer.append(std::span(block).first(static_cast<std::size_t>(n)));
      if (!appended) return appended;
      left -= n;
    }
    return {};
  }

  static constexpr std::size_t kBlockElements = 1 << 18;
  const TokenMap& token_map_;
  std::mt19937_64 random_;
  std::array<float, kSamples> samples_{};
};

Result<void> write_weights(const Options& options, const ModelConfig& config,
                           const TokenMap& token_map) {
  TensorPlan plan(config);
  auto writer = SafetensorsWriter::create((options.out / "model.safetensors").string(),
                                          std::move(plan.specs), {{"format", "pt"}});
  if (!writer) return writer.error();
  Filler filler(options.seed, token_map);
  std::int64_t bytes = 0;
  for (const TensorInfo& tensor : writer->tensors()) {
    const auto written = filler.write(*writer, tensor, plan.plans.at(tensor.name));
    if (!written) return written;
    bytes += tensor.length_bytes;
  }
  std::printf("%zu tensors, %lld bytes\n", writer->tensors().size(), static_cast<long long>(bytes));
  return writer->finish();
}

Result<void> make_model(Options options) {
  const auto tokenizer = Tokenizer::from_file(options.tokenizer.string());
  if (!tokenizer) return tokenizer.error();
  const TokenMap token_map = build_token_map(*tokenizer);
  const auto config = complete_config(options.config, tokenizer->vocab_size(), token_map.n_classes);
  if (!config) return config.error();
  std::error_code failure;
  fs::create_directories(options.out, failure);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    const fs::path source = std::string(name) == "tokenizer.json"
                                ? options.tokenizer
                                : options.tokenizer.parent_path() / name;
    if (failure || !fs::exists(source)) continue;
    fs::copy_file(source, options.out / name, fs::copy_options::overwrite_existing, failure);
  }
  if (failure) return environment_error(options.out.string() + ": " + failure.message());
  // The config comes last: a folder with a config.json is complete.
  if (const auto written = write_weights(options, *config, token_map); !written) return written;
  std::ofstream file(options.out / "config.json");
  file << options.config.dump(1) << '\n';
  if (!file.flush()) return environment_error((options.out / "config.json: cannot write").string());
  return {};
}

}  // namespace
}  // namespace engramd::engine

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty() || arguments[0] == "--help") {
    engramd::engine::print_usage();
    return arguments.empty() ? 2 : 0;
  }
  auto options = engramd::engine::parse_flags(arguments);
  if (!options) {
    std::fprintf(stderr, "make_model: %s\n", options.error().message.c_str());
    return 2;
  }
  const auto made = engramd::engine::make_model(std::move(*options));
  if (made) return 0;
  std::fprintf(stderr, "make_model: %s\n", made.error().message.c_str());
  return 1;
}
