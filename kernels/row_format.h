// The stored bytes of one Engram table row: how they are laid out (RowFormat), where they lie
// (RowBytes), and the floats they mean. Scalar and pure: the oracle of the gather kernels.
// Formats: OCP MX (e4m3fn, e8m0), IEEE 754, bfloat16. Not here: making rows from floats
// (engine/engram/row_codec).
#pragma once

#include <cstdint>
#include <span>

namespace engramd::kernels {

enum class RowCodec {
  kF32,
  kF16,
  kBF16,
  kF8E4M3,             // plain
  kF8E4M3TensorScale,  // one fp32 scale for the table (Qwen3.8-Flash-Next)
  kF8E4M3E8M0,         // one e8m0 scale per 32 columns (DeepSeek-V4.1-Flash, the bundled model)
  kI8Scale,            // one fp32 scale per row
};

struct RowFormat {
  RowCodec codec = RowCodec::kF8E4M3E8M0;
  int n_columns = 0;          // head_dim
  float tensor_scale = 1.0F;  // kF8E4M3TensorScale only

  std::int64_t codes_bytes() const;
  std::int64_t scales_bytes() const;
  std::int64_t row_bytes() const { return codes_bytes() + scales_bytes(); }
};

// One row. Codes and scales may lie apart (checkpoint tensors) or together (row file, edited rows:
// scales follow the codes). scales is nullptr for codecs without any.
struct RowBytes {
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
};

// values: [format.n_columns].
void decode_row(const RowFormat& format, const RowBytes& row, float* values);

}  // namespace engramd::kernels
