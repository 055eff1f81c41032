#include "emblema/report/svg.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "emblema/report/text.h"
#include "emblema/report/theme.h"

namespace emblema {
namespace {

std::string_view anchor_attribute(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart:
      return "";
    case Anchor::kMiddle:
      return " text-anchor=\"middle\"";
    case Anchor::kEnd:
      return " text-anchor=\"end\"";
  }
  return "";
}

std::string tooltip_element(std::string_view tooltip) {
  return tooltip.empty() ? std::string() : fmt::format("<title>{}</title>", escape_markup(tooltip));
}

// Circle, square, diamond, triangle, and the last two turned.
std::string marker_path(double x, double y, std::size_t series) {
  constexpr double kR = 4.5;
  const auto at = [&](double dx, double dy) {
    return svg_number(x + dx * kR) + " " + svg_number(y + dy * kR);
  };
  switch (series % kSeriesMax) {
    case 0:
      return fmt::format("M{} a4.5 4.5 0 1 0 9 0 a4.5 4.5 0 1 0 -9 0Z", at(-1, 0));
    case 1:
      return fmt::format("M{} L{} L{} L{}Z", at(-.9, -.9), at(.9, -.9), at(.9, .9), at(-.9, .9));
    case 2:
      return fmt::format("M{} L{} L{} L{}Z", at(0, -1.3), at(1.3, 0), at(0, 1.3), at(-1.3, 0));
    case 3:
      return fmt::format("M{} L{} L{}Z", at(0, -1.2), at(1.1, .8), at(-1.1, .8));
    case 4:
      return fmt::format("M{} L{} L{}Z", at(0, 1.2), at(1.1, -.8), at(-1.1, -.8));
    default:
      return fmt::format("M{} L{} L{}Z", at(1.2, 0), at(-.8, 1.1), at(-.8, -1.1));
  }
}

}  // namespace

std::string svg_number(double value) {
  const double hundredths = std::round(value * 100);
  return fmt::format("{}", hundredths == 0 ? 0.0 : hundredths / 100);
}

void SvgCanvas::bar(const SvgRect& rect, std::size_t series, std::string_view tooltip) {
  before_ += fmt::format(
      "<rect class=\"em-bar em-s{}\" fill=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{}"
      "</rect>\n",
      series, kLightTheme.series.at(series), svg_number(rect.x_px), svg_number(rect.y_px),
      svg_number(rect.width_px), svg_number(rect.height_px), tooltip_element(tooltip));
}

void SvgCanvas::swatch(double x_px, double y_px, std::size_t series) {
  before_ += fmt::format(
      "<rect class=\"em-s{}\" fill=\"{}\" x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" "
      "rx=\"2\"/>\n",
      series, kLightTheme.series.at(series), svg_number(x_px), svg_number(y_px));
}

void SvgCanvas::text(const SvgText& how, std::string_view text) {
  const std::string classes =
      how.classes.empty() ? std::string() : fmt::format(" class=\"{}\"", how.classes);
  before_ +=
      fmt::format("<text{} x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{}>{}</text>\n", classes,
                  svg_number(how.x_px), svg_number(how.y_px), svg_number(how.size_px), how.fallback,
                  anchor_attribute(how.anchor), escape_markup(text));
}

void SvgCanvas::grid_line(double x1_px, double y1_px, double x2_px, double y2_px, bool is_axis) {
  behind_ +=
      fmt::format("<line class=\"{}\" stroke=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n",
                  is_axis ? "em-axis" : "em-grid", is_axis ? kLightTheme.muted : kLightTheme.line,
                  svg_number(x1_px), svg_number(y1_px), svg_number(x2_px), svg_number(y2_px));
}

void SvgCanvas::polyline(std::string_view points, std::size_t series) {
  constexpr std::array<std::string_view, kSeriesMax> kDashes = {"",         "7 4", "2 4",
                                                                "10 4 2 4", "4 3", "12 5"};
  const std::string_view dash = kDashes.at(series);
  const std::string dashes =
      dash.empty() ? std::string() : fmt::format(" stroke-dasharray=\"{}\"", dash);
  before_ += fmt::format(
      "<polyline class=\"em-line em-l{}\" fill=\"none\" stroke=\"{}\"{} points=\"{}\"/>\n", series,
      kLightTheme.series.at(series), dashes, points);
}

void SvgCanvas::marker(double x_px, double y_px, std::size_t series, std::string_view tooltip) {
  before_ += fmt::format("<path class=\"em-mark em-s{}\" fill=\"{}\" d=\"{}\">{}</path>\n", series,
                         kLightTheme.series.at(series), marker_path(x_px, y_px, series),
                         tooltip_element(tooltip));
}

void SvgCanvas::spot(double x_px, double y_px, std::string_view tooltip) {
  before_ += fmt::format(
      "<circle fill=\"none\" pointer-events=\"all\" cx=\"{}\" cy=\"{}\" r=\"7\">{}</circle>\n",
      svg_number(x_px), svg_number(y_px), tooltip_element(tooltip));
}

void SvgCanvas::guide_line(double x_px, double top_px, double bottom_px) {
  behind_ += fmt::format(
      "<line class=\"em-axis\" stroke=\"{}\" stroke-dasharray=\"4 4\" x1=\"{}\" y1=\"{}\" "
      "x2=\"{}\" "
      "y2=\"{}\"/>\n",
      kLightTheme.muted, svg_number(x_px), svg_number(top_px), svg_number(x_px),
      svg_number(bottom_px));
}

std::string SvgCanvas::finish(const SvgFrame& frame) const {
  const std::string width = svg_number(frame.width_px);
  const std::string height = svg_number(frame.height_px);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"em-chart\" role=\"img\" viewBox=\"0 0 {} "
      "{}\" width=\"100%\">\n<title>{}</title>\n<desc>{}</desc>\n",
      width, height, escape_markup(frame.title), escape_markup(frame.description));
  if (frame.standalone) {
    svg += fmt::format("<style>\n{}{}</style>\n", theme_css(".em-chart"), chart_css());
    svg +=
        fmt::format("<rect class=\"em-card\" fill=\"{}\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n",
                    kLightTheme.card, width, height);
  }
  return svg + behind_ + before_ + "</svg>\n";
}

}  // namespace emblema
