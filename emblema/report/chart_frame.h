// What every chart draws around its plot: title, note, legend, and the frame of the document.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/report/chart.h"
#include "emblema/report/svg.h"

namespace emblema {

inline constexpr double kLabelPx = 13;    // font sizes
inline constexpr double kValuePx = 12.5;  // nothing is smaller
inline constexpr double kLinePx = 17;     // from one line of text to the next

enum class LegendKey : std::uint8_t { kBar, kLine, kPoints };  // what a series looks like

struct LegendEntry {
  std::string name;
  LegendKey key = LegendKey::kBar;
};

struct ChartHead {
  std::string title;
  std::string note;
  std::vector<LegendEntry> legend = {};  // series in order; one or none draws no legend
};

// The edges that drawing may use: the whole width on a page, inside a margin when standalone.
struct ChartEdges {
  double left_px = 0;
  double right_px = 0;
  double margin_px = 0;
};

ChartEdges chart_edges(const SvgOptions& options);

// Draws the head and returns the y where the plot may begin.
double draw_head(SvgCanvas& canvas, const ChartHead& head, const SvgOptions& options);

// Draws a chart that has nothing to show.
std::string draw_no_data(const ChartHead& head, const SvgOptions& options);

// REQUIRES: width_px within 280 to 2000.
void check_options(const SvgOptions& options);

// Invalid if a chart has more series than colours.
[[nodiscard]] Status check_series_count(std::string_view title, std::size_t series_count);

}  // namespace emblema
