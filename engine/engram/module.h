// EngramModule: one layer's Engram module of any variant, bound from a checkpoint's tensors under
// the names that its library gives them, and its forward pass from decoded rows to the update of
// the streams. Copies its weights to fp32; immutable after bind(), any thread may read it; run() is
// the backend's thread's. Arithmetic: kernels::Backend, whose EngramGate has a switch for each
// variant.
// Not here: the table's rows (a RowFormat and Backend::engram_gather decode them), the bundled
// model's own forward pass, which binds its weights in place (engine/model).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/layout.h"
#include "kernels/backend.h"

namespace engramd::engine {

struct EngramModuleShape {
  EngramVariant variant = EngramVariant::kDemo;
  int n_streams = 1;  // hc_mult; peft: branches
  int hidden_size = 0;
  int columns_width = 0;  // of e, EngramLayout::columns_width
  // Demo and peft: 2^-23, torch's default for fp32. Qwen: the convolution's norm too, whose
  // epsilon is the demo's 1e-5 elsewhere.
  float rms_norm_eps = 0;
  int kernel_size = 4, dilation = 3;
};

// A tensor of the layer by its name below the layer's prefix ("key_projs.0.weight").
using TensorLookup = std::function<Result<kernels::TensorView>(const std::string& name)>;

struct EngramModuleBatch {
  std::span<const kernels::TokenSlot> slots;  // [n_tokens]
  const float* rows = nullptr;                // [n_tokens, columns_width]
  // Empty or [n_tokens], not 0: V4.1's dead tokens (gate 0, streams untouched), Qwen's padding (no
  // value, no input to the convolution; its output still reaches them).
  std::span<const std::uint8_t> masked;
};

class EngramModule {
 public:
  // A projection in fp8 e4m3 has its scales beside it (V4.1: "wkv.scale", e8m0, one per 32 x 32).
  // Errors: those of `tensor`, and a tensor of another type or whose size is not the shape's.
  static Result<EngramModule> bind(const EngramModuleShape& shape, const TensorLookup& tensor);

  // The pointers lie in this object: valid as long as it is neither moved nor destroyed.
  kernels::EngramGate gate() const;
  // history: as Backend::engram_update's; not read by V4.1. streams: [n_tokens, n_streams,
  // hidden_size], peft: [n_tokens, hidden_size]; the update is added.
  void run(kernels::Backend& backend, const EngramModuleBatch& batch,
           const kernels::PagedCache& history, float* streams,
           const kernels::EngramGateTrace& trace = {}) const;

 private:
  explicit EngramModule(const EngramModuleShape& shape) : shape_(shape) {}

  EngramModuleShape shape_;
  std::vector<float> key_;         // [n_streams * hidden_size, columns_width]
  std::vector<float> key_bias_;    // [n_streams * hidden_size] or empty
  std::vector<float> value_;       // [hidden_size, columns_width]
  std::vector<float> value_bias_;  // [hidden_size] or empty
  std::vector<float> key_norm_;    // [n_streams, hidden_size]
  std::vector<float> query_norm_;  // [n_streams, hidden_size]
  std::vector<float> conv_norm_;   // [n_streams, hidden_size] or empty
  std::vector<float> conv_;        // [n_streams, hidden_size, kernel_size] or empty
};

}  // namespace engramd::engine
