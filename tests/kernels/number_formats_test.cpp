// Narrow formats against properties that hold for every code; the bit patterns of other libraries
// are checked by the row codec's tests.
#include "kernels/number_formats.h"

#include <gtest/gtest.h>

namespace engramd::kernels {
namespace {

TEST(NumberFormatsTest, EveryCodeSurvivesARoundTrip) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto code = static_cast<std::uint16_t>(bits);
    if (!std::isnan(decode_bf16(code))) {
      EXPECT_EQ(encode_bf16(decode_bf16(code)), code);
    }
    if (!std::isnan(decode_f16(code))) {
      EXPECT_EQ(encode_f16(decode_f16(code)), code);
    }
  }
  for (unsigned bits = 0; bits < 0x100; ++bits) {
    const auto code = static_cast<std::uint8_t>(bits);
    if (!std::isnan(decode_e4m3(code))) {
      EXPECT_EQ(encode_e4m3(decode_e4m3(code)), code);
    }
  }
}

TEST(NumberFormatsTest, HalvesRoundToEvenAndFarValuesSaturate) {
  for (unsigned bits = 0; bits < 0x7E; ++bits) {
    const auto code = static_cast<std::uint8_t>(bits);
    const auto next = static_cast<std::uint8_t>(bits + 1);
    const float middle = (decode_e4m3(code) + decode_e4m3(next)) / 2;
    EXPECT_EQ(encode_e4m3(middle), code % 2 == 0 ? code : next) << bits;
    EXPECT_EQ(encode_e4m3(std::nextafter(middle, 1e9F)), next) << bits;
    EXPECT_EQ(encode_e4m3(std::nextafter(middle, -1e9F)), code) << bits;
  }
  EXPECT_EQ(decode_e4m3(encode_e4m3(1e30F)), kE4m3Max);
  EXPECT_EQ(decode_e4m3(encode_e4m3(-INFINITY)), -kE4m3Max);
  EXPECT_EQ(encode_f16(65520.0F), 0x7C00);  // halfway to 2^16 goes to infinity
  EXPECT_EQ(decode_e8m0(127), 1.0F);
  EXPECT_TRUE(std::isnan(decode_e8m0(255)));
}

}  // namespace
}  // namespace engramd::kernels
