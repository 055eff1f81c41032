// fp32 <-> the two 8-bit floating-point formats of the OCP 8-bit Floating Point Specification 1.0:
//
//   e4m3  (e4m3fn) bias 7, largest 448, smallest 2^-9; no infinity; NaN is 0x7f and 0xff
//   e5m2           bias 15, largest 57344, smallest 2^-16; infinity 0x7c; NaN 0x7d to 0x7f
//
// Widening is exact. Narrowing rounds to nearest, ties to even, subnormals like every other number.
// Overflow is what rounds to more than the largest number, infinity included:
//
//   x_from_fp32_saturating   gives the largest number of the same sign (what cache writers do)
//   x_from_fp32              gives NaN (e4m3) or infinity (e5m2), as IEEE 754 would
//
// Both keep NaN a NaN. The fnuz variants (bias 8, one NaN at 0x80) are other formats: their bytes
// read here are wrong by a factor of 2. No branches that a vectoriser cannot turn into selects.
#pragma once

#include <bit>
#include <cstdint>

#include "emblema/layout/convert.h"

namespace emblema {

inline constexpr float kE4m3Largest = 448.0F;
inline constexpr float kE5m2Largest = 57'344.0F;

constexpr float fp32_from_e4m3(std::uint8_t code) {
  constexpr std::uint32_t kRebias = (127U - 7U) << 23;
  constexpr std::uint32_t kSubnormal = 121U << 23;  // 2^-6, the smallest normal number
  const std::uint32_t magnitude = code & 0x7fU;
  const std::uint32_t shifted = magnitude << 20;
  // 1.m x 2^-6 minus 2^-6 is m x 2^-9: exact, and normal in fp32.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(
      std::bit_cast<float>(shifted + kSubnormal) - std::bit_cast<float>(kSubnormal));
  const std::uint32_t finite = magnitude < 8 ? subnormal : shifted + kRebias;
  const std::uint32_t bits = magnitude == 0x7f ? 0x7fc00000U : finite;
  return std::bit_cast<float>(bits | (code & 0x80U) << 24);
}

// An e5m2 number is the upper half of an fp16 number.
constexpr float fp32_from_e5m2(std::uint8_t code) {
  return fp32_from_fp16(static_cast<std::uint16_t>(code << 8));
}

namespace fp8_detail {

// The nearest code of a format with kFractionBits and bias kBias, its sign left out. Beyond the
// format's range: some larger number.
template <std::uint32_t kFractionBits, std::uint32_t kBias>
constexpr std::uint32_t nearest_magnitude(std::uint32_t magnitude) {
  constexpr std::uint32_t kDropped = 23 - kFractionBits;
  constexpr std::uint32_t kSubnormal = (128U - kBias) << 23;  // 2^(1-bias)
  // Its last bit is worth the step of subnormal codes, 2^(1-bias-fraction bits): adding it makes
  // the adder round to multiples of that.
  constexpr std::uint32_t kStep = (127U + 24U - kBias - kFractionBits) << 23;
  const std::uint32_t small = magnitude < kSubnormal ? magnitude : 0U;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(small) + std::bit_cast<float>(kStep)) -
      kStep;
  const std::uint32_t half = (1U << (kDropped - 1)) - 1;
  const std::uint32_t normal =
      (magnitude - ((127U - kBias) << 23) + half + ((magnitude >> kDropped) & 1U)) >> kDropped;
  return magnitude < kSubnormal ? subnormal : normal;
}

constexpr std::uint8_t with_sign(std::uint32_t magnitude, std::uint32_t bits) {
  return static_cast<std::uint8_t>(magnitude | ((bits >> 24) & 0x80U));
}

constexpr std::uint8_t e4m3(float value, std::uint32_t overflow) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t code = nearest_magnitude<3, 7>(magnitude);
  const std::uint32_t finite = code > 0x7e ? overflow : code;
  return with_sign(magnitude > 0x7f800000U ? 0x7fU : finite, bits);
}

constexpr std::uint8_t e5m2(float value, std::uint32_t overflow) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t quiet = 0x7eU | ((magnitude >> 21) & 1U);
  const std::uint32_t code = nearest_magnitude<2, 15>(magnitude);
  const std::uint32_t finite = code > 0x7b ? overflow : code;
  return with_sign(magnitude > 0x7f800000U ? quiet : finite, bits);
}

}  // namespace fp8_detail

constexpr std::uint8_t e4m3_from_fp32_saturating(float value) {
  return fp8_detail::e4m3(value, 0x7e);
}

constexpr std::uint8_t e4m3_from_fp32(float value) {
  return fp8_detail::e4m3(value, 0x7f);
}

constexpr std::uint8_t e5m2_from_fp32_saturating(float value) {
  return fp8_detail::e5m2(value, 0x7b);
}

constexpr std::uint8_t e5m2_from_fp32(float value) {
  return fp8_detail::e5m2(value, 0x7c);
}

}  // namespace emblema
