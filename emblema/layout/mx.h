// The two small formats of the OCP Microscaling Formats (MX) Specification 1.0 that caches use:
//
//   ue8m0  a power of two in one byte: byte e is 2^(e - 127), from 2^-127 to 2^127; 255 is NaN
//   e2m1   4 bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; neither infinity nor NaN
//
// MXFP4 is e2m1 with one ue8m0 scale for 32 numbers. Two numbers share a byte, the one of even
// index in the low nibble.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace emblema {

inline constexpr std::uint8_t kUe8m0Nan = 0xff;
inline constexpr float kE2m1Largest = 6.0F;

constexpr float fp32_from_ue8m0(std::uint8_t code) {
  if (code == kUe8m0Nan) return std::numeric_limits<float>::quiet_NaN();
  // 2^-127 is below the normal numbers of fp32.
  return std::bit_cast<float>(code == 0 ? 0x00400000U : std::uint32_t{code} << 23);
}

// The smallest power of two that is >= value, found on the bits: exact, where a logarithm in fp32
// rounds 2^k x (1 + 2^-23) down to 2^k for larger k. Zero and less: 2^-127. Above 2^127: 2^127
// (byte 254), so that no finite number becomes NaN. NaN and infinity: NaN.
constexpr std::uint8_t ue8m0_at_least(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7f800000U) == 0x7f800000U) return kUe8m0Nan;
  if (bits <= 0x00400000U || bits >> 31 != 0) return 0;
  const std::uint32_t exponent = bits >> 23;
  const std::uint32_t fraction = bits & 0x7fffffU;
  if (exponent == 254) return 254;
  return static_cast<std::uint8_t>(exponent + (fraction != 0 ? 1 : 0));
}

constexpr float fp32_from_e2m1(std::uint8_t code) {
  constexpr std::array<float, 8> kMagnitudes = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = kMagnitudes[code & 7U];
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

// Rounds to nearest, ties to the even code; what is larger than 6, infinity and NaN included,
// becomes 6 of the same sign. Writers of blocks mark NaN in the scale.
constexpr std::uint8_t e2m1_from_fp32(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  constexpr std::uint32_t kOne = 127U << 23;
  constexpr std::uint32_t kStep = 149U << 23;  // 2^22, whose last bit is worth 0.5
  const std::uint32_t small = magnitude < kOne ? magnitude : 0U;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(small) + std::bit_cast<float>(kStep)) -
      kStep;
  const std::uint32_t normal =
      (magnitude - (126U << 23) + 0x1fffffU + ((magnitude >> 22) & 1U)) >> 22;
  const std::uint32_t code = magnitude < kOne ? subnormal : normal;
  return static_cast<std::uint8_t>((code > 7 ? 7 : code) | ((bits >> 28) & 8U));
}

// The byte of numbers 2i (low) and 2i + 1 (high).
constexpr std::uint8_t e2m1_pair(std::uint8_t even, std::uint8_t odd) {
  return static_cast<std::uint8_t>((even & 15U) | (odd & 15U) << 4);
}

}  // namespace emblema
