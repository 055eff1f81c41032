#include "emblema/layer/rms_norm.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace emblema {
namespace {

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  // Mean square of 1, 7, 5, 5 is 25: exact in fp32.
  const std::vector<float> in = {1, 7, 5, 5};
  std::vector<float> out(4);
  rms_norm(in, 4, {}, 0.0, out);
  const std::vector<float> expected = {0.2F, 1.4F, 1.0F, 1.0F};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(out[i], expected[i]);
}

TEST(RmsNorm, GainAndEpsilonEnterAsWritten) {
  const std::vector<float> in = {3, -4, 0, 0, 1, 1};
  const std::vector<float> gain = {2.0F, 0.5F};
  std::vector<float> out(6);
  rms_norm(in, 2, gain, 0.5, out);
  const double first = std::sqrt(12.5 + 0.5);
  const double last = std::sqrt(1.0 + 0.5);
  const std::vector<double> expected = {6 / first, -2 / first, 0, 0, 2 / last, 0.5 / last};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(out[i], expected[i], 1e-6);
}

TEST(RmsNorm, ZerosStayZeroAndLargeValuesDoNotOverflow) {
  std::vector<float> zeros(3, 0.0F);
  rms_norm(zeros, 3, {}, 1e-6, zeros);
  EXPECT_EQ(zeros, std::vector<float>(3, 0.0F));
  std::vector<float> large(3, 1e30F);  // its square is past fp32
  rms_norm(large, 3, {}, 1e-6, large);
  for (const float value : large) EXPECT_FLOAT_EQ(value, 1.0F);
}

TEST(RmsNorm, RowsWithAStrideLeaveTheRestAlone) {
  std::vector<float> rows = {3, 3, 9, 4, 4, 9};
  rms_norm_rows(rows.data(), 2, 2, 3, {}, 0.0);
  EXPECT_EQ(rows, (std::vector<float>{1, 1, 9, 1, 1, 9}));
}

}  // namespace
}  // namespace emblema
