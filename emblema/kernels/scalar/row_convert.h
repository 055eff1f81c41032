// 16-bit floats to fp32, exactly, in integer and fp32 operations that a compiler can vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace emblema {

inline float fp32_from_bf16(std::uint16_t stored) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(stored) << 16);
}

// Exponent and mantissa move to fp32's places and the bias grows by 112. Infinity and NaN need the
// bias once more; subnormals are normalised by a subtraction, so the host's flush-to-zero mode
// cannot lose them.
inline float fp32_from_fp16(std::uint16_t stored) {
  constexpr std::uint32_t kExponent = 0x7C00U << 13;
  constexpr std::uint32_t kBias = 112U << 23;
  const std::uint32_t moved = (static_cast<std::uint32_t>(stored) & 0x7FFFU) << 13;
  const std::uint32_t sign = (static_cast<std::uint32_t>(stored) & 0x8000U) << 16;
  const std::uint32_t exponent = moved & kExponent;
  const std::uint32_t normal = moved + kBias + (exponent == kExponent ? kBias : 0U);
  const float subnormal =
      std::bit_cast<float>(moved + kBias + (1U << 23)) - std::bit_cast<float>(113U << 23);
  const std::uint32_t magnitude = exponent == 0 ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(magnitude | sign);
}

}  // namespace emblema
