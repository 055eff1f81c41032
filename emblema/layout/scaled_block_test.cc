#include "emblema/layout/scaled_block.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/layout/convert.h"
#include "emblema/layout/ggml_block.h"
#include "emblema/layout/mx.h"

namespace emblema {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Written {
  float scale = 0;
  std::vector<std::uint8_t> bytes;
  std::vector<float> read_back;
};

Written written(const std::vector<float>& numbers, Encoding encoding, const ScaleRule& rule) {
  Written result;
  result.scale = block_scale(numbers, encoding, rule);
  std::vector<std::byte> codes(encoding == Encoding::kE2m1 ? numbers.size() / 2 : numbers.size());
  encode_scaled(numbers, encoding, result.scale, rule, codes.data());
  for (const std::byte code : codes) result.bytes.push_back(std::to_integer<std::uint8_t>(code));
  result.read_back.resize(numbers.size());
  decode_scaled(codes.data(), encoding, result.scale, result.read_back);
  return result;
}

std::vector<float> normal_numbers(std::size_t count, float factor = 1.0F) {
  std::mt19937 random(2412);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random) * factor;
  return numbers;
}

int scale_byte(float amax, Encoding encoding, const ScaleRule& rule) {
  return ue8m0_at_least(written({amax, -amax / 2}, encoding, rule).scale);
}

TEST(V4Scales, AreTheSmallestPowersOfTwoThatReach448) {
  EXPECT_EQ(scale_byte(1.0F, Encoding::kFp8E4m3, kDeepSeekV4Scales), 119);
  EXPECT_EQ(scale_byte(448.0F, Encoding::kFp8E4m3, kDeepSeekV4Scales), 127);
  EXPECT_EQ(scale_byte(450.0F, Encoding::kFp8E4m3, kDeepSeekV4Scales), 128);
  // 449 rounds to 448 in bf16, which is what the writers see; before that rounding it is 128.
  EXPECT_EQ(scale_byte(449.0F, Encoding::kFp8E4m3, kDeepSeekV4Scales), 127);
  EXPECT_EQ(scale_byte(449.0F, Encoding::kFp8E4m3, kIndexerScales), 128);
}

TEST(V4Scales, OfAnEmptyBlockDifferByWriter) {
  EXPECT_EQ(scale_byte(0.0F, Encoding::kFp8E4m3, kDeepSeekV4Scales), 105);
  EXPECT_EQ(scale_byte(0.0F, Encoding::kFp8E4m3, kFlashMlaV4Scales), 114);
  EXPECT_EQ(scale_byte(0.0F, Encoding::kFp8E4m3, kTensorRtV4Scales), 92);
}

TEST(V4Scales, ATileOfKnownNumbers) {
  const Written tile = written({1.0F, -0.5F, 0.3F, 0.001F}, Encoding::kFp8E4m3, kDeepSeekV4Scales);
  EXPECT_EQ(tile.scale, 0x1p-8F);
  EXPECT_THAT(tile.bytes, ElementsAre(0x78, 0xf0, 0x6a, 0x28));  // 256, -128, 80, 0.25
  EXPECT_THAT(tile.read_back, ElementsAre(1.0F, -0.5F, 0.3125F, 0.0009765625F));
}

TEST(Mxfp4, ABlockOfKnownNumbers) {
  const Written block = written({1.0F, -0.5F, 0.3F, 0.25F}, Encoding::kE2m1, kMxfp4Scales);
  EXPECT_EQ(block.scale, 0.25F);
  EXPECT_THAT(block.bytes, ElementsAre(0xc6, 0x22));
  EXPECT_THAT(block.read_back, ElementsAre(1.0F, -0.5F, 0.25F, 0.25F));
  EXPECT_EQ(scale_byte(1.0F, Encoding::kE2m1, kMxfp4Scales), 125);
  EXPECT_EQ(scale_byte(6.0F, Encoding::kE2m1, kMxfp4Scales), 127);
  EXPECT_EQ(scale_byte(7.0F, Encoding::kE2m1, kMxfp4Scales), 128);
  EXPECT_EQ(scale_byte(0.0F, Encoding::kE2m1, kMxfp4Scales), 1);  // 2^-126
}

TEST(LatentScales, AsVllmAndFlashMlaChooseThem) {
  const std::vector<float> tile = {3.0F, -1.0F, 0.5F};
  EXPECT_EQ(written(tile, Encoding::kFp8E4m3, kVllmLatentScales).scale, 3.0F / 448.0F);
  EXPECT_EQ(written(tile, Encoding::kFp8E4m3, kFlashMlaLatentScales).scale, 0x1p-7F);
  const std::vector<float> empty = {0.0F, -0.0F};
  EXPECT_EQ(written(empty, Encoding::kFp8E4m3, kVllmLatentScales).scale, FLT_MIN);
  EXPECT_EQ(written(empty, Encoding::kFp8E4m3, kFlashMlaLatentScales).scale, 0x1p-13F);
  EXPECT_THAT(written(empty, Encoding::kFp8E4m3, kVllmLatentScales).read_back, Each(0.0F));
  // The largest of a block is its largest code, whatever the scale's last bits.
  EXPECT_EQ(written(tile, Encoding::kFp8E4m3, kVllmLatentScales).bytes.at(0), 0x7e);
}

TEST(TokenHeadScales, AsVllmChoosesThem) {
  const Written block = written({2.54F, -1.27F, 0.01F}, Encoding::kInt8, kTokenHeadScales);
  EXPECT_FLOAT_EQ(block.scale, 0.02F);
  EXPECT_EQ(block.bytes.at(0), 127);
  EXPECT_EQ(written({0.0F}, Encoding::kInt8, kTokenHeadScales).scale, 1e-6F);
  EXPECT_FLOAT_EQ(written({448.0F}, Encoding::kFp8E4m3, kTokenHeadScales).scale, 1.0F);
}

TEST(ScaledBlocks, ReadersTakeAnyPositiveScale) {
  const std::array<std::byte, 2> codes = {std::byte{0x38}, std::byte{0xc0}};  // 1, -2
  for (const float scale : {1.5F, 0.3F, FLT_MIN, 1e30F}) {
    std::vector<float> numbers(2);
    decode_scaled(codes.data(), Encoding::kFp8E4m3, scale, numbers);
    EXPECT_EQ(numbers[0], scale);
    EXPECT_EQ(numbers[1], -2 * scale);
  }
}

TEST(ScaledBlocks, WhatIsNotFiniteMakesTheWholeBlockNan) {
  for (const float broken : {kNan, kInfinity, -kInfinity}) {
    for (const Encoding encoding : {Encoding::kFp8E4m3, Encoding::kE2m1, Encoding::kInt8}) {
      const Written block = written({1.0F, broken, 2.0F, 3.0F}, encoding, kMxfp4Scales);
      EXPECT_THAT(block.read_back, Each(testing::IsNan()));
    }
  }
}

TEST(ScaledBlocks, HugeNumbersComeBack) {
  const float huge = 0x1.8p127F;
  const Written block = written({huge, 1.0F}, Encoding::kFp8E4m3, kIndexerScales);
  EXPECT_EQ(block.read_back.at(0), huge);
}

// The dequantised values are what the next writer sees: values stay, though bytes may change.
TEST(ScaledBlocks, WritingWhatWasReadChangesNoValue) {
  const std::vector<float> numbers = normal_numbers(12'800);
  for (std::size_t i = 0; i < numbers.size(); i += 64) {
    const std::vector<float> tile(numbers.begin() + static_cast<std::ptrdiff_t>(i),
                                  numbers.begin() + static_cast<std::ptrdiff_t>(i + 64));
    for (const Encoding encoding : {Encoding::kFp8E4m3, Encoding::kE2m1}) {
      const ScaleRule& rule = encoding == Encoding::kE2m1 ? kMxfp4Scales : kDeepSeekV4Scales;
      const Written once = written(tile, encoding, rule);
      ASSERT_EQ(written(once.read_back, encoding, rule).read_back, once.read_back);
      for (const float value : once.read_back) {
        ASSERT_EQ(fp32_from_bf16(bf16_from_fp32(value)), value);  // exact in a bf16 cache, too
      }
    }
  }
}

TEST(ScaledBlocks, AMaximumThatRoundsDownTo224GetsASmallerScaleOnRewriting) {
  const std::vector<float> tile = {225.0F, 1.0F};
  const Written once = written(tile, Encoding::kFp8E4m3, kDeepSeekV4Scales);
  EXPECT_EQ(once.scale, 1.0F);
  EXPECT_EQ(once.read_back.at(0), 224.0F);
  const Written twice = written(once.read_back, Encoding::kFp8E4m3, kDeepSeekV4Scales);
  EXPECT_EQ(twice.scale, 0.5F);
  EXPECT_NE(twice.bytes, once.bytes);
  EXPECT_EQ(twice.read_back, once.read_back);
}

// ggml's formulas, worked out apart from this code in NumPy (float32) for x_i = ((7 i mod 32) - 15)
// x 0.37.
std::array<float, 32> ggml_numbers() {
  std::array<float, 32> numbers{};
  for (int i = 0; i < 32; ++i) {
    numbers[static_cast<std::size_t>(i)] = static_cast<float>((i * 7 % 32 - 15) * 0.37);
  }
  return numbers;
}

TEST(GgmlBlocks, GoldenBytesOfQ8) {
  const std::array<float, 32> numbers = ggml_numbers();
  std::array<std::byte, 32> codes{};
  EXPECT_EQ(encode_q8_0(numbers, codes.data()), 0x29f7);
  const std::vector<int> expected = {137, 193, 248, 48,  103, 161, 216, 16,  71,  127, 185,
                                     240, 40,  95,  153, 208, 8,   63,  119, 177, 232, 32,
                                     87,  145, 200, 0,   56,  111, 169, 224, 24,  79};
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(std::to_integer<int>(codes[i]), expected[i]) << i;
  }
}

TEST(GgmlBlocks, GoldenBytesOfQ4) {
  const std::array<float, 32> numbers = ggml_numbers();
  std::array<std::byte, 16> codes{};
  EXPECT_EQ(encode_q4_0(numbers, codes.data()), 0xb9ec);  // -0.74: the largest is +5.92
  const std::vector<int> expected = {0x8f, 0x4c, 0x09, 0xd5, 0xa2, 0x6e, 0x2b, 0xf7,
                                     0xc4, 0x80, 0x5d, 0x19, 0xe6, 0xa2, 0x7f, 0x3b};
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(std::to_integer<int>(codes[i]), expected[i]) << i;
  }
  std::array<float, 32> read_back{};
  decode_q4_0(0x3800, codes.data(), read_back);  // any scale: 0.5
  EXPECT_EQ(read_back[0], (15 - 8) * 0.5F);      // low nibble of byte 0
  EXPECT_EQ(read_back[16], (8 - 8) * 0.5F);      // its high nibble
  EXPECT_EQ(read_back[31], (3 - 8) * 0.5F);
}

TEST(GgmlBlocks, ZerosTinyNumbersAndNanAreSafe) {
  std::array<std::byte, 32> codes{};
  std::array<float, 32> read_back{};
  std::array<float, 32> numbers{};
  EXPECT_EQ(encode_q8_0(numbers, codes.data()), 0);
  decode_q8_0(0, codes.data(), read_back);
  EXPECT_THAT(read_back, Each(0.0F));
  numbers.fill(std::numeric_limits<float>::denorm_min());
  numbers[5] = 0x1p-140F;
  decode_q8_0(encode_q8_0(numbers, codes.data()), codes.data(), read_back);
  EXPECT_THAT(read_back, Each(0.0F));
  decode_q4_0(encode_q4_0(numbers, codes.data()), codes.data(), read_back);
  EXPECT_THAT(read_back, Each(0.0F));
  for (const float broken : {kNan, kInfinity}) {
    numbers[7] = broken;
    decode_q8_0(encode_q8_0(numbers, codes.data()), codes.data(), read_back);
    EXPECT_THAT(read_back, Each(testing::IsNan()));
    decode_q4_0(encode_q4_0(numbers, codes.data()), codes.data(), read_back);
    EXPECT_THAT(read_back, Each(testing::IsNan()));
  }
}

// How far from N(0, 1) the numbers come back: each within its bound, and as a whole as stated.
struct Spread {
  double relative = 0;  // root mean square of the error over that of the numbers
  double worst = 0;     // largest error / bound
};

class ErrorMeter {
 public:
  void add(Encoding encoding, float number, float read_back, double scale) {
    const double error = std::fabs(static_cast<double>(read_back) - number);
    const double bound = error_bound(encoding, number, scale);
    EXPECT_LE(error, bound) << number;
    worst_ = std::max(worst_, error / bound);
    errors_ += error * error;
    numbers_ += static_cast<double>(number) * number;
  }
  Spread spread() const { return {std::sqrt(errors_ / numbers_), worst_}; }

 private:
  double errors_ = 0;
  double numbers_ = 0;
  double worst_ = 0;
};

Spread scaled_spread(Encoding encoding, std::size_t block, const ScaleRule& rule, float factor) {
  ErrorMeter meter;
  const std::vector<float> numbers = normal_numbers(block * 300, factor);
  for (std::size_t i = 0; i < numbers.size(); i += block) {
    const std::vector<float> part(numbers.begin() + static_cast<std::ptrdiff_t>(i),
                                  numbers.begin() + static_cast<std::ptrdiff_t>(i + block));
    const Written one = written(part, encoding, rule);
    for (std::size_t j = 0; j < block; ++j) {
      meter.add(encoding, part[j], one.read_back[j], one.scale);
    }
  }
  return meter.spread();
}

void expect_spread(const Spread& spread, double relative) {
  EXPECT_NEAR(spread.relative, relative, 0.15 * relative);
  EXPECT_GT(spread.worst, 0.8);  // a bound that nothing comes near says nothing
}

TEST(ErrorBounds, HoldOnNormalNumbersAndAreNearlyReached) {
  for (const float factor : {1.0F, 1e-3F, 300.0F}) {
    // Rules that round to bf16 first add that error to it.
    expect_spread(scaled_spread(Encoding::kFp8E4m3, 128, kVllmLatentScales, factor), 0.026);
    expect_spread(scaled_spread(Encoding::kFp8E4m3, 64, kIndexerScales, factor), 0.026);
    expect_spread(scaled_spread(Encoding::kE2m1, 32, kMxfp4Scales, factor), 0.11);
  }
  const Spread int8 = scaled_spread(Encoding::kInt8, 128, kTokenHeadScales, 1.0F);
  EXPECT_NEAR(int8.relative, 0.006, 0.001);
  EXPECT_LE(int8.worst, 0.5 / (9.0 / 16) + 1e-3);  // rounded, not cut off: half a step
}

TEST(ErrorBounds, HoldForGgmlsBlocks) {
  ErrorMeter q8;
  ErrorMeter q4;
  const std::vector<float> numbers = normal_numbers(32'000);
  std::array<std::byte, 32> codes{};
  std::array<float, 32> read_back{};
  for (std::size_t i = 0; i < numbers.size(); i += 32) {
    const GgmlNumbers block(numbers.data() + i, 32);
    const std::uint16_t d8 = encode_q8_0(block, codes.data());
    decode_q8_0(d8, codes.data(), read_back);
    for (std::size_t j = 0; j < 32; ++j) {
      q8.add(Encoding::kInt8, block[j], read_back[j], fp32_from_fp16(d8));
    }
    const std::uint16_t d4 = encode_q4_0(block, codes.data());
    decode_q4_0(d4, codes.data(), read_back);
    for (std::size_t j = 0; j < 32; ++j) {
      q4.add(Encoding::kInt4, block[j], read_back[j], std::fabs(fp32_from_fp16(d4)));
    }
  }
  expect_spread(q8.spread(), 0.0055);
  expect_spread(q4.spread(), 0.085);
}

TEST(ErrorBounds, HoldFor16BitNumbers) {
  ErrorMeter bf16;
  ErrorMeter fp16;
  for (const float number : normal_numbers(20'000)) {
    bf16.add(Encoding::kBf16, number, fp32_from_bf16(bf16_from_fp32(number)), 1);
    fp16.add(Encoding::kFp16, number, fp32_from_fp16(fp16_from_fp32(number)), 1);
  }
  expect_spread(bf16.spread(), 0.00166);
  expect_spread(fp16.spread(), 0.000208);
  EXPECT_EQ(error_bound(Encoding::kFp32, 3.0, 1), 0);
}

}  // namespace
}  // namespace emblema
