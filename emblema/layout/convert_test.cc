// Exhaustive over all 16-bit patterns, against arithmetic in double.
#include "emblema/layout/convert.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace emblema {
namespace {

struct Format {
  int exponent_bits;
  int fraction_bits;

  // The value of a finite pattern by its definition: (-1)^s x 2^(e - bias) x 1.f, or subnormal.
  double value(std::uint16_t bits) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                           : std::ldexp(fraction + (1 << fraction_bits),
                                                        exponent - bias - fraction_bits);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }

  std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  }
};

constexpr Format kBf16Format{8, 7};
constexpr Format kFp16Format{5, 10};

template <class Widen>
void expect_widening_exact(const Format& format, Widen widen) {
  for (std::uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = widen(bits);
    const int magnitude = bits & 0x7fff;
    if (magnitude > format.infinity()) {
      ASSERT_TRUE(std::isnan(value)) << i;
    } else if (magnitude == format.infinity()) {
      ASSERT_TRUE(std::isinf(value)) << i;
    } else {
      ASSERT_EQ(static_cast<double>(value), format.value(bits)) << i;
    }
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << i;
  }
}

TEST(Convert, WideningIsExactForEveryPattern) {
  expect_widening_exact(kBf16Format, fp32_from_bf16);
  expect_widening_exact(kFp16Format, fp32_from_fp16);
}

// Between every two neighbours: below, at and above the middle, the nearest wins, ties to even.
template <class Narrow>
void expect_rounding_to_nearest_even(const Format& format, Narrow narrow) {
  for (std::uint16_t low = 0; low < format.infinity(); ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const double below = format.value(low);
    // What the next number would be, were there no infinity, decides when to overflow.
    const double above = high == format.infinity()
                             ? below + (below - format.value(static_cast<std::uint16_t>(low - 1)))
                             : format.value(high);
    const auto middle = static_cast<float>((below + above) / 2);
    ASSERT_EQ(static_cast<double>(middle), (below + above) / 2) << low;
    const std::uint16_t even = (low & 1) == 0 ? low : high;
    const float lowest = -std::numeric_limits<float>::infinity();
    const float highest = std::numeric_limits<float>::infinity();
    ASSERT_EQ(narrow(static_cast<float>(below)), low);
    ASSERT_EQ(narrow(std::nextafter(middle, lowest)), low) << low;
    ASSERT_EQ(narrow(middle), even) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, highest)), high) << low;
    ASSERT_EQ(narrow(-middle), even | 0x8000) << low;
    ASSERT_EQ(narrow(-std::nextafter(middle, highest)), high | 0x8000) << low;
  }
  ASSERT_EQ(narrow(std::numeric_limits<float>::infinity()), format.infinity());
  ASSERT_EQ(narrow(-std::numeric_limits<float>::infinity()), format.infinity() | 0x8000);
  ASSERT_EQ(narrow(std::numeric_limits<float>::max()), format.infinity());
  ASSERT_EQ(narrow(-0.0f), 0x8000);
  ASSERT_EQ(narrow(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Convert, NarrowingRoundsToNearestEvenBetweenAllNeighbours) {
  expect_rounding_to_nearest_even(kBf16Format, bf16_from_fp32);
  expect_rounding_to_nearest_even(kFp16Format, fp16_from_fp32);
}

TEST(Convert, ANanStaysOneWhateverItsPayload) {
  for (const std::uint32_t payload : {1u, 0x1000u, 0xffffu, 0x3fffffu, 0x400000u, 0x7fffffu}) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const auto nan = std::bit_cast<float>(sign | 0x7f800000u | payload);
      EXPECT_TRUE(std::isnan(fp32_from_bf16(bf16_from_fp32(nan)))) << payload;
      EXPECT_TRUE(std::isnan(fp32_from_fp16(fp16_from_fp32(nan)))) << payload;
      EXPECT_EQ(bf16_from_fp32(nan) >> 15, sign >> 31);
      EXPECT_EQ(fp16_from_fp32(nan) >> 15, sign >> 31);
    }
  }
}

TEST(Convert, RoundTripOfEveryNumberIsItself) {
  for (std::uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    if ((bits & 0x7fff) <= kBf16Format.infinity()) {
      ASSERT_EQ(bf16_from_fp32(fp32_from_bf16(bits)), bits);
    }
    if ((bits & 0x7fff) <= kFp16Format.infinity()) {
      ASSERT_EQ(fp16_from_fp32(fp32_from_fp16(bits)), bits);
    }
  }
}

TEST(Convert, WorksAtCompileTime) {
  static_assert(bf16_from_fp32(1.0f) == 0x3f80);
  static_assert(fp16_from_fp32(1.0f) == 0x3c00);
  static_assert(fp16_from_fp32(65'519.0f) == 0x7bff);
  static_assert(fp16_from_fp32(65'520.0f) == 0x7c00);
  static_assert(fp32_from_fp16(0x0001) == 0x1p-24f);
}

}  // namespace
}  // namespace emblema
