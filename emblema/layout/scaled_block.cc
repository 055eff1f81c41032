#include "emblema/layout/scaled_block.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "emblema/contract/check.h"
#include "emblema/layout/convert.h"
#include "emblema/layout/fp8.h"
#include "emblema/layout/mx.h"

namespace emblema {
namespace {

constexpr float kInt8Largest = 127.0F;

float as_read(float number, const ScaleRule& rule) {
  return rule.through_bf16 ? fp32_from_bf16(bf16_from_fp32(number)) : number;
}

std::int8_t int8_from_fp32(float value) {
  if (std::isnan(value)) return 0;  // its block's scale is NaN
  return static_cast<std::int8_t>(std::clamp(std::nearbyint(value), -kInt8Largest, kInt8Largest));
}

}  // namespace

float largest_code(Encoding encoding) {
  switch (encoding) {
    case Encoding::kFp8E4m3:
      return kE4m3Largest;
    case Encoding::kE2m1:
      return kE2m1Largest;
    default:
      EMBLEMA_CHECK(encoding == Encoding::kInt8, "scaled codes are e4m3, e2m1 or int8");
      return kInt8Largest;
  }
}

float block_scale(std::span<const float> numbers, Encoding encoding, const ScaleRule& rule) {
  float amax = 0.0F;
  for (const float number : numbers) {
    const float magnitude = std::fabs(as_read(number, rule));
    if (!std::isfinite(magnitude)) return std::numeric_limits<float>::quiet_NaN();
    amax = std::max(amax, magnitude);
  }
  return scale_for(amax, encoding, rule);
}

float scale_for(float amax, Encoding encoding, const ScaleRule& rule) {
  if (!std::isfinite(amax)) return std::numeric_limits<float>::quiet_NaN();
  const float scale =
      std::max(std::max(amax, rule.amax_floor) / largest_code(encoding), rule.scale_floor);
  return rule.power_of_two ? fp32_from_ue8m0(ue8m0_at_least(scale)) : scale;
}

void encode_scaled(std::span<const float> numbers, Encoding encoding, float scale,
                   const ScaleRule& rule, std::byte* codes) {
  const float reciprocal = 1.0F / scale;
  const auto scaled = [&](std::size_t i) {
    const float number = as_read(numbers[i], rule);
    return rule.by_reciprocal ? number * reciprocal : number / scale;
  };
  switch (encoding) {
    case Encoding::kFp8E4m3:
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        codes[i] = std::byte{e4m3_from_fp32_saturating(scaled(i))};
      }
      return;
    case Encoding::kE2m1:
      EMBLEMA_CHECK(numbers.size() % 2 == 0, "two e2m1 numbers share a byte");
      for (std::size_t i = 0; i < numbers.size(); i += 2) {
        codes[i / 2] =
            std::byte{e2m1_pair(e2m1_from_fp32(scaled(i)), e2m1_from_fp32(scaled(i + 1)))};
      }
      return;
    default:
      EMBLEMA_CHECK(encoding == Encoding::kInt8, "scaled codes are e4m3, e2m1 or int8");
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        codes[i] = static_cast<std::byte>(int8_from_fp32(scaled(i)));
      }
  }
}

void decode_scaled(const std::byte* codes, Encoding encoding, float scale,
                   std::span<float> numbers) {
  switch (encoding) {
    case Encoding::kFp8E4m3:
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = fp32_from_e4m3(std::to_integer<std::uint8_t>(codes[i])) * scale;
      }
      return;
    case Encoding::kE2m1:
      EMBLEMA_CHECK(numbers.size() % 2 == 0, "two e2m1 numbers share a byte");
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto pair = std::to_integer<std::uint8_t>(codes[i / 2]);
        const auto code = static_cast<std::uint8_t>(i % 2 == 0 ? pair & 15 : pair >> 4);
        numbers[i] = fp32_from_e2m1(code) * scale;
      }
      return;
    default:
      EMBLEMA_CHECK(encoding == Encoding::kInt8, "scaled codes are e4m3, e2m1 or int8");
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<float>(static_cast<std::int8_t>(codes[i])) * scale;
      }
  }
}

double error_bound(Encoding encoding, double value, double scale) {
  // Two roundings in fp32: of the quotient, and of the product when decoded.
  constexpr double kArithmetic = 0x1p-22;
  const double magnitude = std::fabs(value);
  switch (encoding) {
    case Encoding::kBf16:
      return std::max(0x1p-8 * magnitude, 0x1p-134);
    case Encoding::kFp16:
      return std::max(0x1p-11 * magnitude, 0x1p-25);
    case Encoding::kFp8E4m3:
      return std::max(0x1p-4 * magnitude, 0x1p-10 * scale) + kArithmetic * magnitude;
    case Encoding::kE2m1:
      return std::max(0x1p-2 * magnitude, 0x1p-2 * scale) + kArithmetic * magnitude;
    case Encoding::kInt8:
      return 9.0 / 16 * scale + kArithmetic * magnitude;
    case Encoding::kInt4:
      return 65.0 / 64 * scale + kArithmetic * magnitude;
    default:
      return 0;
  }
}

}  // namespace emblema
