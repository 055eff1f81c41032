#include "emblema/layer/seeded_values.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace emblema {
namespace {

TEST(SeededValues, MixingIsSplitMix64) {
  // The published first outputs of SplitMix64 seeded with 0.
  EXPECT_EQ(mix_bits(0x9e3779b97f4a7c15ULL), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(mix_bits(2 * 0x9e3779b97f4a7c15ULL), 0x6e789e6aa1b965f4ULL);
}

// From an implementation of the header's formulas in Python's integers.
TEST(SeededValues, AreTheSameBitsEverywhere) {
  EXPECT_EQ(uniform_value(0, 0), 0x1.8882a2p-1F);
  EXPECT_EQ(uniform_value(0, 1), -0x1.187618p-3F);
  EXPECT_EQ(uniform_value(0, 2), -0x1.e4ee8ap-1F);
  EXPECT_EQ(value_key(42, 0, 3), 0x18eb8647b1a56da5ULL);
  EXPECT_EQ(uniform_value(value_key(42, 0, 3), 0), 0x1.931054p-2F);
  EXPECT_EQ(uniform_value(value_key(42, 0, 3), 1'000'000), -0x1.2f7788p-3F);
  EXPECT_EQ(uniform_value(value_key(42, 1, 3), 0), 0x1.66e30ap-1F);
}

TEST(SeededValues, FillIsUniformAroundItsOffset) {
  std::vector<float> values(100'000);
  fill_uniform(values, value_key(7, 1, 2), 2.0F, 10.0F);
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    ASSERT_GE(value, 8.0F);
    ASSERT_LE(value, 12.0F);
    sum += value - 10.0;
    squares += (value - 10.0) * (value - 10.0);
  }
  // Variance of a width of 4 is 16/12; the mean of 10^5 strays by 0.0037.
  EXPECT_NEAR(sum / 100'000, 0.0, 0.02);
  EXPECT_NEAR(squares / 100'000, 4.0 / 3.0, 0.02);
}

}  // namespace
}  // namespace emblema
