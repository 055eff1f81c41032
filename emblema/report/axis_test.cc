#include "emblema/report/axis.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace emblema {
namespace {

using testing::ElementsAre;

constexpr double kTwoTo60 = 1152921504606846976.0;

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> all;
  for (const double tick : axis.ticks) all.push_back(axis.label(tick));
  return all;
}

void expect_sound(const Axis& axis, double smallest, double largest, std::size_t ticks_max) {
  RC_ASSERT(axis.ticks.size() >= 2u);
  RC_ASSERT(axis.ticks.size() <= ticks_max);
  RC_ASSERT(axis.low() <= smallest);
  RC_ASSERT(axis.high() >= largest);
  for (std::size_t i = 1; i < axis.ticks.size(); ++i) {
    RC_ASSERT(axis.ticks[i] > axis.ticks[i - 1]);
    RC_ASSERT(axis.label(axis.ticks[i]) != axis.label(axis.ticks[i - 1]));
  }
  RC_ASSERT(axis.position(axis.low()) == 0.0);
  RC_ASSERT(std::abs(axis.position(axis.high()) - 1.0) < 1e-12);
}

// Spread over all magnitudes that a report can meet.
double any_value() {
  const double mantissa = 1 + *rc::gen::inRange(0, 1000) / 1000.0;
  return mantissa * std::exp2(*rc::gen::inRange(-20, 63));
}

RC_GTEST_PROP(ReportAxis, LinearTicksCoverAndIncrease, ()) {
  const double largest = any_value();
  const auto unit = *rc::gen::element(Unit::kNumber, Unit::kCount, Unit::kBytes, Unit::kTokens);
  const auto ticks_max = *rc::gen::inRange<std::size_t>(3, 12);
  const Axis axis = linear_axis(largest, unit, ticks_max);
  expect_sound(axis, 0, largest, ticks_max);
  RC_ASSERT(axis.low() == 0.0);
  if (unit != Unit::kNumber) RC_ASSERT(axis.ticks[1] >= 1.0);
  // No more than one step is wasted above the largest value.
  const double step = axis.ticks[1];
  RC_ASSERT(axis.high() - largest <= step);
}

RC_GTEST_PROP(ReportAxis, LogTicksCoverAndIncrease, ()) {
  const double a = any_value();
  const double b = any_value();
  const auto ticks_max = *rc::gen::inRange<std::size_t>(3, 12);
  const Axis axis = log2_axis(std::min(a, b), std::max(a, b), Unit::kBytes, ticks_max);
  expect_sound(axis, std::min(a, b), std::max(a, b), ticks_max);
  for (const double tick : axis.ticks) RC_ASSERT(std::exp2(std::round(std::log2(tick))) == tick);
}

RC_GTEST_PROP(ReportAxis, DecimalLogTicksCoverAndIncrease, ()) {
  const double a = any_value();
  const double b = any_value();
  const auto ticks_max = *rc::gen::inRange<std::size_t>(3, 12);
  const Axis axis = log10_axis(std::min(a, b), std::max(a, b), Unit::kNumber, ticks_max);
  expect_sound(axis, std::min(a, b), std::max(a, b), ticks_max);
  RC_ASSERT(axis.ticks[1] > std::min(a, b));
  RC_ASSERT(axis.ticks[axis.ticks.size() - 2] < std::max(a, b) || axis.ticks.size() == 2);
}

TEST(ReportAxis, DecimalLogTicksThinOutToPowersOfTen) {
  EXPECT_THAT(labels(log10_axis(120'000, 900'000, Unit::kCount, 7)),
              ElementsAre("100,000", "200,000", "500,000", "1 M"));
  EXPECT_THAT(labels(log10_axis(3e11, 989.5e12, Unit::kFlopRate, 7)),
              ElementsAre("100 G", "1 T", "10 T", "100 T", "1 P"));
  EXPECT_THAT(labels(log10_axis(1, 1e6, Unit::kCount, 4)),
              ElementsAre("1", "100", "10,000", "1 M"));
  EXPECT_THAT(log10_axis(10, 10, Unit::kNumber, 5).ticks, ElementsAre(10, 20));
  EXPECT_THAT(labels(log10_axis(0.03, 0.4, Unit::kNumber, 6)),
              ElementsAre("0.02", "0.05", "0.1", "0.2", "0.5"));
}

TEST(ReportAxis, BytesStepInBinaryUnits) {
  EXPECT_THAT(labels(linear_axis(55'050'240, Unit::kBytes, 6)),
              ElementsAre("0", "16 MiB", "32 MiB", "48 MiB", "64 MiB"));
  EXPECT_THAT(labels(linear_axis(1.4 * 1073741824, Unit::kBytes, 4)),
              ElementsAre("0", "512 MiB", "1 GiB", "1.5 GiB"));
  EXPECT_THAT(labels(linear_axis(3, Unit::kBytes, 6)), ElementsAre("0", "1 B", "2 B", "3 B"));
}

TEST(ReportAxis, CountsStepInWholeRoundNumbers) {
  EXPECT_THAT(labels(linear_axis(208, Unit::kCount, 6)),
              ElementsAre("0", "50", "100", "150", "200", "250"));
  EXPECT_THAT(labels(linear_axis(2, Unit::kCount, 6)), ElementsAre("0", "1", "2"));
  EXPECT_THAT(labels(linear_axis(8192, Unit::kCount, 6)),
              ElementsAre("0", "2,000", "4,000", "6,000", "8,000", "10,000"));
  EXPECT_THAT(labels(linear_axis(1.1e6, Unit::kCount, 4)),
              ElementsAre("0", "500,000", "1 M", "1.5 M"));
  EXPECT_THAT(labels(linear_axis(989e12, Unit::kNumber, 3)), ElementsAre("0", "500 T", "1 P"));
  EXPECT_THAT(labels(linear_axis(0.3, Unit::kNumber, 4)), ElementsAre("0", "0.1", "0.2", "0.3"));
}

TEST(ReportAxis, ContextLengthsReadAsTheyAreTyped) {
  EXPECT_THAT(labels(log2_axis(1024, 1048576, Unit::kTokens, 6)),
              ElementsAre("1k", "4k", "16k", "64k", "256k", "1M"));
  EXPECT_EQ(format_value(128'000, Unit::kTokens), "125k");
  EXPECT_EQ(format_value(131'072, Unit::kTokens), "128k");
  EXPECT_EQ(format_value(131'073, Unit::kTokens), "131,073");
}

TEST(ReportAxis, NothingToMeasureStillHasAnAxis) {
  EXPECT_THAT(linear_axis(0, Unit::kBytes, 6).ticks, ElementsAre(0, 1));
  EXPECT_THAT(linear_axis(5e-324, Unit::kNumber, 3).ticks, ElementsAre(0, 0.5, 1));
  EXPECT_THAT(log2_axis(8, 8, Unit::kNumber, 5).ticks, ElementsAre(8, 16));
}

TEST(ReportAxis, TwoToTheSixtyIsAnEbibyte) {
  EXPECT_EQ(format_value(kTwoTo60, Unit::kBytes), "1.000 EiB");
  EXPECT_EQ(format_exact(kTwoTo60, Unit::kBytes), "1,152,921,504,606,846,976 bytes");
  EXPECT_THAT(labels(linear_axis(kTwoTo60, Unit::kBytes, 3)), ElementsAre("0", "512 PiB", "1 EiB"));
  EXPECT_TRUE(check_value(8 * kTwoTo60, "bytes"));
}

TEST(ReportAxis, ValuesReadAsPeopleSayThem) {
  EXPECT_EQ(format_value(10'326'376'448, Unit::kBytes), "9.617 GiB");
  EXPECT_EQ(format_value(4.5, Unit::kBytes), "4.5 B");
  EXPECT_EQ(format_value(70'272, Unit::kCount), "70,272");
  EXPECT_EQ(format_value(56.888888, Unit::kNumber), "56.89");
  EXPECT_EQ(format_value(3.1e-7, Unit::kNumber), "3.1e-07");
  EXPECT_EQ(format_value(-0.0, Unit::kNumber), "0");
  EXPECT_EQ(format_exact(4939.5, Unit::kBytes), "4939.5 bytes");
  EXPECT_EQ(format_value(989.5e12, Unit::kFlopRate), "989.5 TFLOP/s");
  EXPECT_EQ(format_exact(989.5e12, Unit::kFlopRate), "989,500,000,000,000 FLOP/s");
  EXPECT_EQ(format_value(512, Unit::kFlopRate), "512 FLOP/s");
}

TEST(ReportAxis, RefusesWhatIsNoMeasurementAndNamesIt) {
  using Limits = std::numeric_limits<double>;
  for (const double value : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), -1.0,
                             -5e-324, 1e19, Limits::max()}) {
    const Status checked = check_value(value, "physical bytes of 'prefix'");
    ASSERT_FALSE(checked) << value;
    EXPECT_EQ(checked.error().code, ErrorCode::Invalid);
    EXPECT_THAT(checked.error().message, testing::StartsWith("physical bytes of 'prefix' is "));
    EXPECT_THAT(checked.error().message, testing::HasSubstr("allowed: 0 to 2^63"));
  }
}

}  // namespace
}  // namespace emblema
