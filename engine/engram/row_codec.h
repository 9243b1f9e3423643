// Row codecs: floats to the stored bytes of one table row, and back through kernels/row_format.
// Pure functions. Formats: OCP MX (e4m3fn, e8m0), IEEE 754, bfloat16.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/result.h"
#include "kernels/number_formats.h"
#include "kernels/row_format.h"
#include "kernels/tensor_view.h"

namespace engramd::engine {

using kernels::RowBytes;
using kernels::RowCodec;
using kernels::RowFormat;

const char* name_of(RowCodec codec);

std::int64_t row_bytes(RowCodec codec, int n_columns);

// row: row_bytes(codec, n) bytes, codes first then scales. values: [n].
// tensor_scale: only read for kF8E4M3TensorScale.
void decode_row(RowCodec codec, const std::uint8_t* row, std::span<float> values,
                float tensor_scale = 1.0f);
// Ties to even. The 8-bit formats saturate, infinities included; halves overflow to infinity as
// IEEE 754 says. int8: the scale is max|x| / 127. e8m0: the smallest power of two s with max|x| <=
// 448 s, codes 1 .. 254, a block of zeros 2^0; the last block may be short. Refused: NaN, a tensor
// scale that is not positive.
Result<std::vector<std::uint8_t>> encode_row(RowCodec codec, std::span<const float> values,
                                             float tensor_scale = 1.0f);

double norm_of(std::span<const float> values);  // Euclidean

// Decoded rows to what engram.lookup_dtype names: kF16 or kBF16; anything else leaves them. The
// values of the bundled codec are exact in all three.
void round_row_values(kernels::DType dtype, std::span<float> values);

// Single elements, shared with the kernels.
using kernels::decode_bf16;
using kernels::decode_e4m3;
using kernels::decode_e8m0;
using kernels::decode_f16;
using kernels::encode_bf16;
using kernels::encode_e4m3;
using kernels::encode_f16;
using kernels::kScaleBlock;

}  // namespace engramd::engine
