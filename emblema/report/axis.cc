#include "emblema/report/axis.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"

namespace emblema {
namespace {

constexpr double kLargestValue = 9223372036854775808.0;  // 2^63

bool is_whole(double value) {
  return std::floor(value) == value;
}

std::uint64_t rounded(double value) {
  return static_cast<std::uint64_t>(std::round(value));
}

std::string format_number(double value) {
  return value >= 10000 ? format_count(rounded(value)) : fmt::format("{:.4g}", value);
}

std::string format_tokens(double value) {
  if (value < 1024 || !is_whole(value)) return format_number(value);
  const std::uint64_t tokens = rounded(value);
  if (tokens % kGiB == 0) return fmt::format("{}G", format_count(tokens / kGiB));
  if (tokens % kMiB == 0) return fmt::format("{}M", tokens / kMiB);
  if (tokens % kKiB == 0) return fmt::format("{}k", tokens / kKiB);
  return format_count(tokens);
}

// Powers of two scale without rounding, so the shortest text of the quotient is exact.
std::string format_binary_tick(double bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

// "20 M": a tick of a large number has few digits, so a prefix reads better than its zeros.
std::string format_prefixed(double value) {
  constexpr std::string_view kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (value >= 1000 && prefix + 1 < std::size(kPrefixes)) {
    value /= 1000;
    ++prefix;
  }
  return fmt::format("{:.4g} {}", value, kPrefixes[prefix]);
}

// The smallest round step of at least `least`.
double round_step(double least, Unit unit) {
  if (unit == Unit::kBytes || unit == Unit::kTokens) {
    return std::max(1.0, std::exp2(std::ceil(std::log2(least))));
  }
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= least) step = factor * power;
  }
  return unit == Unit::kCount ? std::max(1.0, step) : step;
}

// One step of a decimal logarithmic axis: so many ticks in a decade, or one in so many decades.
struct DecimalSteps {
  std::vector<double> mantissas = {1};
  int decades = 1;

  double tick(int index) const {
    const int count = static_cast<int>(mantissas.size());
    const int turn = index >= 0 ? index / count : (index + 1) / count - 1;
    return mantissas[static_cast<std::size_t>(index - turn * count)] *
           std::pow(10.0, turn * decades);
  }
};

std::vector<double> decimal_ticks(double smallest, double largest, const DecimalSteps& steps) {
  const double decade = std::floor(std::log10(smallest)) / steps.decades;
  int index = (static_cast<int>(std::floor(decade)) + 1) * static_cast<int>(steps.mantissas.size());
  while (steps.tick(index) > smallest) --index;
  std::vector<double> ticks;
  while (ticks.size() < 2 || ticks.back() < largest) ticks.push_back(steps.tick(index++));
  return ticks;
}

}  // namespace

std::string format_value(double value, Unit unit) {
  value += 0.0;  // -0 reads 0
  switch (unit) {
    case Unit::kNumber:
      return format_number(value);
    case Unit::kCount:
      return is_whole(value) ? format_count(rounded(value)) : format_number(value);
    case Unit::kTokens:
      return format_tokens(value);
    case Unit::kBytes:
      return value < 1024 ? fmt::format("{:.4g} B", value) : format_bytes(rounded(value));
    case Unit::kFlopRate:
      return format_prefixed(value) + "FLOP/s";
  }
  return {};
}

std::string format_exact(double value, Unit unit) {
  value += 0.0;
  const std::string digits =
      is_whole(value) ? format_count(rounded(value)) : fmt::format("{}", value);
  switch (unit) {
    case Unit::kBytes:
      return digits + " bytes";
    case Unit::kTokens:
      return digits + " tokens";
    case Unit::kFlopRate:
      return digits + " FLOP/s";
    case Unit::kNumber:
    case Unit::kCount:
      return digits;
  }
  return digits;
}

Status check_value(double value, std::string_view what) {
  if (std::isfinite(value) && value >= 0 && value <= kLargestValue) return {};
  return fail(ErrorCode::Invalid, fmt::format("{} is {}; allowed: 0 to 2^63, finite", what, value));
}

double Axis::position(double value) const {
  if (scale == Scale::kLinear) return (value - low()) / (high() - low());
  return (std::log2(value) - std::log2(low())) / (std::log2(high()) - std::log2(low()));
}

std::string Axis::label(double tick) const {
  if (unit == Unit::kBytes) return tick == 0 ? "0" : format_binary_tick(tick);
  if (unit == Unit::kTokens) return format_value(tick, unit);
  if (tick < 1e6) return format_value(tick, unit == Unit::kFlopRate ? Unit::kNumber : unit);
  return format_prefixed(tick);
}

Axis linear_axis(double largest, Unit unit, std::size_t ticks_max) {
  EMBLEMA_CHECK(check_value(largest, "largest"), "the largest value is checked before");
  EMBLEMA_CHECK(ticks_max >= 3, "an axis has room for three ticks");
  // What is too small for a step of its own stands on the axis of 0 to 1.
  if (largest < 1e-300) largest = 1;
  const double step = round_step(largest / static_cast<double>(ticks_max - 1), unit);
  Axis axis{.scale = Scale::kLinear, .unit = unit, .ticks = {0}};
  while (axis.ticks.back() < largest) {
    axis.ticks.push_back(step * static_cast<double>(axis.ticks.size()));
  }
  return axis;
}

Axis log2_axis(double smallest, double largest, Unit unit, std::size_t ticks_max) {
  EMBLEMA_CHECK(smallest > 0 && smallest <= largest, "a logarithmic axis begins above 0");
  EMBLEMA_CHECK(check_value(largest, "largest"), "the largest value is checked before");
  EMBLEMA_CHECK(ticks_max >= 3, "an axis has room for three ticks");
  const double first = std::floor(std::log2(smallest));
  const double last = std::max(first + 1, std::ceil(std::log2(largest)));
  const double step = std::ceil((last - first) / static_cast<double>(ticks_max - 1));
  Axis axis{.scale = Scale::kLog2, .unit = unit, .ticks = {}};
  while (axis.ticks.size() < 2 || axis.ticks.back() < largest) {
    axis.ticks.push_back(std::exp2(first + step * static_cast<double>(axis.ticks.size())));
  }
  return axis;
}

Axis log10_axis(double smallest, double largest, Unit unit, std::size_t ticks_max) {
  EMBLEMA_CHECK(smallest > 0 && smallest <= largest, "a logarithmic axis begins above 0");
  EMBLEMA_CHECK(check_value(largest, "largest"), "the largest value is checked before");
  EMBLEMA_CHECK(ticks_max >= 3, "an axis has room for three ticks");
  DecimalSteps steps{.mantissas = {1, 2, 5}};
  std::vector<double> ticks = decimal_ticks(smallest, largest, steps);
  for (int decades = 1; ticks.size() > ticks_max; ++decades) {
    ticks = decimal_ticks(smallest, largest, {.mantissas = {1}, .decades = decades});
  }
  return {.scale = Scale::kLog10, .unit = unit, .ticks = std::move(ticks)};
}

}  // namespace emblema
