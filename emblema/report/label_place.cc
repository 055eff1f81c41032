#include "emblema/report/label_place.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace emblema {
namespace {

constexpr double kAscentPx = 10.5;  // of a label's text over its baseline, and below it
constexpr double kDescentPx = 3.5;

PlotBox box_of(const LabelPlacer::Place& place, double width_px) {
  double left = place.x_px;
  if (place.anchor == Anchor::kMiddle) left -= width_px / 2;
  if (place.anchor == Anchor::kEnd) left -= width_px;
  return {left, place.y_px - kAscentPx, left + width_px, place.y_px + kDescentPx};
}

bool overlap(const PlotBox& a, const PlotBox& b) {
  return a.left_px < b.right_px && b.left_px < a.right_px && a.top_px < b.bottom_px &&
         b.top_px < a.bottom_px;
}

double outside_px(const PlotBox& box, const PlotBox& room) {
  return std::max(0.0, room.left_px - box.left_px) + std::max(0.0, box.right_px - room.right_px) +
         std::max(0.0, room.top_px - box.top_px) + std::max(0.0, box.bottom_px - room.bottom_px);
}

// Around the point, the nearest first; then further below and above, where a row of points leaves
// no room beside them.
std::vector<LabelPlacer::Place> places_around(double x, double y) {
  std::vector<LabelPlacer::Place> places = {
      {x + 9, y + 4, Anchor::kStart}, {x + 7, y + 17, Anchor::kStart}, {x, y + 20, Anchor::kMiddle},
      {x - 9, y + 4, Anchor::kEnd},   {x, y - 10, Anchor::kMiddle},    {x - 7, y - 8, Anchor::kEnd},
      {x + 7, y - 8, Anchor::kStart}, {x - 7, y + 17, Anchor::kEnd},
  };
  for (int row = 1; row <= 6; ++row) {
    const double away = 15.0 * row;
    places.push_back({x, y + 20 + away, Anchor::kMiddle});
    places.push_back({x, y - 10 - away, Anchor::kMiddle});
    places.push_back({x + 7, y + 17 + away, Anchor::kStart});
    places.push_back({x - 7, y - 8 - away, Anchor::kEnd});
  }
  return places;
}

}  // namespace

void LabelPlacer::keep_off(double x1_px, double y1_px, double x2_px, double y2_px) {
  lines_.push_back({x1_px, y1_px, x2_px, y2_px});
}

// Another label under it makes both unreadable; a line does not.
double LabelPlacer::cost_of(const PlotBox& box) const {
  double cost = 1000 * outside_px(box, room_);
  for (const PlotBox& other : taken_) cost += overlap(box, other) ? 1000 : 0;
  for (const Segment& line : lines_) {
    // Clips the line to the box (Liang and Barsky, 1984): what is left crosses it.
    double enter = 0;
    double leave = 1;
    const double dx = line.x2_px - line.x1_px;
    const double dy = line.y2_px - line.y1_px;
    const std::array<std::pair<double, double>, 4> sides = {{{-dx, line.x1_px - box.left_px},
                                                             {dx, box.right_px - line.x1_px},
                                                             {-dy, line.y1_px - box.top_px},
                                                             {dy, box.bottom_px - line.y1_px}}};
    for (const auto& [towards, room] : sides) {
      if (towards == 0 && room < 0) leave = -1;
      if (towards < 0) enter = std::max(enter, room / towards);
      if (towards > 0) leave = std::min(leave, room / towards);
    }
    cost += enter <= leave ? 30 : 0;
  }
  return cost;
}

LabelPlacer::Place LabelPlacer::place(double x_px, double y_px, double width_px, LabelSide side) {
  Place best;
  double least = std::numeric_limits<double>::infinity();
  double order = 0;
  for (const Place& candidate : places_around(x_px, y_px)) {
    const Anchor wanted = side == LabelSide::kBehind ? Anchor::kStart : Anchor::kEnd;
    const double elsewhere = candidate.anchor == wanted ? 0 : 15;
    const double cost = cost_of(box_of(candidate, width_px)) + order + elsewhere;
    order += 1;
    if (cost >= least) continue;
    least = cost;
    best = candidate;
  }
  taken_.push_back(box_of(best, width_px));
  return best;
}

}  // namespace emblema
