// The two YaRN corrections are different things: one multiplies cos and sin, the other the softmax
// scale. Figures from the formulas of DeepSeek-V3's and transformers' modeling code.
#include "emblema/geometry/rope.h"

#include <cmath>

#include <gtest/gtest.h>

namespace emblema {
namespace {

RopeFacts yarn(double factor, std::optional<double> mscale, std::optional<double> all_dim) {
  RopeFacts facts;
  facts.scaling = RopeScaling::kYarn;
  facts.factor = factor;
  facts.original_max_positions = 4096;
  facts.mscale = mscale;
  facts.mscale_all_dim = all_dim;
  return facts;
}

struct YarnCase {
  const char* name;
  RopeFacts facts;
  double amplitude;
  double scale;
};

TEST(Rope, YarnSplitsItsCorrectionBetweenCosSinAndSoftmaxScale) {
  const YarnCase cases[] = {
      {"DeepSeek-V3", yarn(40, 1.0, 1.0), 1.0, 0.1352338},
      {"DeepSeek-V2-Lite", yarn(40, 0.707, 0.707), 1.0, 0.1147214},
      {"mscale alone", yarn(40, 1.0, 0.0), 1.368888, 0.0721688},
      {"factor 1", yarn(1, 1.0, 1.0), 1.0, 0.0721688},
      {"no keys, factor 32", yarn(32, {}, {}), 1.346574, 0.0721688},
  };
  for (const YarnCase& item : cases) {
    EXPECT_NEAR(rope_amplitude(item.facts, 0), item.amplitude, 5e-7) << item.name;
    EXPECT_NEAR(softmax_scale(192, item.facts, true), item.scale, 5e-8) << item.name;
  }
  EXPECT_NEAR(softmax_scale(192, yarn(40, 1.0, 1.0), true) * std::sqrt(192.0), 1.873854, 5e-7);
  EXPECT_NEAR(softmax_scale(192, yarn(40, 0.707, 0.707), true) * std::sqrt(192.0), 1.589626, 5e-7);
}

TEST(Rope, YarnWithUnequalKeysDividesThem) {
  const double ratio = (0.1 * std::log(40.0) + 1) / (0.0707 * std::log(40.0) + 1);
  EXPECT_NEAR(rope_amplitude(yarn(40, 1.0, 0.707), 0), ratio, 1e-15);
  EXPECT_NEAR(rope_amplitude(yarn(40, {}, 0.707), 0), ratio, 1e-15);
  EXPECT_NEAR(rope_amplitude(yarn(40, 0.707, {}), 0), 0.0707 * std::log(40.0) + 1, 1e-15);
}

TEST(Rope, TheSoftmaxScaleIsPlainUnlessTheModelPutsMscaleThere) {
  EXPECT_DOUBLE_EQ(softmax_scale(64, yarn(40, 1.0, 1.0), false), 0.125);
  RopeFacts plain;
  plain.mscale_all_dim = 1.0;
  plain.factor = 40;
  EXPECT_DOUBLE_EQ(softmax_scale(64, plain, true), 0.125);
  EXPECT_DOUBLE_EQ(rope_amplitude(plain, 1 << 20), 1.0);
}

TEST(Rope, AnAttentionFactorGivenOutrightWins) {
  RopeFacts facts = yarn(40, 1.0, 0.5);
  facts.attention_factor = 0.75;
  EXPECT_DOUBLE_EQ(rope_amplitude(facts, 0), 0.75);
  facts.scaling = RopeScaling::kLongRope;
  EXPECT_DOUBLE_EQ(rope_amplitude(facts, 131072), 0.75);
}

TEST(Rope, UnitAmplitudeLeavesCosAndSinAlone) {
  RopeFacts facts = yarn(16, {}, {});
  facts.unit_amplitude = true;
  EXPECT_DOUBLE_EQ(rope_amplitude(facts, 1 << 20), 1.0);
}

TEST(Rope, LongRopeGrowsWithTheRatioOfLengths) {
  RopeFacts facts;
  facts.scaling = RopeScaling::kLongRope;
  facts.original_max_positions = 4096;
  // Phi-3-mini-128k: 131072 / 4096 = 2^5 over 2^12, sqrt(1 + 5/12).
  EXPECT_NEAR(rope_amplitude(facts, 131072), std::sqrt(1.0 + 5.0 / 12.0), 1e-15);
  EXPECT_DOUBLE_EQ(rope_amplitude(facts, 4096), 1.0);
  EXPECT_DOUBLE_EQ(rope_amplitude(facts, 2048), 1.0);
  facts.factor = 32;
  EXPECT_NEAR(rope_amplitude(facts, 0), std::sqrt(1.0 + 5.0 / 12.0), 1e-15);
}

}  // namespace
}  // namespace emblema
