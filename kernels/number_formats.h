// Scalar conversions between fp32 and the narrow formats that weights, table rows and caches are
// stored in. Pure, standard library only; constexpr, so that device code may call them.
// Formats: IEEE 754 binary16, bfloat16, OCP 8-bit floating point (e4m3fn), OCP microscaling (e8m0).
#pragma once

#include <bit>
#include <cstdint>

namespace engramd::kernels {

// x in [0, 2^22): adding 2^23 leaves no fraction bits.
constexpr float round_to_even(float x) {
  return (x + 0x1p23F) - 0x1p23F;
}

constexpr float decode_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Round to nearest, ties to even; NaN stays NaN.
constexpr std::uint16_t encode_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

constexpr float decode_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
}

// Round to nearest, ties to even; overflow gives infinity, as IEEE 754 conversion does.
constexpr std::uint16_t encode_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return sign | 0x7E00U;
  if (magnitude >= 0x47800000U) return sign | 0x7C00U;  // 2^16 and above
  if (magnitude < 0x38800000U) {                        // below 2^-14: subnormal, in units of 2^-24
    const float units = std::bit_cast<float>(magnitude) * 0x1p24F;
    return sign | static_cast<std::uint16_t>(round_to_even(units));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return sign | static_cast<std::uint16_t>((rounded - 0x38000000U) >> 13);  // may carry to infinity
}

constexpr float decode_e4m3(std::uint8_t code) {
  const std::uint32_t exponent = (code >> 3) & 0xFU;
  const std::uint32_t fraction = code & 0x7U;
  float magnitude = 0;
  if (exponent == 0) {
    magnitude = static_cast<float>(fraction) * 0x1p-9F;
  } else if (exponent == 15 && fraction == 7) {
    return std::bit_cast<float>(0x7FC00000U | (static_cast<std::uint32_t>(code & 0x80U) << 24));
  } else {
    magnitude = std::bit_cast<float>(((exponent + 120U) << 23) | (fraction << 20));
  }
  return (code & 0x80U) != 0 ? -magnitude : magnitude;
}

inline constexpr float kE4m3Max = 448.0F;

// Round to nearest, ties to even; saturates at 448, infinities included (as torch does since 2.15);
// NaN gives 0x7F.
constexpr std::uint8_t encode_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return 0x7F;
  if (magnitude >= 0x43E00000U) return sign | 0x7EU;  // 448 and above
  if (magnitude < 0x3C800000U) {                      // below 2^-6: subnormal, in units of 2^-9
    const float units = std::bit_cast<float>(magnitude) * 0x1p9F;
    return sign | static_cast<std::uint8_t>(round_to_even(units));
  }
  const std::uint32_t rounded = magnitude + 0x7FFFFU + ((magnitude >> 20) & 1U);
  return sign | static_cast<std::uint8_t>((rounded - 0x3C000000U) >> 20);
}

inline constexpr int kScaleBlock = 32;  // columns under one e8m0 scale (OCP microscaling)

// 2^(code - 127); 255 is NaN.
constexpr float decode_e8m0(std::uint8_t code) {
  if (code == 255) return std::bit_cast<float>(0x7FC00000U);
  if (code == 0) return 0x1p-127F;  // a subnormal in fp32
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

}  // namespace engramd::kernels
