#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "emblema/report/chart.h"
#include "emblema/report/chart_frame.h"
#include "emblema/report/text.h"
#include "emblema/report/theme.h"

namespace emblema {
namespace {

constexpr std::size_t kCategoriesMax = 200;
constexpr std::array<std::string_view, kSeriesMax> kOnSeries = {"em-on0", "em-on1", "em-on2",
                                                                "em-on3", "em-on4", "em-on5"};

class BarDrawing {
 public:
  BarDrawing(const BarChartData& data, const SvgOptions& options)
      : data_(data),
        options_(options),
        edges_(chart_edges(options)),
        is_stacked_(data.arrangement == BarArrangement::kStacked) {}

  std::string draw() {
    ChartHead head{data_.title, data_.note};
    for (const BarSeries& series : data_.series) head.legend.push_back({series.name});
    if (data_.categories.empty() || data_.series.empty()) return draw_no_data(head, options_);
    top_px_ = draw_head(canvas_, head, options_);
    double bottom = 0;
    if (const auto columns = plan_columns()) {
      bottom = draw_columns(*columns);
    } else {
      bottom = draw_rows();
    }
    return canvas_.finish({.width_px = options_.width_px,
                           .height_px = bottom + edges_.margin_px,
                           .title = data_.title,
                           .description = describe(),
                           .standalone = options_.standalone});
  }

 private:
  struct Columns {
    Axis axis;
    double left_px = 0;
    double slot_px = 0;   // of one category
    double group_px = 0;  // of its bars together
    double bar_px = 0;
    double plot_px = 0;  // height
  };

  double total(std::size_t category) const {
    double sum = 0;
    for (const BarSeries& series : data_.series) sum += series.values[category];
    return sum;
  }

  double largest() const {
    double value = 0;
    for (std::size_t category = 0; category < data_.categories.size(); ++category) {
      if (is_stacked_) value = std::max(value, total(category));
      for (const BarSeries& series : data_.series) value = std::max(value, series.values[category]);
    }
    return value;
  }

  std::string shown(double value) const { return format_value(value, data_.unit); }

  double widest_value_px() const {
    double width = 0;
    for (std::size_t category = 0; category < data_.categories.size(); ++category) {
      if (is_stacked_) width = std::max(width, width_px(shown(total(category)), kValuePx));
      for (const BarSeries& series : data_.series) {
        width = std::max(width, width_px(shown(series.values[category]), kValuePx));
      }
    }
    return width;
  }

  std::string tooltip(std::size_t category, const BarSeries& series) const {
    const double value = series.values[category];
    const std::string exact = format_exact(value, data_.unit);
    const std::string name = data_.categories[category] + ", " + series.name;
    if (data_.unit != Unit::kBytes) return fmt::format("{}: {}", name, exact);
    return fmt::format("{}: {} ({})", name, shown(value), exact);
  }

  std::string describe() const {
    std::string text = is_stacked_ ? "Stacked bars. " : "Bars. ";
    for (std::size_t category = 0; category < data_.categories.size(); ++category) {
      text += data_.categories[category] + ": ";
      for (std::size_t i = 0; i < data_.series.size(); ++i) {
        text += fmt::format("{}{} {}", i == 0 ? "" : ", ", data_.series[i].name,
                            shown(data_.series[i].values[category]));
      }
      if (is_stacked_) text += ", together " + shown(total(category));
      text += category + 1 < data_.categories.size() ? "; " : ".";
    }
    return text;
  }

  void value_text(double x_px, double y_px, Anchor anchor, const std::string& text, bool bold) {
    canvas_.text({.x_px = x_px,
                  .y_px = y_px,
                  .size_px = kValuePx,
                  .anchor = anchor,
                  .classes = bold ? "em-halo em-bold" : "em-halo"},
                 text);
  }

  void inside_text(double x_px, double y_px, std::size_t series, const std::string& text) {
    canvas_.text({.x_px = x_px,
                  .y_px = y_px,
                  .size_px = kValuePx,
                  .anchor = Anchor::kMiddle,
                  .classes = kOnSeries.at(series),
                  .fallback = kLightTheme.on_series.at(series)},
                 text);
  }

  // Rows: horizontal bars, one group of them per category.

  double draw_rows() {
    double labels = 0;
    for (const std::string& category : data_.categories) {
      labels = std::max(labels, width_px(clean_text(category), kLabelPx) * kBoldWidth + 14);
    }
    labels_beside_ = options_.width_px >= 560 && labels <= 0.3 * options_.width_px;
    left_px_ = edges_.left_px + (labels_beside_ ? labels : 0);
    const double room = edges_.right_px - left_px_;
    const auto ticks_max = static_cast<std::size_t>(std::clamp(room / 76, 3.0, 6.0));
    const Axis axis = linear_axis(largest(), data_.unit, ticks_max);
    plot_width_px_ = plot_width(axis, room);
    double y = top_px_;
    for (std::size_t category = 0; category < data_.categories.size(); ++category) {
      if (category > 0) y += 14;
      if (!labels_beside_) y = draw_label_above(category, y);
      y = is_stacked_ ? draw_stacked_row(axis, category, y) : draw_grouped_row(axis, category, y);
    }
    return draw_value_axis(axis, y + 8);
  }

  // As wide as the value behind each bar, and half of the last tick's label, let it be.
  double plot_width(const Axis& axis, double room_px) const {
    double width = room_px - width_px(axis.label(axis.high()), kValuePx) / 2;
    const auto keep_room = [&](double value) {
      const double text = width_px(shown(value), kValuePx) * kBoldWidth + 8;
      if (value > 0) width = std::min(width, (room_px - text) / axis.position(value));
    };
    for (std::size_t category = 0; category < data_.categories.size(); ++category) {
      if (is_stacked_) {
        keep_room(total(category));
        continue;
      }
      for (const BarSeries& series : data_.series) keep_room(series.values[category]);
    }
    return width;
  }

  double draw_label_above(std::size_t category, double y_px) {
    const double room = edges_.right_px - edges_.left_px;
    double y = y_px;
    for (const std::string& line :
         wrap_text(clean_text(data_.categories[category]), kLabelPx, room)) {
      y += kLinePx;
      canvas_.text({.x_px = edges_.left_px,
                    .y_px = y - 4,
                    .size_px = kLabelPx,
                    .classes = "em-halo em-bold"},
                   fit_text(line, kLabelPx, room));
    }
    return y + 1;
  }

  void draw_label_beside(std::size_t category, double middle_px) {
    canvas_.text({.x_px = left_px_ - 12,
                  .y_px = middle_px + 4.5,
                  .size_px = kLabelPx,
                  .anchor = Anchor::kEnd,
                  .classes = "em-bold"},
                 clean_text(data_.categories[category]));
  }

  double draw_grouped_row(const Axis& axis, std::size_t category, double y_px) {
    constexpr double kBarPx = 18;
    constexpr double kGapPx = 4;
    double y = y_px;
    for (std::size_t i = 0; i < data_.series.size(); ++i) {
      const double value = data_.series[i].values[category];
      const double width = axis.position(value) * plot_width_px_;
      canvas_.bar({left_px_, y, width, kBarPx}, i, tooltip(category, data_.series[i]));
      value_text(left_px_ + width + 6, y + 13.5, Anchor::kStart, shown(value), false);
      y += kBarPx + kGapPx;
    }
    const double bottom = y - kGapPx;
    if (labels_beside_) draw_label_beside(category, (y_px + bottom) / 2);
    return bottom;
  }

  double draw_stacked_row(const Axis& axis, std::size_t category, double y_px) {
    constexpr double kBarPx = 26;
    double x = left_px_;
    bool all_labelled = true;
    for (std::size_t i = 0; i < data_.series.size(); ++i) {
      const double value = data_.series[i].values[category];
      const double width = axis.position(value) * plot_width_px_;
      canvas_.bar({x, y_px, width, kBarPx}, i, tooltip(category, data_.series[i]));
      if (width_px(shown(value), kValuePx) + 6 <= width) {
        inside_text(x + width / 2, y_px + 17.5, i, shown(value));
      } else if (value > 0) {
        all_labelled = false;
      }
      x += width;
    }
    value_text(x + 6, y_px + 17.5, Anchor::kStart, shown(total(category)), true);
    if (labels_beside_) draw_label_beside(category, y_px + kBarPx / 2);
    if (all_labelled || data_.series.size() == 1) return y_px + kBarPx;
    return draw_parts_below(category, y_px + kBarPx);
  }

  // Where a part is too thin for its value, a line under the bar says all of them.
  double draw_parts_below(std::size_t category, double y_px) {
    const double room = edges_.right_px - left_px_;
    double y = y_px + 1;
    std::string line;
    const auto flush = [&] {
      y += kLinePx - 1;
      canvas_.text({.x_px = left_px_,
                    .y_px = y,
                    .size_px = kValuePx,
                    .classes = "em-halo em-muted",
                    .fallback = kLightTheme.muted},
                   fit_text(line, kValuePx, room));
      line.clear();
    };
    for (const BarSeries& series : data_.series) {
      const std::string part =
          fmt::format("{} {}", clean_text(series.name), shown(series.values[category]));
      const std::string longer = line.empty() ? part : fmt::format("{} · {}", line, part);
      if (!line.empty() && width_px(longer, kValuePx) > room) {
        flush();
        line = part;
      } else {
        line = longer;
      }
    }
    flush();
    return y + 2;
  }

  double draw_value_axis(const Axis& axis, double y_px) {
    for (std::size_t i = 0; i < axis.ticks.size(); ++i) {
      const double x = left_px_ + axis.position(axis.ticks[i]) * plot_width_px_;
      canvas_.grid_line(x, top_px_, x, y_px, i == 0);
      const bool at_edge = i == 0 && !labels_beside_;
      canvas_.text({.x_px = x,
                    .y_px = y_px + 16,
                    .size_px = kValuePx,
                    .anchor = at_edge ? Anchor::kStart : Anchor::kMiddle,
                    .classes = "em-muted",
                    .fallback = kLightTheme.muted},
                   axis.label(axis.ticks[i]));
    }
    return y_px + 22;
  }

  // Columns: vertical bars, only if everything that must be read fits.

  std::optional<Columns> plan_columns() const {
    if (data_.direction != BarDirection::kVertical) return std::nullopt;
    Columns plan{.axis = linear_axis(largest(), data_.unit, 6)};
    double ticks = 0;
    for (const double tick : plan.axis.ticks) {
      ticks = std::max(ticks, width_px(plan.axis.label(tick), kValuePx));
    }
    plan.left_px = edges_.left_px + ticks + 10;
    plan.plot_px = options_.width_px >= 560 ? 260 : 200;
    plan.slot_px = (edges_.right_px - plan.left_px) / static_cast<double>(data_.categories.size());
    const double side_by_side = is_stacked_ ? 1 : static_cast<double>(data_.series.size());
    plan.bar_px = std::min(is_stacked_ ? 96.0 : 72.0, 0.84 * plan.slot_px / side_by_side);
    plan.group_px = plan.bar_px * side_by_side;
    if (widest_value_px() + 4 > (is_stacked_ ? plan.slot_px : plan.bar_px)) return std::nullopt;
    for (const std::string& category : data_.categories) {
      for (const std::string& line : wrap_text(clean_text(category), kLabelPx, plan.slot_px - 8)) {
        if (width_px(line, kLabelPx) > plan.slot_px - 8) return std::nullopt;
      }
    }
    if (is_stacked_ && !parts_fit(plan)) return std::nullopt;
    return plan;
  }

  bool parts_fit(const Columns& plan) const {
    for (const BarSeries& series : data_.series) {
      for (const double value : series.values) {
        if (value == 0) continue;
        if (plan.axis.position(value) * plan.plot_px < 16) return false;
        if (width_px(shown(value), kValuePx) + 4 > plan.bar_px) return false;
      }
    }
    return true;
  }

  double draw_columns(const Columns& plan) {
    const double top = top_px_ + kLinePx;  // room for the value over the highest bar
    const double bottom = top + plan.plot_px;
    for (std::size_t i = 0; i < plan.axis.ticks.size(); ++i) {
      const double y = bottom - plan.axis.position(plan.axis.ticks[i]) * plan.plot_px;
      canvas_.grid_line(plan.left_px, y, edges_.right_px, y, i == 0);
      canvas_.text({.x_px = plan.left_px - 8,
                    .y_px = y + 4,
                    .size_px = kValuePx,
                    .anchor = Anchor::kEnd,
                    .classes = "em-muted",
                    .fallback = kLightTheme.muted},
                   plan.axis.label(plan.axis.ticks[i]));
    }
    double lowest = bottom;
    for (std::size_t category = 0; category < data_.categories.size(); ++category) {
      const double slot = plan.left_px + plan.slot_px * static_cast<double>(category);
      draw_column_group(plan, category, slot + (plan.slot_px - plan.group_px) / 2, bottom);
      double y = bottom + 2;
      for (const std::string& line :
           wrap_text(clean_text(data_.categories[category]), kLabelPx, plan.slot_px - 8)) {
        y += kLinePx;
        canvas_.text({.x_px = slot + plan.slot_px / 2,
                      .y_px = y,
                      .size_px = kLabelPx,
                      .anchor = Anchor::kMiddle,
                      .classes = "em-bold"},
                     line);
      }
      lowest = std::max(lowest, y);
    }
    return lowest + 8;
  }

  void draw_column_group(const Columns& plan, std::size_t category, double x_px, double bottom_px) {
    double x = x_px;
    double y = bottom_px;
    for (std::size_t i = 0; i < data_.series.size(); ++i) {
      const double value = data_.series[i].values[category];
      const double height = plan.axis.position(value) * plan.plot_px;
      y -= height;
      canvas_.bar({x + 1, y, plan.bar_px - 2, height}, i, tooltip(category, data_.series[i]));
      if (is_stacked_) {
        if (value > 0) inside_text(x + plan.bar_px / 2, y + height / 2 + 4.5, i, shown(value));
        continue;
      }
      value_text(x + plan.bar_px / 2, y - 5, Anchor::kMiddle, shown(value), false);
      x += plan.bar_px;
      y = bottom_px;
    }
    if (is_stacked_) {
      value_text(x + plan.bar_px / 2, y - 5, Anchor::kMiddle, shown(total(category)), true);
    }
  }

  const BarChartData& data_;
  const SvgOptions& options_;
  ChartEdges edges_;
  bool is_stacked_;
  SvgCanvas canvas_;
  double top_px_ = 0;
  double left_px_ = 0;
  double plot_width_px_ = 0;
  bool labels_beside_ = false;
};

Status check_values(const BarChartData& data) {
  for (const BarSeries& series : data.series) {
    const std::string name = clean_text(series.name);
    if (series.values.size() != data.categories.size()) {
      return fail(
          ErrorCode::Invalid,
          fmt::format("chart '{}': series '{}' has {} values; allowed: one for each of the "
                      "{} categories",
                      clean_text(data.title), name, series.values.size(), data.categories.size()));
    }
    for (std::size_t i = 0; i < series.values.size(); ++i) {
      const std::string what = fmt::format("chart '{}': '{}' of '{}'", clean_text(data.title), name,
                                           clean_text(data.categories[i]));
      if (Status checked = check_value(series.values[i], what); !checked) return checked;
    }
  }
  return {};
}

Status check_stacks(const BarChartData& data) {
  for (std::size_t i = 0; i < data.categories.size(); ++i) {
    double sum = 0;
    for (const BarSeries& series : data.series) sum += series.values[i];
    const std::string what = fmt::format("chart '{}': the sum of '{}'", clean_text(data.title),
                                         clean_text(data.categories[i]));
    if (Status checked = check_value(sum, what); !checked) return checked;
  }
  return {};
}

}  // namespace

Result<BarChart> BarChart::of(BarChartData data) {
  if (Status checked = check_series_count(data.title, data.series.size()); !checked) {
    return propagate(checked);
  }
  if (data.categories.size() > kCategoriesMax) {
    return fail(ErrorCode::Invalid,
                fmt::format("chart '{}': category_count is {}; allowed: 0 to {}",
                            clean_text(data.title), data.categories.size(), kCategoriesMax));
  }
  if (Status checked = check_values(data); !checked) return propagate(checked);
  if (data.arrangement == BarArrangement::kStacked) {
    if (Status checked = check_stacks(data); !checked) return propagate(checked);
  }
  return BarChart(std::move(data));
}

std::string BarChart::to_svg(const SvgOptions& options) const {
  check_options(options);
  return BarDrawing(data_, options).draw();
}

}  // namespace emblema
