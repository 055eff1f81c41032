#include <algorithm>

#include <fmt/format.h>

#include "emblema/report/chart.h"
#include "emblema/report/chart_frame.h"
#include "emblema/report/label_place.h"
#include "emblema/report/text.h"
#include "emblema/report/theme.h"

namespace emblema {
namespace {

constexpr std::size_t kPointsMax = 1000;
constexpr std::size_t kGuidesMax = 6;

class LineDrawing {
 public:
  LineDrawing(const LineChartData& data, const SvgOptions& options)
      : data_(data), options_(options), edges_(chart_edges(options)) {}

  std::string draw() {
    ChartHead head{data_.title, data_.note};
    for (const LineSeries& series : data_.series) {
      const bool has_line = series.style != LineStyle::kPoints;
      head.legend.push_back({series.name, has_line ? LegendKey::kLine : LegendKey::kPoints});
      for (const LinePoint& point : series.points) points_.push_back(point);
    }
    if (points_.empty()) return draw_no_data(head, options_);
    top_px_ = draw_head(canvas_, head, options_) + 8;
    if (!data_.y_label.empty()) top_px_ = draw_y_label(top_px_);
    if (!data_.guides.empty()) top_px_ += kLinePx;
    place();
    draw_axes();
    for (const LineGuide& guide : data_.guides) draw_guide(guide);
    for (std::size_t i = 0; i < data_.series.size(); ++i) draw_series(i);
    draw_last_values();
    draw_labels();
    double bottom = bottom_px_ + 22;
    if (!data_.x_label.empty()) bottom = draw_x_label(bottom);
    return canvas_.finish({.width_px = options_.width_px,
                           .height_px = bottom + 2 + edges_.margin_px,
                           .title = data_.title,
                           .description = describe(),
                           .standalone = options_.standalone});
  }

 private:
  static Axis axis_of(Scale scale, Unit unit, double smallest, double largest,
                      std::size_t ticks_max) {
    if (scale == Scale::kLog2) return log2_axis(smallest, largest, unit, ticks_max);
    if (scale == Scale::kLog10) return log10_axis(smallest, largest, unit, ticks_max);
    return linear_axis(largest, unit, ticks_max);
  }

  // Points have no end.
  static bool ends_with_value(const LineSeries& series) {
    return series.shows_last && !series.points.empty() && series.style != LineStyle::kPoints;
  }

  void place() {
    const auto [y_min, y_max] = std::ranges::minmax(points_, {}, &LinePoint::y);
    auto [x_min, x_max] = std::ranges::minmax(points_, {}, &LinePoint::x);
    for (const LineGuide& guide : data_.guides) {
      x_min.x = std::min(x_min.x, guide.x);
      x_max.x = std::max(x_max.x, guide.x);
    }
    y_axis_ = axis_of(data_.y_scale, data_.y_unit, y_min.y, y_max.y, 7);
    double ticks = 0;
    for (const double tick : y_axis_.ticks) {
      ticks = std::max(ticks, width_px(y_axis_.label(tick), kValuePx));
    }
    double values = 0;
    for (const LineSeries& series : data_.series) {
      if (!ends_with_value(series)) continue;
      const std::string last = format_value(series.points.back().y, data_.y_unit);
      values = std::max(values, width_px(last, kValuePx));
    }
    left_px_ = edges_.left_px + ticks + 10;
    right_px_ = edges_.right_px - values * kBoldWidth - 14;
    bottom_px_ = top_px_ + (options_.width_px >= 560 ? 300 : 220);
    for (std::size_t ticks_max = 9; ticks_max >= 3; --ticks_max) {
      x_axis_ = axis_of(data_.x_scale, data_.x_unit, x_min.x, x_max.x, ticks_max);
      if (ticks_fit()) break;
    }
    const double half = width_px(x_axis_.label(x_axis_.high()), kValuePx) / 2;
    right_px_ = std::min(right_px_, edges_.right_px - half);
  }

  // Whether the labels of the x axis stay apart.
  bool ticks_fit() const {
    double widest = 0;
    for (const double tick : x_axis_.ticks) {
      widest = std::max(widest, width_px(x_axis_.label(tick), kValuePx));
    }
    const auto steps = static_cast<double>(x_axis_.ticks.size() - 1);
    return (right_px_ - left_px_) / steps >= widest + 14;
  }

  double x_px(double x) const { return left_px_ + x_axis_.position(x) * (right_px_ - left_px_); }
  double y_px(double y) const { return bottom_px_ - y_axis_.position(y) * (bottom_px_ - top_px_); }

  void tick_text(double x, double y, Anchor anchor, std::string_view text) {
    canvas_.text({.x_px = x,
                  .y_px = y,
                  .size_px = kValuePx,
                  .anchor = anchor,
                  .classes = "em-muted",
                  .fallback = kLightTheme.muted},
                 text);
  }

  void draw_axes() {
    for (const double tick : y_axis_.ticks) {
      const double y = y_px(tick);
      canvas_.grid_line(left_px_, y, right_px_, y, tick == y_axis_.low());
      tick_text(left_px_ - 8, y + 4, Anchor::kEnd, y_axis_.label(tick));
    }
    for (const double tick : x_axis_.ticks) {
      const double x = x_px(tick);
      canvas_.grid_line(x, top_px_, x, bottom_px_, tick == x_axis_.low());
      tick_text(x, bottom_px_ + 18, Anchor::kMiddle, x_axis_.label(tick));
    }
  }

  double draw_x_label(double y) {
    tick_text((left_px_ + right_px_) / 2, y + kLinePx, Anchor::kMiddle,
              fit_text(clean_text(data_.x_label), kValuePx, edges_.right_px - edges_.left_px));
    return y + kLinePx + 4;
  }

  double draw_y_label(double y) {
    tick_text(edges_.left_px, y + 6, Anchor::kStart,
              fit_text(clean_text(data_.y_label), kValuePx, edges_.right_px - edges_.left_px));
    return y + kLinePx;
  }

  // Its label stands over the plot, kept inside the picture.
  void draw_guide(const LineGuide& guide) {
    const double x = x_px(guide.x);
    canvas_.guide_line(x, top_px_, bottom_px_);
    const double room = edges_.right_px - edges_.left_px;
    const std::string label = fit_text(clean_text(guide.label), kValuePx, room);
    const double half = width_px(label, kValuePx) / 2;
    const double middle = std::clamp(x, edges_.left_px + half, edges_.right_px - half);
    tick_text(middle, top_px_ - 6, Anchor::kMiddle, label);
  }

  std::string tooltip(const LineSeries& series, const LinePoint& point) const {
    const std::string name =
        point.label.empty() ? series.name : fmt::format("{}, {}", series.name, point.label);
    return fmt::format("{}, {}: {} ({})", name, format_value(point.x, data_.x_unit),
                       format_value(point.y, data_.y_unit), format_exact(point.y, data_.y_unit));
  }

  void draw_series(std::size_t index) {
    const LineSeries& series = data_.series[index];
    std::string path;
    for (const LinePoint& point : series.points) {
      if (!path.empty()) path += ' ';
      path += svg_number(x_px(point.x)) + "," + svg_number(y_px(point.y));
    }
    const bool has_line = series.style != LineStyle::kPoints && series.points.size() > 1;
    if (has_line) canvas_.polyline(path, index);
    for (const LinePoint& point : series.points) {
      const bool is_marked = series.style != LineStyle::kPlain || &point == &series.points.back();
      if (is_marked) {
        canvas_.marker(x_px(point.x), y_px(point.y), index, tooltip(series, point));
      } else {
        canvas_.spot(x_px(point.x), y_px(point.y), tooltip(series, point));
      }
    }
  }

  void draw_labels() {
    placer_.stay_in({left_px_, top_px_, edges_.right_px, bottom_px_});
    for (const LineSeries& series : data_.series) {
      for (std::size_t i = 0; i < series.points.size(); ++i) {
        const double x = x_px(series.points[i].x);
        const double y = y_px(series.points[i].y);
        if (series.style != LineStyle::kPlain) placer_.keep_clear({x - 6, y - 6, x + 6, y + 6});
        if (i == 0 || series.style == LineStyle::kPoints) continue;
        const LinePoint& before = series.points[i - 1];
        placer_.keep_off(x_px(before.x), y_px(before.y), x, y);
      }
    }
    // Points come first: lines have more room. Two series keep to different sides, where they can.
    for (const bool is_points_turn : {true, false}) {
      for (std::size_t i = 0; i < data_.series.size(); ++i) {
        const LineSeries& series = data_.series[i];
        if ((series.style == LineStyle::kPoints) != is_points_turn) continue;
        const LabelSide side = i % 2 == 0 ? LabelSide::kBefore : LabelSide::kBehind;
        for (const LinePoint& point : series.points) draw_label(point, side);
      }
    }
  }

  void draw_label(const LinePoint& point, LabelSide side) {
    if (point.label.empty()) return;
    const std::string label =
        fit_text(clean_text(point.label), kValuePx, edges_.right_px - left_px_);
    const double width = width_px(label, kValuePx) * kBoldWidth;
    const auto at = placer_.place(x_px(point.x), y_px(point.y), width, side);
    canvas_.text({.x_px = at.x_px,
                  .y_px = at.y_px,
                  .size_px = kValuePx,
                  .anchor = at.anchor,
                  .classes = "em-halo em-bold"},
                 label);
  }

  // The value at each line's end, pushed apart where lines end close together.
  void draw_last_values() {
    constexpr double kApartPx = 15;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < data_.series.size(); ++i) {
      if (ends_with_value(data_.series[i])) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return data_.series[a].points.back().y < data_.series[b].points.back().y;
    });
    double ceiling = bottom_px_ + kApartPx;
    for (const std::size_t i : order) {
      const LinePoint& last = data_.series[i].points.back();
      const double y = std::min(y_px(last.y) + 4, ceiling - kApartPx);
      ceiling = y;
      const double x = x_px(last.x) + 9;
      const std::string value = format_value(last.y, data_.y_unit);
      canvas_.text({.x_px = x, .y_px = y, .size_px = kValuePx, .classes = "em-halo em-bold"},
                   value);
      placer_.keep_clear({x, y - 11, x + width_px(value, kValuePx) * kBoldWidth, y + 4});
    }
  }

  std::string describe() const {
    std::string text = "Lines. ";
    for (const LineSeries& series : data_.series) {
      text += series.name + ":";
      for (const LinePoint& point : series.points) {
        // A curve is told by its ends.
        const bool is_end = &point == &series.points.front() || &point == &series.points.back();
        if (series.style == LineStyle::kPlain && !is_end && point.label.empty()) continue;
        const std::string name = point.label.empty() ? "" : fmt::format(" ({})", point.label);
        text += fmt::format(" {} at {}{},", format_value(point.y, data_.y_unit),
                            format_value(point.x, data_.x_unit), name);
      }
      text.back() = '.';
      text += ' ';
    }
    for (const LineGuide& guide : data_.guides) {
      text += fmt::format("{} at {}. ", guide.label, format_value(guide.x, data_.x_unit));
    }
    text.pop_back();
    return text;
  }

  const LineChartData& data_;
  const SvgOptions& options_;
  ChartEdges edges_;
  SvgCanvas canvas_;
  LabelPlacer placer_;
  std::vector<LinePoint> points_;
  Axis x_axis_;
  Axis y_axis_;
  double top_px_ = 0;
  double bottom_px_ = 0;
  double left_px_ = 0;
  double right_px_ = 0;
};

Status check_coordinate(double value, Scale scale, std::string_view what) {
  if (Status checked = check_value(value, what); !checked) return checked;
  if (scale == Scale::kLinear || value > 0) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("{} is {}; allowed on a logarithmic axis: above 0", what, value));
}

Status check_series(const LineChartData& data, const LineSeries& series) {
  const std::string name =
      fmt::format("chart '{}': series '{}'", clean_text(data.title), clean_text(series.name));
  if (series.points.size() > kPointsMax) {
    return fail(ErrorCode::Invalid, fmt::format("{}: point_count is {}; allowed: 0 to {}", name,
                                                series.points.size(), kPointsMax));
  }
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const LinePoint& point = series.points[i];
    const std::string at = fmt::format("{}: point {}", name, i);
    if (Status x = check_coordinate(point.x, data.x_scale, at + ": x"); !x) return x;
    if (Status y = check_coordinate(point.y, data.y_scale, at + ": y"); !y) return y;
    if (series.style == LineStyle::kPoints) continue;
    if (i > 0 && point.x <= series.points[i - 1].x) {
      return fail(ErrorCode::Invalid, fmt::format("{}: x is {}; allowed: above {}, that of the "
                                                  "point before",
                                                  at, point.x, series.points[i - 1].x));
    }
  }
  return {};
}

Status check_guides(const LineChartData& data) {
  const std::string chart = fmt::format("chart '{}'", clean_text(data.title));
  if (data.guides.size() > kGuidesMax) {
    return fail(ErrorCode::Invalid, fmt::format("{}: guide_count is {}; allowed: 0 to {}", chart,
                                                data.guides.size(), kGuidesMax));
  }
  for (const LineGuide& guide : data.guides) {
    const std::string what = fmt::format("{}: guide '{}': x", chart, clean_text(guide.label));
    if (Status x = check_coordinate(guide.x, data.x_scale, what); !x) return x;
  }
  return {};
}

}  // namespace

Result<LineChart> LineChart::of(LineChartData data) {
  if (Status checked = check_series_count(data.title, data.series.size()); !checked) {
    return propagate(checked);
  }
  for (const LineSeries& series : data.series) {
    if (Status checked = check_series(data, series); !checked) return propagate(checked);
  }
  if (Status checked = check_guides(data); !checked) return propagate(checked);
  return LineChart(std::move(data));
}

std::string LineChart::to_svg(const SvgOptions& options) const {
  check_options(options);
  return LineDrawing(data_, options).draw();
}

}  // namespace emblema
