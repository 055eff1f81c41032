// Every pattern of the 8- and 4-bit formats, against a search of the nearest value in double.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/layout/fp8.h"
#include "emblema/layout/mx.h"

namespace emblema {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A format by its definition: sign, `exponent_bits`, `fraction_bits`, and the largest finite code.
struct Format {
  int exponent_bits;
  int fraction_bits;
  int bias;
  int largest_code;

  double value(int code) const {
    const int fraction = code & ((1 << fraction_bits) - 1);
    const int exponent = code >> fraction_bits;
    return exponent == 0
               ? std::ldexp(fraction, 1 - bias - fraction_bits)
               : std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  }

  // The code whose value lies nearest to |x|, ties to the even code; largest_code + 1 where the
  // value after the largest, were there one, is nearer.
  int nearest(double x) const {
    // Beyond that, the differences of huge numbers would all be equal in double.
    const double magnitude = std::min(std::fabs(x), value(largest_code + 1));
    int best = 0;
    for (int code = 1; code <= largest_code + 1; ++code) {
      const double distance = std::fabs(value(code) - magnitude);
      const double least = std::fabs(value(best) - magnitude);
      if (distance < least || (distance == least && code % 2 == 0)) best = code;
    }
    return best;
  }
};

constexpr Format kE4m3{4, 3, 7, 0x7e};
constexpr Format kE5m2{5, 2, 15, 0x7b};
constexpr Format kE2m1{2, 1, 1, 7};

// All middles between neighbours, the floats beside them, and numbers over fp32's whole range.
std::vector<float> interesting(const Format& format) {
  std::vector<float> values = {0.0F, std::numeric_limits<float>::denorm_min(), 0x1p-126F, 0x1p-20F,
                               std::numeric_limits<float>::max()};
  for (int code = 0; code <= format.largest_code + 1; ++code) {
    for (const double x : {format.value(code), (format.value(code) + format.value(code + 1)) / 2}) {
      const auto middle = static_cast<float>(x);
      values.push_back(middle);
      values.push_back(std::nextafter(middle, 0.0F));
      values.push_back(std::nextafter(middle, kInfinity));
    }
  }
  std::mt19937 random(7);
  std::uniform_int_distribution<std::uint32_t> bits(0, 0x7f7fffff);
  std::uniform_real_distribution<float> exponent(-18.0F, 17.0F);
  for (int i = 0; i < 2000; ++i) {
    values.push_back(std::bit_cast<float>(bits(random)));
    values.push_back(std::exp2(exponent(random)));
  }
  return values;
}

// What the format has where a value rounds past the largest number.
template <class Narrow>
void expect_nearest(const Format& format, int overflow_code, int sign_bit, Narrow narrow) {
  for (const float value : interesting(format)) {
    const int code = format.nearest(value);
    const int expected = code > format.largest_code ? overflow_code : code;
    ASSERT_EQ(narrow(value), expected) << value;
    ASSERT_EQ(narrow(-value), expected | sign_bit) << -value;
  }
  ASSERT_EQ(narrow(kInfinity), overflow_code);
  ASSERT_EQ(narrow(-kInfinity), overflow_code | sign_bit);
}

TEST(E4m3, EveryCodeHasItsValue) {
  for (int code = 0; code < 256; ++code) {
    const float value = fp32_from_e4m3(static_cast<std::uint8_t>(code));
    ASSERT_EQ(std::signbit(value), code >= 128) << code;
    if ((code & 0x7f) == 0x7f) {
      ASSERT_TRUE(std::isnan(value)) << code;
      continue;
    }
    ASSERT_EQ(std::fabs(value), kE4m3.value(code & 0x7f)) << code;
    ASSERT_EQ(e4m3_from_fp32(value), code);
    ASSERT_EQ(e4m3_from_fp32_saturating(value), code);
  }
  EXPECT_EQ(fp32_from_e4m3(0x7e), kE4m3Largest);
}

TEST(E4m3, NarrowingFindsTheNearest) {
  expect_nearest(kE4m3, 0x7e, 0x80, e4m3_from_fp32_saturating);
  expect_nearest(kE4m3, 0x7f, 0x80, e4m3_from_fp32);
}

TEST(E4m3, TheMiddleAboveTheLargestIsATieThatStays) {
  EXPECT_EQ(e4m3_from_fp32(464.0F), 0x7e);  // 448 and 480, which is no number: to the even 448
  EXPECT_EQ(e4m3_from_fp32(std::nextafter(464.0F, kInfinity)), 0x7f);
  EXPECT_EQ(e4m3_from_fp32(-1e30F), 0xff);
  EXPECT_EQ(e4m3_from_fp32_saturating(-1e30F), 0xfe);
}

TEST(E5m2, EveryCodeHasItsValue) {
  for (int code = 0; code < 256; ++code) {
    const float value = fp32_from_e5m2(static_cast<std::uint8_t>(code));
    const int magnitude = code & 0x7f;
    ASSERT_EQ(std::signbit(value), code >= 128) << code;
    if (magnitude > 0x7c) {
      ASSERT_TRUE(std::isnan(value)) << code;
    } else if (magnitude == 0x7c) {
      ASSERT_TRUE(std::isinf(value)) << code;
      ASSERT_EQ(e5m2_from_fp32(value), code);
    } else {
      ASSERT_EQ(std::fabs(value), kE5m2.value(magnitude)) << code;
      ASSERT_EQ(e5m2_from_fp32(value), code);
      ASSERT_EQ(e5m2_from_fp32_saturating(value), code);
    }
  }
  EXPECT_EQ(fp32_from_e5m2(0x7b), kE5m2Largest);
}

TEST(E5m2, NarrowingFindsTheNearest) {
  expect_nearest(kE5m2, 0x7b, 0x80, e5m2_from_fp32_saturating);
  expect_nearest(kE5m2, 0x7c, 0x80, e5m2_from_fp32);
}

TEST(Fp8, ANanStaysOneWhateverItsPayload) {
  for (const std::uint32_t payload : {1U, 0x1000U, 0x1fffffU, 0x3fffffU, 0x400000U, 0x7fffffU}) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const auto nan = std::bit_cast<float>(sign | 0x7f800000U | payload);
      EXPECT_EQ(e4m3_from_fp32(nan), 0x7f | sign >> 24);
      EXPECT_EQ(e4m3_from_fp32_saturating(nan), 0x7f | sign >> 24);
      EXPECT_TRUE(std::isnan(fp32_from_e5m2(e5m2_from_fp32(nan)))) << payload;
      EXPECT_TRUE(std::isnan(fp32_from_e5m2(e5m2_from_fp32_saturating(nan)))) << payload;
      EXPECT_EQ(e5m2_from_fp32(nan) >> 7, sign >> 31);
    }
  }
}

// Every number that a bf16 or fp16 cache can hold, so no table of chosen values can hide a gap.
TEST(Fp8, NearestForAll16BitPatterns) {
  for (std::uint32_t i = 0; i <= 0xffff; i += 1) {
    for (const float value : {fp32_from_bf16(static_cast<std::uint16_t>(i)),
                              fp32_from_fp16(static_cast<std::uint16_t>(i))}) {
      if (!std::isfinite(value)) continue;
      const int code = e4m3_from_fp32_saturating(value);
      const double error = std::fabs(fp32_from_e4m3(static_cast<std::uint8_t>(code)) - value);
      const double magnitude = std::fabs(value);
      if (magnitude >= kE4m3Largest) {
        ASSERT_EQ(code & 0x7f, 0x7e) << value;
        continue;
      }
      // Nearest: neither neighbour is nearer.
      const int at = code & 0x7f;
      if (at > 0) {
        ASSERT_LE(error, magnitude - kE4m3.value(at - 1)) << value;
      }
      ASSERT_LE(error, kE4m3.value(at + 1) - magnitude) << value;
    }
  }
}

TEST(E2m1, EveryCodeHasItsValueAndNarrowingFindsTheNearest) {
  for (std::uint8_t code = 0; code < 16; ++code) {
    const float value = fp32_from_e2m1(code);
    ASSERT_EQ(std::fabs(value), kE2m1.value(code & 7));
    ASSERT_EQ(std::signbit(value), code >= 8);
    ASSERT_EQ(e2m1_from_fp32(value), code);
  }
  expect_nearest(kE2m1, 7, 8, e2m1_from_fp32);
  EXPECT_EQ(e2m1_from_fp32(std::numeric_limits<float>::quiet_NaN()), 7);
}

TEST(E2m1, TiesGoToTheEvenCode) {
  const std::vector<std::pair<float, float>> ties = {{0.25F, 0.0F}, {0.75F, 1.0F}, {1.25F, 1.0F},
                                                     {1.75F, 2.0F}, {2.5F, 2.0F},  {3.5F, 4.0F},
                                                     {5.0F, 4.0F}};
  for (const auto& [value, rounded] : ties) {
    EXPECT_EQ(fp32_from_e2m1(e2m1_from_fp32(value)), rounded) << value;
    EXPECT_EQ(fp32_from_e2m1(e2m1_from_fp32(-value)), -rounded) << value;
  }
}

TEST(E2m1, EvenIndexesLieInTheLowNibble) {
  EXPECT_EQ(e2m1_pair(e2m1_from_fp32(4.0F), e2m1_from_fp32(-2.0F)), 0xc6);
}

TEST(Ue8m0, EveryByteIsItsPowerOfTwo) {
  for (int code = 0; code < 255; ++code) {
    const float value = fp32_from_ue8m0(static_cast<std::uint8_t>(code));
    ASSERT_EQ(static_cast<double>(value), std::ldexp(1.0, code - 127)) << code;
    ASSERT_EQ(ue8m0_at_least(value), code);
    if (code > 0) {
      ASSERT_EQ(ue8m0_at_least(std::nextafter(value, 0.0F)), code);
    }
    if (code < 254) {
      ASSERT_EQ(ue8m0_at_least(std::nextafter(value, kInfinity)), code + 1);
    }
  }
  EXPECT_TRUE(std::isnan(fp32_from_ue8m0(kUe8m0Nan)));
}

TEST(Ue8m0, WhatHasNoPowerOfTwoSaturatesOrIsNan) {
  EXPECT_EQ(ue8m0_at_least(0.0F), 0);
  EXPECT_EQ(ue8m0_at_least(-0.0F), 0);
  EXPECT_EQ(ue8m0_at_least(-3.0F), 0);
  EXPECT_EQ(ue8m0_at_least(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(ue8m0_at_least(std::numeric_limits<float>::max()), 254);
  EXPECT_EQ(ue8m0_at_least(kInfinity), kUe8m0Nan);
  EXPECT_EQ(ue8m0_at_least(std::numeric_limits<float>::quiet_NaN()), kUe8m0Nan);
}

TEST(SmallFormats, WorkAtCompileTime) {
  static_assert(e4m3_from_fp32_saturating(1.0F) == 0x38);
  static_assert(fp32_from_e4m3(0x01) == 0x1p-9F);
  static_assert(e5m2_from_fp32(1.0F) == 0x3c);
  static_assert(e2m1_from_fp32(1.5F) == 3);
  static_assert(ue8m0_at_least(1.0F) == 127);
}

}  // namespace
}  // namespace emblema
