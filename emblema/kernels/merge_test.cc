// Joining partial results, and the sink. Right values from the definition: weights e^(lse - max).
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/kernels/attention.h"

namespace emblema {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const float kLn2 = static_cast<float>(std::log(2.0));

struct Partial {
  std::vector<float> out;
  std::vector<float> lse;
  friend bool operator==(const Partial&, const Partial&) = default;
};

Partial merged(Partial a, const Partial& b) {
  merge_attention(a.out, a.lse, b.out, b.lse);
  return a;
}

TEST(MergeAttention, TwoEmptyPartsAreEmptyNotNan) {
  const Partial empty = {{0}, {-kInfinity}};
  EXPECT_EQ(merged(empty, empty), empty);
  EXPECT_EQ(merged({{kNan}, {-kInfinity}}, {{kNan}, {-kInfinity}}), empty);
}

TEST(MergeAttention, AnEmptyPartChangesNothingWhateverItsOutHolds) {
  const Partial five = {{5}, {kLn2}};
  for (const float garbage : {0.0F, kNan, kInfinity}) {
    const Partial empty = {{garbage}, {-kInfinity}};
    EXPECT_EQ(merged(empty, five), five);
    EXPECT_EQ(merged(five, empty), five);
  }
}

TEST(MergeAttention, WeighsBySumsOfExponentials) {
  // ln 1 and ln 3: a quarter and three quarters; the second row is all its own.
  const Partial got = merged({{4, 8, 1, 1}, {0, -kInfinity}},
                             {{8, 0, 2, 3}, {static_cast<float>(std::log(3.0)), 7}});
  EXPECT_FLOAT_EQ(got.out[0], 7);
  EXPECT_FLOAT_EQ(got.out[1], 2);
  EXPECT_FLOAT_EQ(got.lse[0], static_cast<float>(std::log(4.0)));
  EXPECT_EQ(got.out[2], 2);
  EXPECT_EQ(got.out[3], 3);
  EXPECT_EQ(got.lse[1], 7);
}

TEST(MergeAttention, LogarithmsFarFromZeroDoNotOverflow) {
  for (const float far : {-60000.0F, 60000.0F, 3e38F, -3e38F}) {
    const Partial got = merged({{2}, {far}}, {{4}, {far}});
    EXPECT_EQ(got.out[0], 3);
    EXPECT_FLOAT_EQ(got.lse[0], far + kLn2);
  }
}

TEST(MergeAttention, NoRowsIsNoWork) {
  EXPECT_EQ(merged({}, {}), (Partial{}));
}

TEST(FinishAttention, TheSinkIsOneMoreLogitWithoutAValue) {
  std::vector<float> out = {6, 6, 6, 6};
  const std::vector<float> lse = {0, kLn2, kLn2, 0};  // two tokens of two heads
  const std::vector<float> sinks = {0, kLn2};
  finish_attention(out, lse, sinks);
  EXPECT_FLOAT_EQ(out[0], 3);
  EXPECT_FLOAT_EQ(out[1], 3);
  EXPECT_FLOAT_EQ(out[2], 4);  // 2 of 2 + 1
  EXPECT_FLOAT_EQ(out[3], 2);  // 1 of 1 + 2
}

TEST(FinishAttention, AnInfiniteSinkTakesAllAndAMinusInfiniteOneNothing) {
  std::vector<float> out = {1, 2, 3, 4};
  const std::vector<float> lse = {5, -5};
  finish_attention(out, lse, std::vector<float>{-kInfinity});
  EXPECT_EQ(out, (std::vector<float>{1, 2, 3, 4}));
  finish_attention(out, lse, std::vector<float>{kInfinity});
  EXPECT_EQ(out, (std::vector<float>{0, 0, 0, 0}));
}

TEST(FinishAttention, ARowThatSawNothingStaysZeroWithAnySink) {
  for (const float sink : {kInfinity, -kInfinity, 0.0F}) {
    std::vector<float> out = {0};
    finish_attention(out, std::vector<float>{-kInfinity}, std::vector<float>{sink});
    EXPECT_EQ(out[0], 0.0F);
  }
}

TEST(FinishAttention, NoSinksLeaveTheResultAlone) {
  std::vector<float> out = {1, 2};
  finish_attention(out, std::vector<float>{0}, {});
  EXPECT_EQ(out, (std::vector<float>{1, 2}));
}

TEST(MergeAttentionDeathTest, SizesThatDoNotFitAreTheCallersFault) {
  Partial a = {{1, 2}, {0}};
  const Partial b = {{1}, {0}};
  EXPECT_DEATH(merge_attention(a.out, a.lse, b.out, b.lse), "same width");
}

}  // namespace
}  // namespace emblema
