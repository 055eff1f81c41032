// Frequencies against the published formulas, written out here once more in their original form
// (arXiv 2309.00071 for YaRN; transformers' modeling_rope_utils for the rest), and turning against
// numbers worked out by hand.
#include "emblema/layout/rope_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emblema {
namespace {

using ::testing::DoubleNear;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

RopeFacts facts_of(std::uint32_t rotary_dim, double theta = 10000.0) {
  RopeFacts facts;
  facts.rotary_dim = rotary_dim;
  facts.theta = theta;
  return facts;
}

RopeTable table_of(const RopeFacts& facts, std::uint64_t max_positions = 0) {
  Result<RopeTable> table = RopeTable::from(facts, max_positions);
  EXPECT_TRUE(table.has_value()) << table.error().describe();
  return table.value_or(RopeTable());
}

void expect_frequencies(const RopeTable& table, std::size_t pairs,
                        const std::function<double(double)>& expected) {
  ASSERT_EQ(table.frequencies().size(), pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const double want = expected(static_cast<double>(i));
    EXPECT_NEAR(table.frequencies()[i], want, 1e-14 * want) << "pair " << i;
  }
}

TEST(RopeTable, NeighbourPairsAndHalvesAreNotMixedUp) {
  for (const bool interleaved : {true, false}) {
    RopeFacts facts = facts_of(4);
    facts.interleaved = interleaved;
    std::vector<float> row = {1, 2, 3, 4};
    table_of(facts).rotate(row, 1);
    const std::vector<float> neighbours = {-1.142640F, 1.922076F, 2.959851F, 4.029800F};
    const std::vector<float> halves = {-1.984111F, 1.959901F, 2.462378F, 4.019800F};
    EXPECT_THAT(row, Pointwise(FloatNear(1e-6F), interleaved ? neighbours : halves));
  }
}

TEST(RopeTable, PermutingNeighboursToHalvesAndBackGivesTheSameRotation) {
  RopeFacts facts = facts_of(64);
  const RopeTable halves = table_of(facts);
  facts.interleaved = true;
  const RopeTable neighbours = table_of(facts);
  std::vector<double> row(64);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = std::sin(static_cast<double>(7 * i + 1));
  std::vector<double> permuted(64);
  for (std::size_t i = 0; i < 32; ++i) {
    permuted[i] = row[2 * i];
    permuted[i + 32] = row[2 * i + 1];
  }
  neighbours.rotate(row, 1234567);
  halves.rotate(permuted, 1234567);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(row[2 * i], permuted[i]);
    EXPECT_EQ(row[2 * i + 1], permuted[i + 32]);
  }
}

TEST(RopeTable, PositionZeroLeavesARowAlone) {
  const std::vector<float> before = {1, 2, 3, 4};
  for (const bool interleaved : {true, false}) {
    RopeFacts facts = facts_of(4);
    facts.interleaved = interleaved;
    std::vector<float> row = before;
    table_of(facts).rotate(row, 0);
    EXPECT_EQ(row, before);
  }
}

TEST(RopeTable, PartialRotaryTurnsOnlyTheFirstChannels) {
  std::vector<double> row = {1, 2, 3, 4, 5, 6, 7};
  table_of(facts_of(4)).rotate(row, 1);
  const std::vector<double> want = {-1.984111, 1.959901, 2.462378, 4.019800, 5, 6, 7};
  EXPECT_THAT(row, Pointwise(DoubleNear(1e-6), want));
}

TEST(RopeTable, RotateAppliesTheAmplitudeOnceAndTurnNever) {
  RopeFacts facts = facts_of(4);
  facts.scaling = RopeScaling::kYarn;
  facts.factor = 32;
  facts.original_max_positions = 4096;
  const RopeTable table = table_of(facts);
  EXPECT_NEAR(table.amplitude(), 1.346574, 5e-7);
  std::vector<double> rotated = {1, 2, 3, 4};
  table.rotate(rotated, 5);
  std::vector<double> turned = {1, 2, 3, 4};
  table.turn(turned, 3);
  table.turn(turned, 2);
  for (double& value : turned) value *= table.amplitude();
  EXPECT_THAT(rotated, Pointwise(DoubleNear(1e-14), turned));
  table.turn(rotated, -5);
  const std::vector<double> back = {table.amplitude() * 1, table.amplitude() * 2,
                                    table.amplitude() * 3, table.amplitude() * 4};
  EXPECT_THAT(rotated, Pointwise(DoubleNear(1e-14), back));
}

TEST(RopeTable, PlainAndLinear) {
  const auto plain = [](double i) { return 1.0 / std::pow(500000.0, 2 * i / 128); };
  expect_frequencies(table_of(facts_of(128, 500000.0)), 64, plain);
  RopeFacts linear = facts_of(128, 500000.0);
  linear.scaling = RopeScaling::kLinear;
  linear.factor = 8;
  expect_frequencies(table_of(linear), 64, [&](double i) { return plain(i) / 8; });
  EXPECT_TRUE(table_of(linear).fixed_frequencies());
}

TEST(RopeTable, DynamicNtkGrowsTheBaseAndRefusesToBeFixed) {
  RopeFacts facts = facts_of(128);
  facts.scaling = RopeScaling::kDynamic;
  facts.factor = 2;
  facts.original_max_positions = 2048;
  const RopeTable within = table_of(facts, 2048);
  EXPECT_FALSE(within.fixed_frequencies());
  expect_frequencies(within, 64, [](double i) { return std::pow(10000.0, -i / 64); });
  const double base = 10000.0 * std::pow(2.0 * 8192 / 2048 - 1.0, 128.0 / 126.0);
  expect_frequencies(table_of(facts, 8192), 64, [&](double i) { return std::pow(base, -i / 64); });
  facts.rotary_dim = 2;
  expect_frequencies(table_of(facts, 8192), 1, [](double) { return 1.0; });
}

// The ramp as arXiv 2309.00071 and DeepSeek's code state it: dimension of a number of rotations.
double yarn_frequency(const RopeFacts& facts, double i) {
  const double dim = facts.rotary_dim;
  const auto original = static_cast<double>(facts.original_max_positions);
  const auto correction_dim = [&](double rotations) {
    return dim * std::log(original / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(facts.theta));
  };
  double low = correction_dim(facts.beta_fast);
  double high = correction_dim(facts.beta_slow);
  if (facts.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, dim - 1);
  const double keep = 1 - std::min(1.0, std::max(0.0, (i - low) / (high - low)));
  const double extrapolated = 1.0 / std::pow(facts.theta, 2 * i / dim);
  return extrapolated / facts.factor * (1 - keep) + extrapolated * keep;
}

TEST(RopeTable, YarnByPartsWithAndWithoutTruncation) {
  RopeFacts facts = facts_of(64, 150000.0);  // gpt-oss
  facts.scaling = RopeScaling::kYarn;
  facts.factor = 32;
  facts.original_max_positions = 4096;
  for (const bool truncate : {true, false}) {
    facts.truncate = truncate;
    expect_frequencies(table_of(facts), 32, [&](double i) { return yarn_frequency(facts, i); });
  }
  facts.truncate = true;
  const double rounded = table_of(facts).frequencies()[12];
  facts.truncate = false;
  EXPECT_NE(table_of(facts).frequencies()[12], rounded);
}

TEST(RopeTable, DeepSeekV4WindowLayersAreLeftOutOfYarn) {
  const RopeTable window = table_of(facts_of(64));
  EXPECT_NEAR(window.frequencies()[15], 1.333521432e-2, 5e-12);
  EXPECT_NEAR(window.frequencies()[20], 3.162277660e-3, 5e-13);
  EXPECT_NEAR(window.frequencies()[31], 1.333521432e-4, 5e-14);
}

TEST(RopeTable, DeepSeekV4CompressedLayersUseTheirOwnBaseAndRamp) {
  RopeFacts facts = facts_of(64, 160000.0);
  facts.scaling = RopeScaling::kYarn;
  facts.factor = 16;
  facts.original_max_positions = 65536;
  facts.unit_amplitude = true;
  const RopeTable compressed = table_of(facts, 1 << 20);
  EXPECT_NEAR(compressed.frequencies()[15], 3.635538584e-3, 5e-13);
  EXPECT_NEAR(compressed.frequencies()[20], 2.969777783e-4, 5e-14);
  EXPECT_NEAR(compressed.frequencies()[25], 5.372312671e-6, 5e-16);
  EXPECT_NEAR(compressed.frequencies()[31], 5.680529037e-7, 5e-17);
  EXPECT_DOUBLE_EQ(compressed.amplitude(), 1.0);
}

TEST(RopeTable, Llama3ScalesByWavelength) {
  RopeFacts facts = facts_of(128, 500000.0);
  facts.scaling = RopeScaling::kLlama3;
  facts.factor = 8;
  facts.original_max_positions = 8192;
  int kept = 0, slowed = 0, between = 0;
  expect_frequencies(table_of(facts), 64, [&](double i) {
    const double frequency = 1.0 / std::pow(500000.0, 2 * i / 128);
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < 8192.0 / 4.0) return ++kept, frequency;
    if (wavelength > 8192.0 / 1.0) return ++slowed, frequency / 8;
    const double smooth = (8192.0 / wavelength - 1.0) / (4.0 - 1.0);
    return ++between, (1 - smooth) * frequency / 8 + smooth * frequency;
  });
  EXPECT_GT(kept, 0);
  EXPECT_GT(slowed, 0);
  EXPECT_GT(between, 0);
}

TEST(RopeTable, LongRopeTakesTheLongTableOnlyAboveTheOriginalLengthAndRefusesToBeFixed) {
  RopeFacts facts = facts_of(8);
  facts.scaling = RopeScaling::kLongRope;
  facts.original_max_positions = 4096;
  facts.short_factor = {1, 1.25, 1.5, 2};
  facts.long_factor = {1, 4, 16, 64};
  const auto with = [](const std::vector<double>& table) {
    return [&table](double i) {
      return 1.0 / (table[static_cast<std::size_t>(i)] * std::pow(10000.0, 2 * i / 8));
    };
  };
  expect_frequencies(table_of(facts, 4096), 4, with(facts.short_factor));
  expect_frequencies(table_of(facts, 4097), 4, with(facts.long_factor));
  EXPECT_NEAR(table_of(facts, 131072).amplitude(), std::sqrt(1.0 + 5.0 / 12.0), 1e-15);
  EXPECT_FALSE(table_of(facts, 4096).fixed_frequencies());
  EXPECT_FALSE(table_of(facts, 131072).fixed_frequencies());
}

TEST(RopeTable, ScalingsThatIgnoreTheLengthAreFixed) {
  RopeFacts facts = facts_of(8);
  facts.factor = 4;
  facts.original_max_positions = 4096;
  for (const RopeScaling scaling :
       {RopeScaling::kNone, RopeScaling::kLinear, RopeScaling::kYarn, RopeScaling::kLlama3}) {
    facts.scaling = scaling;
    const RopeTable shorter = table_of(facts, 4096);
    const RopeTable longer = table_of(facts, 131072);
    EXPECT_TRUE(longer.fixed_frequencies()) << static_cast<int>(scaling);
    EXPECT_TRUE(std::ranges::equal(shorter.frequencies(), longer.frequencies()));
  }
}

TEST(RopeTable, AnEmptyTableTurnsNothing) {
  std::vector<float> row = {1, 2};
  RopeTable().turn(row, 99);
  EXPECT_EQ(row, (std::vector<float>{1, 2}));
  EXPECT_EQ(RopeTable().rotary_dim(), 0U);
}

TEST(RopeTable, RefusesWhatHasNoFrequenciesAndNamesTheField) {
  const auto refused = [](const std::function<void(RopeFacts&)>& spoil) {
    RopeFacts facts = facts_of(8);
    facts.original_max_positions = 4096;
    facts.factor = 4;
    spoil(facts);
    const Result<RopeTable> table = RopeTable::from(facts, 8192);
    if (table) return std::string("accepted");
    return table.error().describe();
  };
  EXPECT_THAT(refused([](RopeFacts& f) { f.rotary_dim = 0; }), HasSubstr("rotary_dim is 0"));
  EXPECT_THAT(refused([](RopeFacts& f) { f.rotary_dim = 7; }), HasSubstr("rotary_dim is 7"));
  EXPECT_THAT(refused([](RopeFacts& f) { f.theta = 0; }), HasSubstr("theta is 0"));
  EXPECT_THAT(refused([](RopeFacts& f) { f.theta = NAN; }), HasSubstr("theta is nan"));
  EXPECT_THAT(refused([](RopeFacts& f) { f.scaling = RopeScaling::kLinear, f.factor = -2; }),
              HasSubstr("factor is -2"));
  EXPECT_THAT(refused([](RopeFacts& f) { f.scaling = RopeScaling::kYarn, f.theta = 1; }),
              HasSubstr("theta is 1"));
  EXPECT_THAT(refused([](RopeFacts& f) { f.scaling = RopeScaling::kYarn, f.beta_fast = 0; }),
              HasSubstr("beta_fast is 0"));
  EXPECT_THAT(
      refused([](RopeFacts& f) { f.scaling = RopeScaling::kYarn, f.original_max_positions = 0; }),
      HasSubstr("original_max_positions is 0"));
  EXPECT_THAT(refused([](RopeFacts& f) { f.scaling = RopeScaling::kYarn, f.attention_factor = 0; }),
              HasSubstr("amplitude is 0"));
  EXPECT_THAT(
      refused([](RopeFacts& f) { f.scaling = RopeScaling::kLlama3, f.high_freq_factor = 0.5; }),
      HasSubstr("high_freq_factor is 0.5"));
  EXPECT_THAT(
      refused([](RopeFacts& f) { f.scaling = RopeScaling::kLongRope, f.short_factor = {1}; }),
      HasSubstr("short_factor has 1 values; allowed: 4"));
}

// transformers' modeling_rope_utils, "proportional" (Gemma-4): the exponent runs over the whole
// head, and the pairs behind the first share of them stand still.
TEST(RopeTable, ProportionalTurnsTheFirstShareOfAllPairs) {
  RopeFacts facts = facts_of(512, 1e6);
  facts.scaling = RopeScaling::kProportional;
  facts.partial_rotary_factor = 0.25;
  const RopeTable table = table_of(facts);
  expect_frequencies(table, 256, [](double i) { return i < 64 ? std::pow(1e6, -i / 256) : 0.0; });
  std::vector<double> row(512, 1.0);
  table.rotate(row, 1000);
  EXPECT_NE(row[63], 1.0);
  EXPECT_NE(row[63 + 256], 1.0) << "its pair lies half a head away";
  EXPECT_EQ(row[64], 1.0);
  EXPECT_EQ(row[64 + 256], 1.0);
}

// Llama 4's files give both factors as 1: nothing lies between short waves and long ones.
TEST(RopeTable, Llama3WithEqualFactorsIsAStep) {
  RopeFacts facts = facts_of(128, 500'000);
  facts.scaling = RopeScaling::kLlama3;
  facts.factor = 16;
  facts.low_freq_factor = 1;
  facts.high_freq_factor = 1;
  facts.original_max_positions = 8192;
  expect_frequencies(table_of(facts), 64, [](double i) {
    const double plain = std::pow(500'000.0, -i / 64);
    return 2 * std::numbers::pi / plain < 8192 ? plain : plain / 16;
  });
}

}  // namespace
}  // namespace emblema
