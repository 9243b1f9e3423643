#include "kernels/row_format.h"

#include <cstring>

#include "config/assert.h"
#include "kernels/number_formats.h"

namespace engramd::kernels {
namespace {

float load_f32(const std::uint8_t* bytes) {
  float value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

std::uint16_t load_u16(const std::uint8_t* bytes) {
  return static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8);
}

}  // namespace

std::int64_t RowFormat::codes_bytes() const {
  switch (codec) {
    case RowCodec::kF32:
      return std::int64_t{4} * n_columns;
    case RowCodec::kF16:
    case RowCodec::kBF16:
      return std::int64_t{2} * n_columns;
    default:
      return n_columns;
  }
}

std::int64_t RowFormat::scales_bytes() const {
  if (codec == RowCodec::kF8E4M3E8M0) return (n_columns + kScaleBlock - 1) / kScaleBlock;
  return codec == RowCodec::kI8Scale ? static_cast<std::int64_t>(sizeof(float)) : 0;
}

void decode_row(const RowFormat& format, const RowBytes& row, float* values) {
  const std::uint8_t* codes = row.codes;
  for (int i = 0; i < format.n_columns; ++i) {
    switch (format.codec) {
      case RowCodec::kF32:
        values[i] = load_f32(codes + std::ptrdiff_t{4} * i);
        break;
      case RowCodec::kF16:
        values[i] = decode_f16(load_u16(codes + std::ptrdiff_t{2} * i));
        break;
      case RowCodec::kBF16:
        values[i] = decode_bf16(load_u16(codes + std::ptrdiff_t{2} * i));
        break;
      case RowCodec::kF8E4M3:
        values[i] = decode_e4m3(codes[i]);
        break;
      case RowCodec::kF8E4M3TensorScale:
        values[i] = decode_e4m3(codes[i]) * format.tensor_scale;
        break;
      case RowCodec::kF8E4M3E8M0:
        values[i] = decode_e4m3(codes[i]) * decode_e8m0(row.scales[i / kScaleBlock]);
        break;
      case RowCodec::kI8Scale:
        values[i] = static_cast<float>(static_cast<std::int8_t>(codes[i])) * load_f32(row.scales);
        break;
    }
  }
}

}  // namespace engramd::kernels
