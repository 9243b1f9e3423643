// The Engram module of every variant against its public implementation: from token classes through
// addresses, rows, gate and convolution to the update of the streams.
#include "engine/engram/module.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/safetensors.h"
#include "engine/engram/addresser.h"
#include "engine/engram/layout_json.h"
#include "kernels/number_formats.h"

namespace engramd::engine {
namespace {

using Json = nlohmann::json;
using kernels::TokenSlot;
using ::testing::HasSubstr;

constexpr double kTolerance = 1e-10;   // normalised mean squared error
constexpr float kTorchEps = 0x1p-23F;  // torch's default for fp32
const std::string kFolder = ENGRAMD_TEST_DATA "/engram/module/";

Json json_of(const std::string& name) {
  return Json::parse(std::ifstream(kFolder + name));
}

class Tensors {
 public:
  explicit Tensors(const std::string& name)
      : file_(SafetensorsFile::open(kFolder + name + ".safetensors")) {}

  kernels::TensorView view(const std::string& name) const { return *file_->tensor(name); }
  template <class T>
  std::vector<T> values(const std::string& name) const {
    const auto tensor = view(name);
    return {tensor.as<T>(), tensor.as<T>() + tensor.n_elements()};
  }
  std::vector<double> doubles(const std::string& name) const {
    if (view(name).dtype == kernels::DType::kF64) return values<double>(name);
    const auto floats = values<float>(name);
    return {floats.begin(), floats.end()};
  }
  TensorLookup below(const std::string& prefix) const {
    return [this, prefix](const std::string& name) { return file_->tensor(prefix + name); };
  }

 private:
  Result<SafetensorsFile> file_;
};

template <class Got>
double nmse(const std::vector<Got>& got, const std::vector<double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double error = 0;
  double power = 1e-300;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    power += expected[i] * expected[i];
  }
  return error / power;
}

// What a module added to the streams, and what its gate saw.
struct Update {
  std::vector<double> added;  // of the streams' shape
  std::vector<float> streams, gate, dot;
};

enum class Engine { kReference, kFast };
std::unique_ptr<kernels::Backend> backend_of(Engine engine) {
  return engine == Engine::kReference ? kernels::make_reference_backend()
                                      : kernels::make_cpu_backend({});
}

struct Case {
  kernels::RowFormat format;
  std::vector<kernels::RowBytes> rows;  // [n_sequences * n_tokens, n_columns]
  std::int64_t n_sequences = 0;         // of less than a cache block of tokens each
  std::vector<float> streams;           // [n_sequences * n_tokens, ...]
  std::vector<std::uint8_t> masked;
};

// Runs in chunks of `chunk` tokens per sequence, the convolution's past carried over in a cache.
Update run_module(const EngramModule& module, const Case& c, Engine engine, std::int32_t chunk) {
  const auto backend = backend_of(engine);
  const kernels::EngramGate gate = module.gate();
  const auto n_sequences = static_cast<std::int32_t>(c.n_sequences);
  const std::size_t width = static_cast<std::size_t>(gate.n_streams * gate.hidden_size);
  const std::size_t n_streams = static_cast<std::size_t>(gate.n_streams);
  std::vector<float> cells(c.n_sequences * kernels::kBlockTokens * width);
  std::vector<std::int32_t> blocks;
  std::vector<const std::int32_t*> tables;
  for (std::int32_t i = 0; i < n_sequences; ++i) blocks.push_back(n_sequences - 1 - i);
  for (const std::int32_t& block : blocks) tables.push_back(&block);
  const kernels::PagedCache history{cells.data(), nullptr, kernels::DType::kF32,
                                    static_cast<int>(width), tables.data()};
  const std::size_t stream_width = gate.one_hidden_state ? width / n_streams : width;
  const std::size_t n_tokens = c.streams.size() / stream_width;
  const auto length = static_cast<std::int32_t>(n_tokens / c.n_sequences);
  const std::size_t n_columns = c.rows.size() / n_tokens;

  Update update{{},
                c.streams,
                std::vector<float>(n_tokens * n_streams),
                std::vector<float>(n_tokens * n_streams)};
  for (std::int32_t sequence = 0; sequence < n_sequences; ++sequence) {
    for (std::int32_t begin = 0; begin < length; begin += chunk) {
      std::vector<TokenSlot> slots;
      for (std::int32_t p = begin; p < std::min(begin + chunk, length); ++p) {
        slots.push_back({sequence, p});
      }
      const auto first = static_cast<std::size_t>(sequence * length + begin);
      std::vector<float> rows(slots.size() * n_columns *
                              static_cast<std::size_t>(c.format.n_columns));
      backend->engram_gather(c.format, c.rows.data() + first * n_columns,
                             static_cast<std::int64_t>(slots.size()), static_cast<int>(n_columns),
                             rows.data());
      EngramModuleBatch batch{slots, rows.data(), {}};
      if (!c.masked.empty()) batch.masked = {c.masked.data() + first, slots.size()};
      kernels::EngramGateTrace trace;
      trace.gate = update.gate.data() + first * n_streams;
      trace.dot = update.dot.data() + first * n_streams;
      module.run(*backend, batch, history, update.streams.data() + first * stream_width, trace);
    }
  }
  for (std::size_t i = 0; i < c.streams.size(); ++i) {
    update.added.push_back(double{update.streams[i]} - c.streams[i]);
  }
  return update;
}

struct Expected {
  std::vector<double> added, gate, dot;  // dot: empty where the library shows none
};

// Both backends, in one go and token by token. The errors stand in the test's XML report.
void expect_update(const EngramModule& module, const Case& c, const Expected& expected,
                   const std::string& name) {
  for (const Engine engine : {Engine::kReference, Engine::kFast}) {
    double largest = 0;
    for (const std::int32_t chunk : {kernels::kBlockTokens, 7, 1}) {
      const Update update = run_module(module, c, engine, chunk);
      largest = std::max(largest, nmse(update.added, expected.added));
      EXPECT_LE(nmse(update.gate, expected.gate), kTolerance) << name;
      if (!expected.dot.empty()) {
        EXPECT_LE(nmse(update.dot, expected.dot), kTolerance) << name;
      }
    }
    EXPECT_LE(largest, kTolerance) << name;
    std::ostringstream text;
    text << largest;
    ::testing::Test::RecordProperty(
        "nmse_" + name + (engine == Engine::kReference ? "_reference" : "_fast"), text.str());
  }
}

std::vector<kernels::RowBytes> rows_in(const kernels::TensorView& table,
                                       const std::vector<std::int64_t>& rows) {
  const auto* codes = static_cast<const std::uint8_t*>(table.data);
  const std::int64_t row_bytes = table.shape[1] * kernels::bytes_of(table.dtype);
  std::vector<kernels::RowBytes> places;
  for (const std::int64_t row : rows) {
    EXPECT_LT(row, table.shape[0]);
    places.push_back({codes + row * row_bytes, nullptr});
  }
  return places;
}

// The rows of [B, T] classes in one layer.
std::vector<std::int64_t> addresses(const EngramLayout& layout, int layer, std::int64_t pad,
                                    const std::vector<std::int64_t>& classes,
                                    std::int64_t n_sequences) {
  const Addresser addresser(layout, static_cast<std::int32_t>(pad));
  const std::vector<std::int32_t> ids(classes.begin(), classes.end());
  const std::size_t length = ids.size() / static_cast<std::size_t>(n_sequences);
  const auto n_columns = static_cast<std::size_t>(layout.n_columns());
  std::vector<std::int64_t> rows(ids.size() * n_columns);
  for (std::size_t begin = 0; begin < ids.size(); begin += length) {
    addresser.rows(layer, {ids.data() + begin, length}, 0, static_cast<std::int64_t>(length),
                   rows.data() + begin * n_columns);
  }
  return rows;
}

class Demo : public ::testing::TestWithParam<const char*> {};

TEST_P(Demo, UpdateEqualsTheOracle) {
  const std::string name = GetParam();
  const Json golden = json_of(name + ".json");
  const Json& config = golden["config"];
  const Tensors tensors(name);
  EngramLayoutConfig layout_config;
  layout_config.layer_ids = config["layer_ids"].get<std::vector<std::int64_t>>();
  layout_config.max_ngram_size = config["max_ngram_size"];
  layout_config.n_heads = config["n_head_per_ngram"];
  layout_config.head_dim = config["n_embed_per_ngram"].get<int>() / layout_config.n_heads;
  layout_config.vocab_size = config["engram_vocab_size"].get<std::vector<std::int64_t>>();
  layout_config.pad_token_id = config["pad_id"];
  layout_config.seed = config["seed"];
  layout_config.hashed_vocab_size = golden["compressed_size"];
  const auto layout = make_layout(layout_config);
  ASSERT_TRUE(layout.has_value()) << layout.error().message;
  const auto& ids = layout_config.layer_ids;
  const auto layer =
      std::find(ids.begin(), ids.end(), config["layer"].get<std::int64_t>()) - ids.begin();

  Case c;
  c.n_sequences = tensors.view("compressed").shape[0];
  const auto rows = tensors.values<std::int64_t>("rows");
  EXPECT_EQ(addresses(*layout, static_cast<int>(layer), golden["pad_compressed"],
                      tensors.values<std::int64_t>("compressed"), c.n_sequences),
            rows);
  c.format = {kernels::RowCodec::kF32, layout_config.head_dim};
  c.rows = rows_in(tensors.view("weight.multi_head_embedding.embedding.weight"), rows);
  c.streams = tensors.values<float>("hidden");
  const auto module = EngramModule::bind(
      {EngramVariant::kDemo, config["hc_mult"], config["hidden"], layout->columns_width(),
       config["norm_eps"], config["kernel_size"], config["dilation"]},
      tensors.below("weight."));
  ASSERT_TRUE(module.has_value()) << module.error().message;
  expect_update(*module, c,
                {tensors.doubles("output_f64"), tensors.doubles("gate"), tensors.doubles("dot")},
                name);
}

INSTANTIATE_TEST_SUITE_P(Golden, Demo, ::testing::Values("demo_a", "demo_b", "demo_c"),
                         [](const auto& parameter) { return std::string(parameter.param); });

class Qwen4Exp : public ::testing::TestWithParam<int> {};

TEST_P(Qwen4Exp, UpdateEqualsTheOracle) {
  const std::string name = "qwen4_exp_" + std::to_string(GetParam());
  const Json config = json_of(name + ".json")["config"];
  const Tensors tensors(name);
  EngramLayoutConfig layout_config;
  layout_config.variant = EngramVariant::kQwen4Exp;
  layout_config.layer_ids = {1, 2};  // ple_layer_ids counts from 1
  layout_config.n_heads = config["heads_per_ngram"];
  layout_config.head_dim = config["ple_embed_dim"].get<int>() / (2 * layout_config.n_heads);
  layout_config.vocab_size.assign(2, config["ngram_vocab_size_base"]);
  layout_config.seed = config["seed"];
  layout_config.hashed_vocab_size = config["vocab_size"];
  layout_config.eos_token_ids = config["eos_token_id"].get<std::vector<std::int64_t>>();
  const auto layout = make_layout(layout_config);
  ASSERT_TRUE(layout.has_value()) << layout.error().message;
  const auto module = EngramModule::bind(
      {EngramVariant::kQwen4Exp, config["hc_count"], config["hidden_size"], layout->columns_width(),
       config["rms_norm_eps"], config["ple_conv_kernel_size"], config["dilation"]},
      tensors.below("weight."));
  ASSERT_TRUE(module.has_value()) << module.error().message;

  for (const std::string tag : {"", "masked."}) {
    Case c;
    c.n_sequences = tensors.view("input_ids").shape[0];
    const auto rows = tensors.values<std::int64_t>(tag + "rows");
    EXPECT_EQ(addresses(*layout, GetParam(), 0, tensors.values<std::int64_t>(tag + "input_ids"),
                        c.n_sequences),
              rows);
    c.format = {kernels::RowCodec::kF32, layout_config.head_dim};
    c.rows = rows_in(tensors.view("weight.ple_embedding.ngram_embedding.weight"), rows);
    c.streams = tensors.values<float>("hidden");
    Expected expected{tensors.doubles("output_f64"), tensors.doubles(tag + "gate"), {}};
    if (tag == "masked.") {
      expected.added = tensors.doubles("masked.output");
      for (const std::int64_t live : tensors.values<std::int64_t>("masked.mask")) {
        c.masked.push_back(live == 0 ? 1 : 0);
      }
    } else {
      expected.dot = tensors.doubles("dot");
    }
    expect_update(*module, c, expected, name + (tag.empty() ? "" : "_masked"));
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Qwen4Exp, ::testing::Values(0, 1));

class V41 : public ::testing::Test {
 protected:
  // In the fixture wkv has no ".weight".
  Result<EngramModule> bind() const {
    const TensorLookup lookup = tensors_.below("");
    return EngramModule::bind(
        {EngramVariant::kDeepSeekV41, config_["hc_mult"], config_["hidden"],
         config_["columns"].get<int>() * config_["row_width"].get<int>(), config_["rms_norm_eps"]},
        [&](const std::string& name) { return lookup(name == "wkv.weight" ? "wkv" : name); });
  }

  const Json config_ = json_of("v41.json")["config"];
  const Tensors tensors_{"v41"};
};

TEST_F(V41, UpdateEqualsTheOracle) {
  const auto module = bind();
  ASSERT_TRUE(module.has_value()) << module.error().message;
  Case c;
  c.n_sequences = 1;
  c.format = {kernels::RowCodec::kF8E4M3E8M0, config_["row_width"]};
  const auto codes = tensors_.view("row_codes");
  const auto scales = tensors_.view("row_scales");
  for (const std::int64_t row : tensors_.values<std::int64_t>("rows")) {
    c.rows.push_back({codes.as<std::uint8_t>() + row * codes.shape[1],
                      scales.as<std::uint8_t>() + row * scales.shape[1]});
  }
  c.streams = tensors_.values<float>("hidden");
  c.masked = tensors_.values<std::uint8_t>("dead");
  Expected expected{tensors_.doubles("output_f64"), tensors_.doubles("gate_f64"),
                    tensors_.doubles("dot_f64")};
  for (std::size_t i = 0; i < c.streams.size(); ++i) expected.added[i] -= c.streams[i];
  expect_update(*module, c, expected, "v41");

  c.streams[5] = -0.0F;
  c.masked[0] = 1;
  const std::size_t width = c.streams.size() / c.masked.size();
  const Update update = run_module(*module, c, Engine::kReference, kernels::kBlockTokens);
  for (std::size_t t = 0; t < c.masked.size(); ++t) {
    const bool same = std::memcmp(update.streams.data() + t * width, c.streams.data() + t * width,
                                  width * sizeof(float)) == 0;
    EXPECT_EQ(same, c.masked[t] != 0) << "dead tokens pass bit for bit, " << t;
  }
}

// As the checkpoint ships it: codes times the scale of their 32 x 32, the last blocks cut short.
TEST_F(V41, AProjectionInFp8IsItsCodesTimesTheScalesOfTheirBlocks) {
  const auto shape = tensors_.view("wkv").shape;
  const auto n_blocks = (shape[1] + 31) / 32;
  std::vector<std::uint8_t> codes, scales;
  for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i) {
    codes.push_back(static_cast<std::uint8_t>(i * 37 % 127 + i % 2 * 128));  // no NaN
  }
  for (std::int64_t i = 0; i < (shape[0] + 31) / 32 * n_blocks; ++i) {
    scales.push_back(static_cast<std::uint8_t>(120 + i % 5));
  }
  std::vector<float> values;
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    for (std::int64_t column = 0; column < shape[1]; ++column) {
      const auto scale = scales[static_cast<std::size_t>(row / 32 * n_blocks + column / 32)];
      const auto code = codes[static_cast<std::size_t>(row * shape[1] + column)];
      values.push_back(std::ldexp(kernels::decode_e4m3(code), scale - 127));
    }
  }
  const TensorLookup fixture = tensors_.below("");
  const auto bind_with = [&](kernels::TensorView weight, kernels::TensorView scale) {
    return EngramModule::bind(
        {EngramVariant::kDeepSeekV41, config_["hc_mult"], config_["hidden"],
         config_["columns"].get<int>() * config_["row_width"].get<int>(), config_["rms_norm_eps"]},
        [&, weight, scale](const std::string& name) -> Result<kernels::TensorView> {
          if (name == "wkv.weight") return weight;
          if (name == "wkv.scale") return scale;
          return fixture(name);
        });
  };
  const auto n_scales = static_cast<std::int64_t>(scales.size());
  const kernels::TensorView in_fp8{codes.data(), kernels::DType::kF8E4M3, 2, shape};
  const kernels::TensorView of_blocks{
      scales.data(), kernels::DType::kF8E8M0, 2, {n_scales / n_blocks, n_blocks}};
  const auto module = bind_with(in_fp8, of_blocks);
  ASSERT_TRUE(module.has_value()) << module.error().message;
  const auto expected = bind_with({values.data(), kernels::DType::kF32, 2, shape}, {});
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  Case c;
  c.n_sequences = 1;
  c.format = {kernels::RowCodec::kF8E4M3E8M0, config_["row_width"]};
  const auto row_codes = tensors_.view("row_codes");
  const auto row_scales = tensors_.view("row_scales");
  for (const std::int64_t row : tensors_.values<std::int64_t>("rows")) {
    c.rows.push_back({row_codes.as<std::uint8_t>() + row * row_codes.shape[1],
                      row_scales.as<std::uint8_t>() + row * row_scales.shape[1]});
  }
  c.streams = tensors_.values<float>("hidden");
  EXPECT_EQ(run_module(*module, c, Engine::kReference, kernels::kBlockTokens).streams,
            run_module(*expected, c, Engine::kReference, kernels::kBlockTokens).streams);
  const auto refused = bind_with(in_fp8, {scales.data(), kernels::DType::kF8E8M0, 2, {1, 1}});
  ASSERT_TRUE(refused.has_error());
  EXPECT_THAT(refused.error().message, HasSubstr("wkv.scale: expected"));
}

// bf16 in and out, fp32 inside, one rounding: bit for bit.
TEST_F(V41, BFloat16UpdateHasTheOraclesBits) {
  const auto widened = [&](const std::string& name) {
    std::vector<float> values;
    for (const std::uint16_t code : tensors_.values<std::uint16_t>("bf16." + name)) {
      values.push_back(kernels::decode_bf16(code));
    }
    return values;
  };
  const int n_streams = config_["hc_mult"];
  const int hidden_size = config_["hidden"];
  const auto n_tokens = config_["tokens"].get<std::int32_t>();
  const auto kv = widened("kv");
  const auto key_norm = widened("k_weight");
  const auto query_norm = widened("q_weight");
  kernels::EngramGate gate;
  gate.n_streams = n_streams;
  gate.hidden_size = hidden_size;
  gate.rms_norm_eps = config_["rms_norm_eps"];
  gate.key_norm = key_norm.data();
  gate.query_norm = query_norm.data();
  gate.signed_zero = true;
  std::vector<float> key, value;
  std::vector<TokenSlot> slots;
  std::vector<std::uint8_t> enabled;
  for (std::int32_t t = 0; t < n_tokens; ++t) {
    const auto* token = kv.data() + t * (n_streams + 1) * hidden_size;
    key.insert(key.end(), token, token + n_streams * hidden_size);
    value.insert(value.end(), token + n_streams * hidden_size,
                 token + (n_streams + 1) * hidden_size);
    slots.push_back({0, t});
    enabled.push_back(tensors_.values<std::uint8_t>("dead")[static_cast<std::size_t>(t)] == 0);
  }
  auto streams = widened("hidden");
  kernels::make_reference_backend()->engram_update(gate, key.data(), value.data(), slots, {},
                                                   enabled.data(), streams.data(), {});
  std::vector<std::uint16_t> codes;
  for (const float x : streams) codes.push_back(kernels::encode_bf16(x));
  EXPECT_EQ(codes, tensors_.values<std::uint16_t>("bf16.output"));
}

class Peft : public ::testing::TestWithParam<const char*> {};

TEST_P(Peft, UpdateEqualsTheOracle) {
  const std::string name = GetParam();
  const Json golden = json_of(name + ".io.json");
  const Json config = json_of(name + ".config.json");
  const Tensors weights(name);
  const Tensors io(name + ".io");
  const auto peft = parse_peft_json(config.dump());
  ASSERT_TRUE(peft.has_value()) << peft.error().message;
  const auto layout = make_layout(peft->config);
  ASSERT_TRUE(layout.has_value()) << layout.error().message;

  for (std::size_t i = 0; i < layout->layers.size(); ++i) {
    const std::string layer = std::to_string(layout->layers[i].layer_id);
    EXPECT_EQ(layout->layers[i].offsets,
              golden["layers"][layer]["offsets"].get<std::vector<std::int64_t>>());
    Case c;
    c.n_sequences = io.view("compressed").shape[0];
    const auto rows = io.values<std::int64_t>("rows." + layer);
    EXPECT_EQ(addresses(*layout, static_cast<int>(i), golden["pad_compressed"],
                        io.values<std::int64_t>("compressed"), c.n_sequences),
              rows);
    c.format = {kernels::RowCodec::kF32, peft->config.head_dim};
    c.rows = rows_in(weights.view(layer + ".multi_head_embedding.embedding.weight"), rows);
    c.streams = io.values<float>("hidden_in." + layer);
    const auto module = EngramModule::bind(
        {EngramVariant::kPeft, config["hc_mult"], config["hidden_size"], layout->columns_width(),
         kTorchEps, config["conv_kernel_size"], config["conv_dilation"]},
        weights.below(layer + "."));
    ASSERT_TRUE(module.has_value()) << module.error().message;
    Expected expected{io.doubles("hidden_out." + layer), io.doubles("gate." + layer), {}};
    for (std::size_t j = 0; j < c.streams.size(); ++j) expected.added[j] -= c.streams[j];
    expect_update(*module, c, expected, name + "_layer_" + layer);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Peft, ::testing::Values("peft_a", "peft_b"),
                         [](const auto& parameter) { return std::string(parameter.param); });

// Its arithmetic is the demo's; engine/model's golden tests run it.
TEST(Bind, FindsTheTensorsOfTheBundledModel) {
  const std::string folder = ENGRAMD_SOURCE_DIR "/install/models/engram-nano/";
  const Json config = Json::parse(std::ifstream(folder + "config.json"));
  const auto file = SafetensorsFile::open(folder + "model.safetensors");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const auto module = EngramModule::bind(
      {EngramVariant::kBundled, config["hc_mult"], config["hidden_size"], 256,
       config["rms_norm_eps"], config["engram_kernel_size"], config["engram_dilation"]},
      [&](const std::string& name) { return file->tensor("model.layers.1.engram." + name); });
  EXPECT_TRUE(module.has_value()) << module.error().message;
}

TEST(Bind, RefusesWhatDoesNotFitTheShape) {
  const Tensors tensors("demo_a");
  EngramModuleShape shape{EngramVariant::kDemo, 3, 48, 64, kTorchEps};
  const auto refusal = [&](const EngramModuleShape& s) {
    const auto module = EngramModule::bind(s, tensors.below("weight."));
    return module.has_value() ? "accepted" : module.error().message;
  };
  EXPECT_EQ(refusal(shape), "accepted");
  shape.kernel_size = 3;
  EXPECT_THAT(refusal(shape), HasSubstr("short_conv.conv.weight: expected 432 values"));
  shape = {EngramVariant::kDemo, 3, 48, 65, kTorchEps};
  EXPECT_THAT(refusal(shape), HasSubstr("key_projs.0.weight: expected 3120 values"));
  shape = {EngramVariant::kDemo, 4, 48, 64, kTorchEps};
  EXPECT_THAT(refusal(shape), HasSubstr("key_projs.3.weight"));
  shape = {EngramVariant::kQwen4Exp, 3, 48, 64, kTorchEps};
  EXPECT_THAT(refusal(shape), HasSubstr("key_proj.weight"));
}

}  // namespace
}  // namespace engramd::engine
