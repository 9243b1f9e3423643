#include "engine/engram/row_codec.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/safetensors.h"

namespace engramd::engine {
namespace {

class RowCodecGolden : public ::testing::Test {
 protected:
  template <class T>
  std::span<const T> tensor(const char* name) const {
    const auto view = file_->tensor(name);
    EXPECT_TRUE(view.has_value()) << name;
    return {view->as<T>(), static_cast<std::size_t>(view->n_elements())};
  }
  // Row i of a tensor with n columns.
  template <class T>
  std::span<const T> row(const char* name, std::size_t i, std::size_t n) const {
    return tensor<T>(name).subspan(i * n, n);
  }
  // Floats are stored as bit patterns.
  std::vector<float> floats(const char* name, std::size_t i, std::size_t n) const {
    std::vector<float> values;
    for (const std::uint32_t bits : row<std::uint32_t>(name, i, n)) {
      values.push_back(std::bit_cast<float>(bits));
    }
    return values;
  }

  Result<SafetensorsFile> file_ =
      SafetensorsFile::open(ENGRAMD_TEST_DATA "/engram/codec.safetensors");
};

void expect_same_bits(float got, std::uint32_t expected, std::size_t where) {
  if (std::isnan(std::bit_cast<float>(expected))) {
    EXPECT_TRUE(std::isnan(got)) << where;
  } else {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got), expected) << where;
  }
}

TEST_F(RowCodecGolden, EveryE4M3AndE8M0Code) {
  const auto e4m3 = tensor<std::uint32_t>("e4m3fn.decode");
  const auto e8m0 = tensor<std::uint32_t>("e8m0.decode");
  for (std::size_t code = 0; code < 256; ++code) {
    expect_same_bits(decode_e4m3(static_cast<std::uint8_t>(code)), e4m3[code], code);
    expect_same_bits(decode_e8m0(static_cast<std::uint8_t>(code)), e8m0[code], code);
  }
}

TEST_F(RowCodecGolden, E4M3EncodesSaturating) {
  const auto inputs = tensor<std::uint32_t>("e4m3fn.encode.input");
  const auto codes = tensor<std::uint8_t>("e4m3fn.encode.saturating");
  ASSERT_EQ(inputs.size(), 2364u);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto value = std::bit_cast<float>(inputs[i]);
    if (std::isnan(value)) {
      EXPECT_EQ(encode_e4m3(value), 0x7F);
    } else {
      EXPECT_EQ(encode_e4m3(value), codes[i]) << value;
    }
  }
}

TEST_F(RowCodecGolden, HalvesRoundTiesToEven) {
  const auto inputs = tensor<std::uint32_t>("half.input");
  const auto bf16 = tensor<std::uint16_t>("half.bf16");
  const auto f16 = tensor<std::uint16_t>("half.fp16");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto value = std::bit_cast<float>(inputs[i]);
    EXPECT_EQ(encode_bf16(value), bf16[i]) << value;
    EXPECT_EQ(encode_f16(value), f16[i]) << value;
  }
  for (const std::uint32_t bits : tensor<std::uint32_t>("half.nan_input")) {
    EXPECT_TRUE(std::isnan(decode_bf16(encode_bf16(std::bit_cast<float>(bits)))));
    EXPECT_TRUE(std::isnan(decode_f16(encode_f16(std::bit_cast<float>(bits)))));
  }
}

TEST(RowCodec, EveryHalfSurvivesARoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    ASSERT_TRUE(std::isnan(decode_f16(half)) || encode_f16(decode_f16(half)) == half) << bits;
    ASSERT_TRUE(std::isnan(decode_bf16(half)) || encode_bf16(decode_bf16(half)) == half) << bits;
  }
  EXPECT_EQ(decode_f16(0x3C01), 1.0f + 0x1p-10f);
  EXPECT_EQ(decode_f16(0x0001), 0x1p-24f);
  EXPECT_EQ(decode_f16(0xFC00), -std::numeric_limits<float>::infinity());
}

TEST_F(RowCodecGolden, BlocksOf32WithAPowerOfTwoScale) {
  for (std::size_t i = 0; i < 100; ++i) {
    const auto row_of = encode_row(RowCodec::kF8E4M3E8M0, floats("block32.input", i, 32));
    ASSERT_TRUE(row_of.has_value());
    ASSERT_EQ(row_of->size(), 33u);
    const auto codes = row<std::uint8_t>("block32.codes", i, 32);
    EXPECT_TRUE(std::equal(codes.begin(), codes.end(), row_of->begin())) << i;
    EXPECT_EQ(row_of->back(), tensor<std::uint8_t>("block32.scale")[i]) << i;
    std::vector<float> decoded(32);
    decode_row(RowCodec::kF8E4M3E8M0, row_of->data(), decoded);
    for (std::size_t c = 0; c < 32; ++c) {
      expect_same_bits(decoded[c], row<std::uint32_t>("block32.decoded_f32", i, 32)[c], i);
    }
  }
}

TEST_F(RowCodecGolden, Rows264AsDeepSeekV41StoresThem) {
  ASSERT_EQ(row_bytes(RowCodec::kF8E4M3E8M0, 256), 264);
  for (std::size_t i = 0; i < 16; ++i) {
    std::vector<float> decoded(256), again(256);
    decode_row(RowCodec::kF8E4M3E8M0, row<std::uint8_t>("row264.bytes", i, 264).data(), decoded);
    const auto bf16 = row<std::uint16_t>("row264.decoded_bf16", i, 256);
    for (std::size_t c = 0; c < 256; ++c) ASSERT_EQ(encode_bf16(decoded[c]), bf16[c]) << i;
    const auto reencoded = encode_row(RowCodec::kF8E4M3E8M0, decoded);
    ASSERT_TRUE(reencoded.has_value());
    const auto expected = row<std::uint8_t>("row264.reencoded", i, 264);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), reencoded->begin())) << i;
    decode_row(RowCodec::kF8E4M3E8M0, reencoded->data(), again);
    EXPECT_EQ(again, decoded) << "re-encoding keeps every value";
  }
}

TEST_F(RowCodecGolden, OneScaleForTheTable) {
  std::vector<std::uint8_t> every_code(256);
  for (std::size_t code = 0; code < 256; ++code) every_code[code] = static_cast<std::uint8_t>(code);
  for (std::size_t i = 0; i < 4; ++i) {
    const float scale = std::bit_cast<float>(tensor<std::uint32_t>("e4m3fn_scaled.scale")[i]);
    std::vector<float> decoded(256);
    decode_row(RowCodec::kF8E4M3TensorScale, every_code.data(), decoded, scale);
    for (std::size_t code = 0; code < 256; ++code) {
      expect_same_bits(decoded[code], row<std::uint32_t>("e4m3fn_scaled.decoded_f32", i, 256)[code],
                       code);
    }
  }
}

TEST_F(RowCodecGolden, Int8WithAScalePerRow) {
  for (std::size_t i = 0; i < 17; ++i) {
    const auto row_of = encode_row(RowCodec::kI8Scale, floats("int8.input", i, 32));
    ASSERT_TRUE(row_of.has_value());
    ASSERT_EQ(static_cast<std::int64_t>(row_of->size()), row_bytes(RowCodec::kI8Scale, 32));
    const auto codes = row<std::int8_t>("int8.codes", i, 32);
    for (std::size_t c = 0; c < 32; ++c) {
      EXPECT_EQ(static_cast<std::int8_t>((*row_of)[c]), codes[c]) << i;
    }
    std::vector<float> decoded(32);
    decode_row(RowCodec::kI8Scale, row_of->data(), decoded);
    for (std::size_t c = 0; c < 32; ++c) {
      expect_same_bits(decoded[c], row<std::uint32_t>("int8.decoded_f32", i, 32)[c], i);
    }
  }
}

constexpr RowCodec kAllCodecs[] = {RowCodec::kF32,        RowCodec::kF16,
                                   RowCodec::kBF16,       RowCodec::kF8E4M3,
                                   RowCodec::kF8E4M3E8M0, RowCodec::kF8E4M3TensorScale,
                                   RowCodec::kI8Scale};

TEST(RowCodec, SmallIntegersSurviveEveryCodec) {
  // 40 columns: the last block of 32 is short. 127 makes the int8 scale 1.
  std::vector<float> values(40);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 16) - 8.0f;
  for (const RowCodec codec : kAllCodecs) {
    std::vector<float> row_values = values;
    if (codec == RowCodec::kI8Scale) row_values[3] = 127;
    const auto row = encode_row(codec, row_values, 0.5f);
    ASSERT_TRUE(row.has_value());
    EXPECT_EQ(static_cast<std::int64_t>(row->size()), row_bytes(codec, 40)) << name_of(codec);
    std::vector<float> decoded(values.size());
    decode_row(codec, row->data(), decoded, 0.5f);
    EXPECT_EQ(decoded, row_values) << name_of(codec);
  }
}

TEST(RowCodec, RefusesWhatHasNoCode) {
  const std::vector<float> bad{1, std::numeric_limits<float>::quiet_NaN()};
  for (const RowCodec codec : kAllCodecs) {
    const auto row = encode_row(codec, bad);
    ASSERT_FALSE(row.has_value()) << name_of(codec);
    EXPECT_THAT(row.error().message, ::testing::HasSubstr("column 1"));
  }
  const std::vector<float> good{1};
  EXPECT_FALSE(encode_row(RowCodec::kF8E4M3TensorScale, good, 0.0f).has_value());
}

}  // namespace
}  // namespace engramd::engine
