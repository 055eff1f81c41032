// Where the labels of points stand so that they cover neither one another nor what is drawn.
//
// Greedy: each label takes the best of a few places around its point, in the order of the calls.
// Not synchronised.
#pragma once

#include <cstdint>
#include <vector>

#include "emblema/report/svg.h"

namespace emblema {

struct PlotBox {
  double left_px = 0;
  double top_px = 0;
  double right_px = 0;
  double bottom_px = 0;
};

// Where a label stands rather: right of its point, or left of it.
enum class LabelSide : std::uint8_t { kBehind, kBefore };

class LabelPlacer {
 public:
  // Labels stay inside `room` where they fit at all. Before the first label.
  void stay_in(const PlotBox& room) { room_ = room; }
  // What no label should cover: a marker, a value that is printed already.
  void keep_clear(const PlotBox& box) { taken_.push_back(box); }
  // A line that a label should rather not cross.
  void keep_off(double x1_px, double y1_px, double x2_px, double y2_px);

  struct Place {
    double x_px = 0;
    double y_px = 0;  // of the baseline
    Anchor anchor = Anchor::kStart;
  };

  // The place of a label `width_px` wide for the point at (x, y); it is taken from now on.
  Place place(double x_px, double y_px, double width_px, LabelSide side = LabelSide::kBehind);

 private:
  struct Segment {
    double x1_px;
    double y1_px;
    double x2_px;
    double y2_px;
  };

  double cost_of(const PlotBox& box) const;

  PlotBox room_;
  std::vector<PlotBox> taken_;
  std::vector<Segment> lines_;
};

}  // namespace emblema
