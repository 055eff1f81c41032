#include "emblema/report/chart_frame.h"

#include <fmt/format.h>

#include "emblema/contract/check.h"
#include "emblema/report/text.h"
#include "emblema/report/theme.h"

namespace emblema {
namespace {

constexpr double kTitlePx = 16;

double draw_lines(SvgCanvas& canvas, const SvgText& how, double line_px, std::string_view text,
                  double width_px_max) {
  SvgText line = how;
  for (const std::string& words : wrap_text(clean_text(text), how.size_px, width_px_max)) {
    line.y_px += line_px;
    canvas.text(line, fit_text(words, how.size_px, width_px_max));
  }
  return line.y_px;
}

void draw_key(SvgCanvas& canvas, LegendKey key, double x_px, double y_px, std::size_t series) {
  const double middle = y_px - 4.5;
  if (key == LegendKey::kBar) return canvas.swatch(x_px, y_px - 11, series);
  if (key == LegendKey::kPoints) return canvas.marker(x_px + 6, middle, series, "");
  canvas.polyline(
      fmt::format("{0},{2} {1},{2}", svg_number(x_px), svg_number(x_px + 26), svg_number(middle)),
      series);
  canvas.marker(x_px + 13, middle, series, "");
}

double draw_legend(SvgCanvas& canvas, const ChartHead& head, const ChartEdges& edges, double y_px) {
  double x = edges.left_px;
  double y = y_px + kLinePx;
  for (std::size_t i = 0; i < head.legend.size(); ++i) {
    const LegendKey key = head.legend[i].key;
    const double key_px = key == LegendKey::kLine ? 32 : 18;
    const double room = edges.right_px - edges.left_px - key_px;
    const std::string name = fit_text(clean_text(head.legend[i].name), kLabelPx, room);
    const double width = key_px + width_px(name, kLabelPx);
    if (x > edges.left_px && x + width > edges.right_px) {
      x = edges.left_px;
      y += kLinePx + 4;
    }
    draw_key(canvas, key, x, y, i);
    canvas.text({.x_px = x + key_px, .y_px = y, .size_px = kLabelPx}, name);
    x += width + 16;
  }
  return y + 6;
}

}  // namespace

ChartEdges chart_edges(const SvgOptions& options) {
  const double margin = options.standalone ? 16 : 0;
  return {.left_px = margin, .right_px = options.width_px - margin, .margin_px = margin};
}

double draw_head(SvgCanvas& canvas, const ChartHead& head, const SvgOptions& options) {
  const ChartEdges edges = chart_edges(options);
  const double width = edges.right_px - edges.left_px;
  double y = edges.margin_px;
  if (options.standalone && !head.title.empty()) {
    y = draw_lines(canvas,
                   {.x_px = edges.left_px, .y_px = y, .size_px = kTitlePx, .classes = "em-bold"},
                   20, head.title, width);
  }
  if (options.standalone && !head.note.empty()) {
    y = draw_lines(canvas,
                   {.x_px = edges.left_px,
                    .y_px = y + 2,
                    .size_px = kLabelPx,
                    .classes = "em-muted",
                    .fallback = kLightTheme.muted},
                   kLinePx, head.note, width);
  }
  if (options.standalone && y > edges.margin_px) y += 6;
  if (head.legend.size() > 1) y = draw_legend(canvas, head, edges, y);
  return y + 8;
}

std::string draw_no_data(const ChartHead& head, const SvgOptions& options) {
  SvgCanvas canvas;
  const ChartEdges edges = chart_edges(options);
  const double y = draw_head(canvas, {head.title, head.note}, options) + kLinePx;
  canvas.text({.x_px = edges.left_px,
               .y_px = y,
               .size_px = kLabelPx,
               .classes = "em-muted",
               .fallback = kLightTheme.muted},
              "No data");
  return canvas.finish({.width_px = options.width_px,
                        .height_px = y + 8 + edges.margin_px,
                        .title = head.title,
                        .description = "No data",
                        .standalone = options.standalone});
}

void check_options(const SvgOptions& options) {
  EMBLEMA_CHECK(options.width_px >= 280 && options.width_px <= 2000,
                "a chart is 280 to 2000 px wide");
}

Status check_series_count(std::string_view title, std::size_t series_count) {
  if (series_count <= kSeriesMax) return {};
  return fail(ErrorCode::Invalid, fmt::format("chart '{}': series_count is {}; allowed: 0 to {}",
                                              clean_text(title), series_count, kSeriesMax));
}

}  // namespace emblema
