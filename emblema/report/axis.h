// Where a chart's ticks fall and how its values read.
//
// Ticks are round numbers: 1, 2 or 5 times a power of ten; for bytes and tokens powers of two, so
// that every label ("1.5 GiB", "128k") is exact. Ticks of a million and more take SI prefixes ("20
// M"), and so do rates. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"

namespace emblema {

enum class Unit : std::uint8_t {
  kNumber,    // any number, shown with four significant digits
  kCount,     // how many of something: ticks are whole
  kBytes,     // shown in binary units
  kTokens,    // a context length: 131072 reads "128k" (a number of tokens found is a kCount)
  kFlopRate,  // FLOP per second: "989.5 TFLOP/s"
};

// For people: "9.617 GiB", "70,272", "128k", "0.0123".
// REQUIRES: value is what check_value accepts.
std::string format_value(double value, Unit unit);

// The same with nothing rounded away, for a tooltip: "10,326,376,448 bytes".
std::string format_exact(double value, Unit unit);

// What charts accept: finite, 0 or more, at most 2^63. `what` names the value in the error.
[[nodiscard]] Status check_value(double value, std::string_view what);

enum class Scale : std::uint8_t { kLinear, kLog2, kLog10 };

struct Axis {
  Scale scale = Scale::kLinear;
  Unit unit = Unit::kNumber;
  std::vector<double> ticks;  // strictly increasing, at least two; the ends of the axis included

  double low() const { return ticks.front(); }
  double high() const { return ticks.back(); }

  // 0 at low(), 1 at high(). REQUIRES: value lies on the axis.
  double position(double value) const;

  // "0", "1.5 GiB", "128k". REQUIRES: tick is one of ticks.
  std::string label(double tick) const;
};

// From 0 to at least `largest`, with 2 to ticks_max ticks at equal steps.
// REQUIRES: check_value(largest); ticks_max >= 3.
Axis linear_axis(double largest, Unit unit, std::size_t ticks_max);

// Whole powers of two around [smallest, largest], with 2 to ticks_max ticks at equal ratios.
// REQUIRES: 0 < smallest <= largest; check_value of both; ticks_max >= 3.
Axis log2_axis(double smallest, double largest, Unit unit, std::size_t ticks_max);

// The same with 1, 2 and 5 times powers of ten where those are few enough, else powers of ten
// alone, at equal ratios. The ends lie less than one such step outside [smallest, largest].
Axis log10_axis(double smallest, double largest, Unit unit, std::size_t ticks_max);

}  // namespace emblema
