// fp32 <-> bf16 and fp32 <-> fp16, exactly as IEEE 754 rounds: to nearest, ties to even.
//
// Narrowing: what overflows becomes infinity; a NaN stays a NaN (made quiet, upper payload bits
// kept); subnormals are rounded like every other number. (AVX512-BF16 instructions treat subnormals
// as zero instead: a kernel that uses them says so.) Widening is exact. No branches that a
// vectoriser cannot turn into selects. Values are bit patterns; bytes are little-endian.
#pragma once

#include <bit>
#include <cstdint>

namespace emblema {

constexpr float fp32_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

constexpr std::uint16_t bf16_from_fp32(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>(is_nan ? quiet : rounded);
}

constexpr float fp32_from_fp16(std::uint16_t half) {
  constexpr std::uint32_t kRebias = (127u - 15u) << 23;
  constexpr std::uint32_t kSubnormal = 113u << 23;  // 2^-14, the smallest normal half
  const std::uint32_t shifted = (std::uint32_t{half} & 0x7fffu) << 13;
  const std::uint32_t exponent = shifted & (0x7c00u << 13);
  const std::uint32_t normal = shifted + kRebias;
  const std::uint32_t infinite = normal + kRebias;
  // 1.m x 2^-14 minus 2^-14 is m x 2^-24: exact, and normal in fp32.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(
      std::bit_cast<float>(shifted + kSubnormal) - std::bit_cast<float>(kSubnormal));
  const std::uint32_t magnitude =
      exponent == (0x7c00u << 13) ? infinite : (exponent == 0 ? subnormal : normal);
  return std::bit_cast<float>(magnitude | (std::uint32_t{half} & 0x8000u) << 16);
}

constexpr std::uint16_t fp16_from_fp32(float value) {
  constexpr std::uint32_t kOverflow = (127u + 16u) << 23;  // 65536: beyond every half
  constexpr std::uint32_t kSubnormal = 113u << 23;         // 2^-14
  constexpr std::uint32_t kHalf = 126u << 23;              // 0.5, whose last bit is worth 2^-24
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t quiet = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const std::uint32_t infinite = magnitude > 0x7f800000u ? quiet : 0x7c00u;
  // Adding 0.5 makes the adder round to multiples of 2^-24, the step of subnormal halves.
  const std::uint32_t small = magnitude < kSubnormal ? magnitude : 0u;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(small) + 0.5f) - kHalf;
  const std::uint32_t normal =
      (magnitude - ((127u - 15u) << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const std::uint32_t rounded =
      magnitude >= kOverflow ? infinite : (magnitude < kSubnormal ? subnormal : normal);
  return static_cast<std::uint16_t>(rounded | ((bits >> 16) & 0x8000u));
}

}  // namespace emblema
