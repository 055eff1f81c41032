// Writes the SVG elements that charts are made of, in layers: what is behind, then what is before.
//
// Every element carries a theme class and, for viewers without CSS variables, the light theme's
// colour as a plain attribute. Text is cleaned and escaped here. A plain value; not synchronised.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace emblema {

enum class Anchor : std::uint8_t { kStart, kMiddle, kEnd };

struct SvgText {
  double x_px = 0;
  double y_px = 0;  // of the baseline
  double size_px = 13;
  Anchor anchor = Anchor::kStart;
  std::string_view classes = "";          // "em-muted em-bold"
  std::string_view fallback = "#1b2430";  // fill where CSS variables are unknown
};

struct SvgRect {
  double x_px = 0;
  double y_px = 0;
  double width_px = 0;
  double height_px = 0;
};

struct SvgFrame {
  double width_px = 0;
  double height_px = 0;
  std::string_view title;        // accessible name
  std::string_view description;  // accessible description: the data in words
  bool standalone = true;        // carries its own style and a background
};

// "12.5": at most two decimals, no sign on zero.
std::string svg_number(double value);

class SvgCanvas {
 public:
  // A bar in series colour `series`, with a tooltip. Drawn as it is, also with no width.
  void bar(const SvgRect& rect, std::size_t series, std::string_view tooltip);
  void swatch(double x_px, double y_px, std::size_t series);
  void text(const SvgText& how, std::string_view text);
  void grid_line(double x1_px, double y1_px, double x2_px, double y2_px, bool is_axis);
  // `points` is "x,y x,y"; series lines differ by dash pattern too.
  void polyline(std::string_view points, std::size_t series);
  // Markers differ in shape: colour never carries a series alone.
  void marker(double x_px, double y_px, std::size_t series, std::string_view tooltip);
  // Nothing to see: where the tooltip of a point without a marker appears.
  void spot(double x_px, double y_px, std::string_view tooltip);
  void guide_line(double x_px, double top_px, double bottom_px);

  // The document; ends with a line break.
  std::string finish(const SvgFrame& frame) const;

 private:
  std::string behind_;
  std::string before_;
};

}  // namespace emblema
