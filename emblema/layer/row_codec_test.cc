#include "emblema/layer/row_codec.h"

#include <bit>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emblema {
namespace {

float value_of(std::uint16_t bits, Encoding encoding) {
  float value = 0;
  decode_row_values(std::as_bytes(std::span(&bits, 1)).data(), encoding, {&value, 1});
  return value;
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

TEST(RowCodec, EveryStoredNumberDecodesExactly) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    const double half = fp16_value(stored);
    const float decoded = value_of(stored, Encoding::kFp16);
    if (std::isnan(half)) {
      ASSERT_TRUE(std::isnan(decoded));
      continue;
    }
    ASSERT_EQ(static_cast<double>(decoded), half) << bits;
    const float brain = value_of(stored, Encoding::kBf16);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(brain), bits << 16);
  }
}

TEST(RowCodec, OtherEncodingsAreNamed) {
  EXPECT_EQ(row_element_bytes(Encoding::kFp32).value(), 4u);
  EXPECT_EQ(row_element_bytes(Encoding::kBf16).value(), 2u);
  EXPECT_THAT(row_element_bytes(Encoding::kFp8E4m3).error().describe(),
              testing::StartsWith("Unsupported: row encoding number 4"));
}

}  // namespace
}  // namespace emblema
