#include "engine/engram/row_codec.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "config/assert.h"

namespace engramd::engine {
namespace {

void append(std::vector<std::uint8_t>& row, const void* bytes, std::size_t n) {
  const auto* first = static_cast<const std::uint8_t*>(bytes);
  row.insert(row.end(), first, first + n);
}

// The largest magnitude; infinities count as the largest finite float so that a scale exists.
float magnitude_max(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return std::min(largest, std::numeric_limits<float>::max());
}

// Smallest power of two s with magnitude <= 448 s, from the exponent (448 = 0.875 * 2^9), as an
// e8m0 code within 1 .. 254; a block of zeros gets 2^0.
std::uint8_t scale_code_for(float magnitude) {
  if (magnitude == 0) return 127;
  int exponent = 0;
  const float mantissa = std::frexp(magnitude, &exponent);
  const int scale = mantissa <= 0.875f ? exponent - 9 : exponent - 8;
  return static_cast<std::uint8_t>(std::clamp(scale + 127, 1, 254));
}

void encode_blocks(std::span<const float> values, std::vector<std::uint8_t>& row) {
  std::vector<std::uint8_t> scales;
  for (std::size_t begin = 0; begin < values.size(); begin += kScaleBlock) {
    const auto block =
        values.subspan(begin, std::min<std::size_t>(kScaleBlock, values.size() - begin));
    const std::uint8_t scale = scale_code_for(magnitude_max(block));
    for (const float value : block) row.push_back(encode_e4m3(std::ldexp(value, 127 - scale)));
    scales.push_back(scale);
  }
  row.insert(row.end(), scales.begin(), scales.end());
}

void encode_i8(std::span<const float> values, std::vector<std::uint8_t>& row) {
  const float magnitude = magnitude_max(values);
  const float scale = magnitude == 0 ? 1.0f : magnitude / 127.0f;
  for (const float value : values) {
    const float code = std::clamp(std::nearbyint(value / scale), -127.0f, 127.0f);
    row.push_back(static_cast<std::uint8_t>(static_cast<std::int8_t>(code)));
  }
  append(row, &scale, sizeof scale);
}

}  // namespace

const char* name_of(RowCodec codec) {
  switch (codec) {
    case RowCodec::kF32:
      return "f32";
    case RowCodec::kF16:
      return "f16";
    case RowCodec::kBF16:
      return "bf16";
    case RowCodec::kF8E4M3:
      return "f8_e4m3";
    case RowCodec::kF8E4M3TensorScale:
      return "f8_e4m3_tensor_scale";
    case RowCodec::kF8E4M3E8M0:
      return "f8_e4m3_e8m0";
    case RowCodec::kI8Scale:
      return "i8_scale";
  }
  ENGRAMD_ASSERT(false);
  return "";
}

std::int64_t row_bytes(RowCodec codec, int n_columns) {
  return RowFormat{codec, n_columns}.row_bytes();
}

void decode_row(RowCodec codec, const std::uint8_t* row, std::span<float> values,
                float tensor_scale) {
  const RowFormat format{codec, static_cast<int>(values.size()), tensor_scale};
  kernels::decode_row(format, {row, row + format.codes_bytes()}, values.data());
}

Result<std::vector<std::uint8_t>> encode_row(RowCodec codec, std::span<const float> values,
                                             float tensor_scale) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isnan(values[i])) continue;
    return invalid_argument("table row: expected numbers, got NaN in column " + std::to_string(i));
  }
  std::vector<std::uint8_t> row;
  row.reserve(static_cast<std::size_t>(row_bytes(codec, static_cast<int>(values.size()))));
  if (codec == RowCodec::kF8E4M3E8M0) {
    encode_blocks(values, row);
    return row;
  }
  if (codec == RowCodec::kI8Scale) {
    encode_i8(values, row);
    return row;
  }
  if (codec == RowCodec::kF8E4M3TensorScale && !(tensor_scale > 0 && std::isfinite(tensor_scale))) {
    return invalid_argument("table scale: expected a positive number, got " +
                            std::to_string(tensor_scale));
  }
  for (const float value : values) {
    if (codec == RowCodec::kF32) append(row, &value, sizeof value);
    if (codec == RowCodec::kF8E4M3) row.push_back(encode_e4m3(value));
    if (codec == RowCodec::kF8E4M3TensorScale) row.push_back(encode_e4m3(value / tensor_scale));
    if (codec == RowCodec::kF16 || codec == RowCodec::kBF16) {
      const std::uint16_t bits = codec == RowCodec::kF16 ? encode_f16(value) : encode_bf16(value);
      append(row, &bits, sizeof bits);
    }
  }
  return row;
}

double norm_of(std::span<const float> values) {
  double square = 0;
  for (const float value : values) square += double{value} * value;
  return std::sqrt(square);
}

void round_row_values(kernels::DType dtype, std::span<float> values) {
  if (dtype == kernels::DType::kF16) {
    for (float& value : values) value = decode_f16(encode_f16(value));
  } else if (dtype == kernels::DType::kBF16) {
    for (float& value : values) value = decode_bf16(encode_bf16(value));
  }
}

}  // namespace engramd::engine
