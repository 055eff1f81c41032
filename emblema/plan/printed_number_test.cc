#include "emblema/plan/printed_number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace emblema {
namespace {

using testing::HasSubstr;

PrintedNumber printed(std::string_view text) {
  const auto number = parse_printed("a test's number", text);
  EXPECT_TRUE(number) << number.error().describe();
  return number.value_or(PrintedNumber{});
}

TEST(PrintedNumber, ReadsDecimalsExactly) {
  EXPECT_EQ(printed("590").value, Rational(590));
  EXPECT_EQ(printed("590").places, 0u);
  EXPECT_EQ(printed("3,932,160").value, Rational(3'932'160));
  EXPECT_EQ(printed("122.0").value, Rational(122));
  EXPECT_EQ(printed("122.0").places, 1u);
  EXPECT_EQ(printed("1.125").value, Rational::of(9, 8));
  EXPECT_EQ(printed("0").value, Rational());
}

TEST(PrintedNumber, RefusesWhatIsNoDecimalAndNamesIt) {
  for (const char* text : {"", ".", "1.", ".5", "1.2.3", "1,", ",1", "1,,2", "1.2,3", "-1", "1e3",
                           "x", "1 ", "1234567890123456789"}) {
    const auto number = parse_printed("--bandwidth", text);
    ASSERT_FALSE(number) << text;
    EXPECT_EQ(number.error().code, ErrorCode::Invalid);
    EXPECT_THAT(number.error().message, HasSubstr("--bandwidth is '" + std::string(text) + "'"));
  }
}

TEST(PrintedNumber, ARoundingIsWithinHalfAUnitOfItsLastPlace) {
  const Rational exact = Rational::of(512, 9);  // 56.888...
  EXPECT_TRUE(is_rounding_of(printed("57"), exact));
  EXPECT_FALSE(is_rounding_of(printed("56"), exact));
  EXPECT_TRUE(is_rounding_of(printed("56.9"), exact));
  EXPECT_TRUE(is_rounding_of(printed("56.89"), exact));
  EXPECT_FALSE(is_rounding_of(printed("56.88"), exact));
  EXPECT_FALSE(is_rounding_of(printed("56.90"), exact));                // the zero is a claim
  EXPECT_TRUE(is_rounding_of(printed("71.88"), Rational::of(575, 8)));  // 71.875: half, up ...
  EXPECT_TRUE(is_rounding_of(printed("71.87"), Rational::of(575, 8)));  // ... or down
  EXPECT_TRUE(is_rounding_of(printed("0"), Rational::of(1, 2)));
  EXPECT_FALSE(is_rounding_of(printed("0"), Rational::of(2, 3)));
}

TEST(PrintedNumber, RoundsHalvesUpAndFillsPlaces) {
  EXPECT_EQ(rounded_text(Rational::of(2176, 9), 2), "241.78");
  EXPECT_EQ(rounded_text(Rational::of(575, 8), 2), "71.88");
  EXPECT_EQ(rounded_text(Rational(8), 2), "8.00");
  EXPECT_EQ(rounded_text(Rational::of(1, 16), 2), "0.06");
  EXPECT_EQ(rounded_text(Rational::of(999, 1000), 2), "1.00");
  EXPECT_EQ(rounded_text(Rational::of(1, 2), 0), "1");
}

RC_GTEST_PROP(PrintedNumberProperty, WhatIsRoundedIsARoundingOfWhatItWas, ()) {
  const auto exact = Rational::of(*rc::gen::inRange<std::uint64_t>(0, 1'000'000'000),
                                  *rc::gen::inRange<std::uint64_t>(1, 1'000'000));
  const auto places = *rc::gen::inRange<std::uint32_t>(0, 7);
  RC_ASSERT(is_rounding_of(printed(rounded_text(exact, places)), exact));
}

TEST(PrintedNumber, ComparesFractionsWithoutOverflow) {
  EXPECT_TRUE(at_most(Rational::of(1, 3), Rational::of(1, 3)));
  EXPECT_TRUE(at_most(Rational::of(UINT64_MAX - 1, UINT64_MAX), Rational(1)));
  EXPECT_FALSE(at_most(Rational(1), Rational::of(UINT64_MAX - 1, UINT64_MAX)));
}

}  // namespace
}  // namespace emblema
