// Bar and line charts as inline SVG: no script, no network, no file.
//
//   auto chart = BarChart::of({.title = "Memory by way", .unit = Unit::kBytes,
//                              .categories = {"unshared", "prefix"},
//                              .series = {{"logical", {3e6, 3e6}}, {"physical", {3e6, 1e6}}}});
//   page.add_chart(*chart);            // or chart->to_svg()
//
// Data is checked once, by of(); drawing then cannot fail and is deterministic. Values are doubles:
// whole numbers to 2^53 are exact. Every bar's value is printed, of a line its last and its labels,
// the others in tooltips; colours follow the reader's light or dark setting (theme.h), and no
// series is told apart by colour alone. Immutable; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/report/axis.h"

namespace emblema {

// Text is 12 px and more at this width: a phone's, for a picture on its own.
inline constexpr double kPhoneWidthPx = 340;

struct SvgOptions {
  double width_px = kPhoneWidthPx;  // 280 to 2000; the picture scales, its text with it
  // With its own style, background, title and note. A page that has them leaves them out.
  bool standalone = true;
};

enum class BarArrangement : std::uint8_t { kGrouped, kStacked };
enum class BarDirection : std::uint8_t { kHorizontal, kVertical };

struct BarSeries {
  std::string name;
  std::vector<double> values;  // one per category
};

struct BarChartData {
  std::string title = {};
  std::string note = {};  // a sentence under the title, optional
  Unit unit = Unit::kNumber;
  BarArrangement arrangement = BarArrangement::kGrouped;
  // Vertical is a wish: where the labels would not fit the width, bars lie down.
  BarDirection direction = BarDirection::kHorizontal;
  std::vector<std::string> categories = {};  // at most 200
  std::vector<BarSeries> series = {};        // at most 6 (kSeriesMax)
};

class BarChart {
 public:
  // Invalid: a value that is not finite or below 0, a stack above 2^63, another number of values
  // than categories, too many series or categories. No data at all is a legal, empty chart.
  static Result<BarChart> of(BarChartData data);

  const std::string& title() const { return data_.title; }
  const std::string& note() const { return data_.note; }
  std::string to_svg(const SvgOptions& options = {}) const;

 private:
  explicit BarChart(BarChartData data) : data_(std::move(data)) {}

  BarChartData data_;
};

struct LinePoint {
  double x = 0;
  double y = 0;
  std::string label = {};  // written beside the point, where it covers least
};

enum class LineStyle : std::uint8_t {
  kMarked,  // a line with a marker at each point
  kPlain,   // a curve of many points: a marker at its end only
  kPoints,  // markers without a line; x need not increase
};

struct LineSeries {
  std::string name;
  std::vector<LinePoint> points;  // x strictly increasing
  LineStyle style = LineStyle::kMarked;
  bool shows_last = true;  // the value at a line's end is printed behind it
};

// A dashed vertical line across the plot.
struct LineGuide {
  double x = 0;
  std::string label;
};

struct LineChartData {
  std::string title = {};
  std::string note = {};
  std::string x_label = {};  // "context (tokens)"
  std::string y_label = {};  // above the axis; a unit that its ticks do not say
  Unit x_unit = Unit::kNumber;
  Unit y_unit = Unit::kNumber;
  Scale x_scale = Scale::kLinear;
  Scale y_scale = Scale::kLinear;
  std::vector<LineSeries> series = {};  // at most 6 (kSeriesMax), 1000 points each
  std::vector<LineGuide> guides = {};   // at most 6
};

class LineChart {
 public:
  // Invalid: a coordinate that is not finite or below 0 (on a logarithmic axis: or 0), x that does
  // not increase, too many series, points or guides. No data at all is a legal, empty chart.
  static Result<LineChart> of(LineChartData data);

  const std::string& title() const { return data_.title; }
  const std::string& note() const { return data_.note; }
  std::string to_svg(const SvgOptions& options = {}) const;

 private:
  explicit LineChart(LineChartData data) : data_(std::move(data)) {}

  LineChartData data_;
};

}  // namespace emblema
