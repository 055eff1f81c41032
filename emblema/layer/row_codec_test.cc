#include "emblema/layer/row_codec.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emblema {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint16_t bits_of(float value, Encoding encoding) {
  std::uint16_t bits = 0;
  const ByteSpan bytes = std::as_writable_bytes(std::span(&bits, 1));
  EXPECT_TRUE(encode_row_values({&value, 1}, 1, bytes, 2, encoding));
  return bits;
}

float value_of(std::uint16_t bits, Encoding encoding) {
  float value = 0;
  decode_row_values(std::as_bytes(std::span(&bits, 1)).data(), encoding, {&value, 1});
  return value;
}

TEST(RowCodec, Bf16RoundsToNearestEven) {
  const auto bits = [](float value) { return bits_of(value, Encoding::kBf16); };
  EXPECT_EQ(bits(1.0F), 0x3f80);
  EXPECT_EQ(bits(-2.5F), 0xc020);
  EXPECT_EQ(bits(1.0F + 0x1p-8F), 0x3f80);             // a tie, to even
  EXPECT_EQ(bits(1.0F + 0x3p-8F), 0x3f82);             // a tie, to even, upwards
  EXPECT_EQ(bits(1.0F + 0x1p-8F + 0x1p-20F), 0x3f81);  // above the tie
  EXPECT_EQ(bits(-0.0F), 0x8000);
  EXPECT_EQ(bits(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(bits(kInfinity), 0x7f80);
  EXPECT_TRUE(std::isnan(value_of(bits(std::bit_cast<float>(0x7f800001U)), Encoding::kBf16)));
}

TEST(RowCodec, Fp16RoundsToNearestEvenWithSubnormals) {
  const auto bits = [](float value) { return bits_of(value, Encoding::kFp16); };
  EXPECT_EQ(bits(1.0F), 0x3c00);
  EXPECT_EQ(bits(-2.5F), 0xc100);
  EXPECT_EQ(bits(65504.0F), 0x7bff);
  EXPECT_EQ(bits(65519.996F), 0x7bff);
  EXPECT_EQ(bits(65520.0F), 0x7c00);  // a tie with what would be 65536
  EXPECT_EQ(bits(1e9F), 0x7c00);
  EXPECT_EQ(bits(-kInfinity), 0xfc00);
  EXPECT_EQ(bits(0x1p-14F), 0x0400);             // smallest normal
  EXPECT_EQ(bits(0x1p-14F - 0x1p-24F), 0x03ff);  // largest subnormal
  EXPECT_EQ(bits(0x1p-24F), 0x0001);
  EXPECT_EQ(bits(0x1p-25F), 0x0000);  // a tie, to even
  EXPECT_EQ(bits(0x3p-25F), 0x0002);
  EXPECT_EQ(bits(1.0F + 0x1p-11F), 0x3c00);
  EXPECT_EQ(bits(1.0F + 0x3p-11F), 0x3c02);
  EXPECT_TRUE(std::isnan(value_of(bits(std::bit_cast<float>(0x7f800001U)), Encoding::kFp16)));
}

// IEEE 754-2019, 3.4, by the formula.
double fp16_value(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  if (exponent == 31) return sign * (fraction == 0 ? HUGE_VAL : std::nan(""));
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(RowCodec, EveryStoredNumberDecodesExactlyAndComesBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    const double half = fp16_value(stored);
    const float decoded = value_of(stored, Encoding::kFp16);
    if (std::isnan(half)) {
      ASSERT_TRUE(std::isnan(decoded));
      continue;
    }
    ASSERT_EQ(static_cast<double>(decoded), half) << bits;
    ASSERT_EQ(bits_of(decoded, Encoding::kFp16), stored);
    const float brain = value_of(stored, Encoding::kBf16);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(brain), bits << 16);
    if (!std::isnan(brain)) {
      ASSERT_EQ(bits_of(brain, Encoding::kBf16), stored);
    }
  }
}

TEST(RowCodec, RowsAreLittleEndianAndGapsAreZero) {
  const std::vector<float> rows = {1.0F, -2.5F, 0.5F, 3.0F};
  std::vector<std::byte> bytes(14, std::byte{0xee});
  ASSERT_TRUE(encode_row_values(rows, 2, bytes, 6, Encoding::kBf16));
  const std::vector<int> golden = {0x80, 0x3f, 0x20, 0xc0, 0, 0,    0x00,
                                   0x3f, 0x40, 0x40, 0,    0, 0xee, 0xee};
  for (std::size_t i = 0; i < golden.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), golden[i]) << i;
  }
  ASSERT_TRUE(encode_row_values(std::span(rows).first(1), 1, bytes, 4, Encoding::kFp32));
  EXPECT_EQ(std::to_integer<int>(bytes[2]), 0x80);
  EXPECT_EQ(std::to_integer<int>(bytes[3]), 0x3f);
}

TEST(RowCodec, SizesThatDoNotFitAreNamed) {
  const std::vector<float> rows(6);
  std::vector<std::byte> bytes(11);
  const auto message = [&](std::uint64_t elements, std::uint64_t row_bytes, Encoding encoding) {
    const Status status = encode_row_values(rows, elements, bytes, row_bytes, encoding);
    return status ? std::string("accepted") : status.error().describe();
  };
  EXPECT_THAT(message(4, 8, Encoding::kBf16), testing::HasSubstr("6 numbers are no whole rows"));
  EXPECT_THAT(message(3, 5, Encoding::kBf16), testing::HasSubstr("row_bytes is 5"));
  EXPECT_THAT(message(3, 6, Encoding::kBf16), testing::HasSubstr("destination is 11 bytes"));
  EXPECT_THAT(message(3, 6, Encoding::kFp8E4m3), testing::StartsWith("Unsupported"));
}

}  // namespace
}  // namespace emblema
