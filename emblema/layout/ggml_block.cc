#include "emblema/layout/ggml_block.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "emblema/layout/convert.h"

namespace emblema {
namespace {

constexpr std::uint16_t kFp16Nan = 0x7e00;
constexpr std::size_t kHalf = kGgmlBlockNumbers / 2;

// The number of largest magnitude, the first of equals; NaN where one is not finite.
float largest(GgmlNumbers numbers) {
  float found = 0.0F;
  for (const float number : numbers) {
    if (!std::isfinite(number)) return std::numeric_limits<float>::quiet_NaN();
    if (std::fabs(number) > std::fabs(found)) found = number;
  }
  return found;
}

// 1 / d may be infinite where d is subnormal, and 0 x infinity is no number: such a d is stored as
// 0, so that any code will do.
float code_of(float number, float reciprocal) {
  const float code = number * reciprocal;
  return std::isnan(code) ? 0.0F : code;
}

}  // namespace

std::uint16_t encode_q8_0(GgmlNumbers numbers, std::byte* codes) {
  const float scale = std::fabs(largest(numbers)) / 127.0F;
  const float reciprocal = scale != 0.0F ? 1.0F / scale : 0.0F;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const float code = std::clamp(std::round(code_of(numbers[i], reciprocal)), -127.0F, 127.0F);
    codes[i] = static_cast<std::byte>(static_cast<std::int8_t>(code));
  }
  return std::isnan(scale) ? kFp16Nan : fp16_from_fp32(scale);
}

std::uint16_t encode_q4_0(GgmlNumbers numbers, std::byte* codes) {
  const float scale = largest(numbers) / -8.0F;
  const float reciprocal = scale != 0.0F ? 1.0F / scale : 0.0F;
  const auto code = [&](std::size_t i) {
    // Cut off, not rounded: 8.5 makes the nearest integer of it, and 8 x -1 + 8.5 is still 0.
    const float shifted = std::clamp(code_of(numbers[i], reciprocal) + 8.5F, 0.0F, 15.0F);
    return static_cast<std::uint8_t>(shifted);
  };
  for (std::size_t i = 0; i < kHalf; ++i) {
    codes[i] = static_cast<std::byte>(code(i) | code(i + kHalf) << 4);
  }
  return std::isnan(scale) ? kFp16Nan : fp16_from_fp32(scale);
}

void decode_q8_0(std::uint16_t scale, const std::byte* codes, GgmlNumbersOut numbers) {
  const float factor = fp32_from_fp16(scale);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(static_cast<std::int8_t>(codes[i])) * factor;
  }
}

void decode_q4_0(std::uint16_t scale, const std::byte* codes, GgmlNumbersOut numbers) {
  const float factor = fp32_from_fp16(scale);
  for (std::size_t i = 0; i < kHalf; ++i) {
    const int pair = std::to_integer<int>(codes[i]);
    numbers[i] = static_cast<float>((pair & 15) - 8) * factor;
    numbers[i + kHalf] = static_cast<float>((pair >> 4) - 8) * factor;
  }
}

}  // namespace emblema
