#include "engine/engram/module.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "kernels/number_formats.h"

namespace engramd::engine {
namespace {

using kernels::DType;
using kernels::TensorView;

// What a library calls its tensors; % stands for the stream's number where each stream has its own.
struct Names {
  const char* key;  // of the projection, without ".weight"
  const char* value;
  const char* key_norm;
  const char* query_norm;
  const char* conv_norm;
  const char* conv;
  bool biases;
};

// deepseek-ai/Engram engram_demo_v1.py, transformers' qwen4_exp, engram-peft 1.2.7, the bundled
// model's ARCHITECTURE.md. V4.1 keeps keys and value in one matrix and has no convolution.
Names names_of(EngramVariant variant) {
  switch (variant) {
    case EngramVariant::kDemo:
      return {"key_projs.%",
              "value_proj",
              "norm1.%.weight",
              "norm2.%.weight",
              "short_conv.norms.%.weight",
              "short_conv.conv.weight",
              true};
    case EngramVariant::kDeepSeekV41:
      return {"wkv", nullptr, "k_weight", "q_weight", nullptr, nullptr, false};
    case EngramVariant::kQwen4Exp:
      return {
          "key_proj",      "value_proj", "norm_key.weight", "norm_query.weight", "norm_conv.weight",
          "conv1d.weight", false};
    case EngramVariant::kBundled:
      return {
          "key_proj",    "value_proj", "key_norm.weight", "query_norm.weight", "conv_norm.weight",
          "conv.weight", true};
    case EngramVariant::kPeft:
      return {"gating.w_k.%",
              "gating.w_v",
              "gating.norm_k.%.weight",
              "gating.norm_h.%.weight",
              "short_conv.norms.%.weight",
              "short_conv.conv.weight",
              false};
  }
  ENGRAMD_ASSERT(false);
  return {};
}

// Copies tensors to fp32; the first failure stays.
class Binder {
 public:
  Binder(const TensorLookup& lookup, int n_streams) : lookup_(&lookup), n_streams_(n_streams) {}

  // `n` values, of one tensor or of all streams' in their order.
  std::vector<float> floats(const std::string& name, std::int64_t n) {
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(n));
    const std::size_t mark = name.find('%');
    if (mark == std::string::npos) {
      append(name, n, values);
      return values;
    }
    for (int stream = 0; stream < n_streams_; ++stream) {
      std::string of_stream = name;
      append(of_stream.replace(mark, 1, std::to_string(stream)), n / n_streams_, values);
    }
    return values;
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  void append(const std::string& name, std::int64_t n, std::vector<float>& values) {
    if (error_) return;
    const Result<TensorView> view = (*lookup_)(name);
    if (!view.has_value()) {
      error_ = view.error();
    } else if (view->dtype == DType::kF8E4M3 && view->n_elements() == n) {
      append_scaled(name, *view, values);
    } else if (view->n_elements() != n ||
               (view->dtype != DType::kF32 && view->dtype != DType::kBF16)) {
      error_ = invalid_argument("Engram module: " + name + ": expected " + std::to_string(n) +
                                " values in F32, BF16 or F8_E4M3 with scales, got " +
                                std::to_string(view->n_elements()) + " values of " +
                                std::to_string(kernels::bytes_of(view->dtype)) + " bytes");
    } else if (view->dtype == DType::kF32) {
      values.insert(values.end(), view->as<float>(), view->as<float>() + n);
    } else {
      const auto* codes = view->as<std::uint16_t>();
      std::transform(codes, codes + n, std::back_inserter(values), kernels::decode_bf16);
    }
  }

  // weight_block_size [32, 32], scale_fmt ue8m0 (DeepSeek-V4.1's quantization_config).
  void append_scaled(const std::string& name, const TensorView& codes, std::vector<float>& values) {
    constexpr std::int64_t kBlock = 32;
    const std::string scale_name = name.substr(0, name.rfind(".weight")) + ".scale";
    const Result<TensorView> scales = (*lookup_)(scale_name);
    if (!scales.has_value()) {
      error_ = scales.error();
      return;
    }
    const std::int64_t n_rows = codes.shape[0];
    const std::int64_t n_columns = codes.n_elements() / std::max<std::int64_t>(n_rows, 1);
    const std::int64_t n_blocks = (n_columns + kBlock - 1) / kBlock;  // side by side
    const std::int64_t n_scales = (n_rows + kBlock - 1) / kBlock * n_blocks;
    if (scales->dtype != DType::kF8E8M0 || scales->n_elements() != n_scales) {
      error_ = invalid_argument(
          "Engram module: " + scale_name + ": expected " + std::to_string(n_scales) +
          " F8_E8M0 values, one per 32 x 32, got " + std::to_string(scales->n_elements()) +
          " values of " + std::to_string(kernels::bytes_of(scales->dtype)) + " bytes");
      return;
    }
    for (std::int64_t row = 0; row < n_rows; ++row) {
      for (std::int64_t column = 0; column < n_columns; ++column) {
        const auto code = codes.as<std::uint8_t>()[row * n_columns + column];
        const auto scale = scales->as<std::uint8_t>()[row / kBlock * n_blocks + column / kBlock];
        values.push_back(kernels::decode_e4m3(code) * kernels::decode_e8m0(scale));
      }
    }
  }

  const TensorLookup* lookup_;
  int n_streams_;
  std::optional<Error> error_;
};

// Qwen's norms multiply by 1 + weight.
void add_one(std::vector<float>& weights) {
  for (float& weight : weights) weight += 1.0F;
}

kernels::Linear linear_of(const std::vector<float>& weight, const std::vector<float>& bias,
                          std::int64_t width) {
  kernels::Linear linear;
  linear.weight = {
      weight.data(), DType::kF32, 2, {static_cast<std::int64_t>(weight.size()) / width, width}};
  linear.bias = bias.empty() ? nullptr : bias.data();
  return linear;
}

}  // namespace

Result<EngramModule> EngramModule::bind(const EngramModuleShape& shape,
                                        const TensorLookup& tensor) {
  ENGRAMD_ASSERT(shape.n_streams > 0 && shape.hidden_size > 0 && shape.columns_width > 0);
  EngramModule module(shape);
  Binder bind(tensor, shape.n_streams);
  const Names names = names_of(shape.variant);
  const std::int64_t width = std::int64_t{shape.n_streams} * shape.hidden_size;
  const std::int64_t hidden_size = shape.hidden_size;
  const std::string key = names.key;
  if (names.value == nullptr) {
    module.key_ = bind.floats(key + ".weight", (width + hidden_size) * shape.columns_width);
    if (bind.error()) return *bind.error();
    const auto value = module.key_.begin() + width * shape.columns_width;
    module.value_.assign(value, module.key_.end());
    module.key_.erase(value, module.key_.end());
  } else {
    const std::string value = names.value;
    module.key_ = bind.floats(key + ".weight", width * shape.columns_width);
    module.value_ = bind.floats(value + ".weight", hidden_size * shape.columns_width);
    if (names.biases) {
      module.key_bias_ = bind.floats(key + ".bias", width);
      module.value_bias_ = bind.floats(value + ".bias", hidden_size);
    }
  }
  module.key_norm_ = bind.floats(names.key_norm, width);
  module.query_norm_ = bind.floats(names.query_norm, width);
  if (names.conv != nullptr) {
    module.conv_norm_ = bind.floats(names.conv_norm, width);
    module.conv_ = bind.floats(names.conv, width * shape.kernel_size);
  }
  if (bind.error()) return *bind.error();
  if (shape.variant == EngramVariant::kQwen4Exp) {
    for (auto* norm : {&module.key_norm_, &module.query_norm_, &module.conv_norm_}) add_one(*norm);
  }
  return module;
}

kernels::EngramGate EngramModule::gate() const {
  kernels::EngramGate gate;
  gate.n_streams = shape_.n_streams;
  gate.hidden_size = shape_.hidden_size;
  gate.rms_norm_eps = shape_.rms_norm_eps;
  if (shape_.variant == EngramVariant::kQwen4Exp) gate.conv_norm_eps = shape_.rms_norm_eps;
  gate.key_norm = key_norm_.data();
  gate.query_norm = query_norm_.data();
  gate.kernel_size = shape_.kernel_size;
  gate.dilation = shape_.dilation;
  if (!conv_.empty()) {
    gate.conv_norm = conv_norm_.data();
    gate.conv = conv_.data();
  }
  gate.signed_zero = shape_.variant == EngramVariant::kDeepSeekV41;
  gate.one_hidden_state = shape_.variant == EngramVariant::kPeft;
  return gate;
}

void EngramModule::run(kernels::Backend& backend, const EngramModuleBatch& batch,
                       const kernels::PagedCache& history, float* streams,
                       const kernels::EngramGateTrace& trace) const {
  const std::size_t n_tokens = batch.slots.size();
  const auto n_streams = static_cast<std::size_t>(shape_.n_streams);
  const auto width = static_cast<std::size_t>(shape_.hidden_size);
  ENGRAMD_ASSERT(batch.masked.empty() || batch.masked.size() == n_tokens);
  std::vector<float> key(n_tokens * n_streams * width);
  std::vector<float> value(n_tokens * width);
  const kernels::Linear key_proj = linear_of(key_, key_bias_, shape_.columns_width);
  const kernels::Linear value_proj = linear_of(value_, value_bias_, shape_.columns_width);
  const kernels::LinearTask tasks[] = {{&key_proj, key.data()}, {&value_proj, value.data()}};
  backend.linear(batch.rows, static_cast<std::int64_t>(n_tokens), tasks);

  const bool dead = shape_.variant == EngramVariant::kDeepSeekV41;
  std::vector<std::uint8_t> enabled(n_tokens, 1);
  for (std::size_t t = 0; t < batch.masked.size(); ++t) {
    if (batch.masked[t] == 0) continue;
    std::fill_n(value.data() + t * width, width, 0.0F);
    if (dead) enabled[t] = 0;  // adding zeros would turn -0 into +0
  }
  backend.engram_update(gate(), key.data(), value.data(), batch.slots, history, enabled.data(),
                        streams, trace);
  if (trace.gate == nullptr || !dead) return;
  for (std::size_t t = 0; t < batch.masked.size(); ++t) {
    if (batch.masked[t] != 0) std::fill_n(trace.gate + t * n_streams, n_streams, 0.0F);
  }
}

}  // namespace engramd::engine
