// Curves without markers, points without lines, their labels, guides and logarithmic axes. What all
// charts have in common: chart_test.cc.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/report/chart.h"
#include "emblema/report/label_place.h"
#include "emblema/report/text.h"
#include "emblema/report/xml_testing.h"

namespace emblema {
namespace {

using testing::HasSubstr;

// A roof with a ridge at 256 FLOP/byte, and points that crowd under its slope and along its top.
LineChartData roofline() {
  LineChartData data{
      .title = "Roofline",
      .x_label = "FLOP per byte",
      .y_label = "FLOP/s",
      .y_unit = Unit::kFlopRate,
      .x_scale = Scale::kLog2,
      .y_scale = Scale::kLog10,
      .series = {{"roof", {{1, 4e12}, {256, 1024e12}, {1024, 1024e12}}}, {"tensor ranks", {}}},
      .guides = {{256, "ridge 256"}}};
  data.series[0].style = LineStyle::kPlain;
  data.series[0].shows_last = false;
  data.series[1].style = LineStyle::kPoints;
  for (const double x : {512.0, 470.0, 256.0, 128.0, 64.0, 32.0, 16.0, 8.0}) {
    data.series[1].points.push_back(
        {x, std::min(1024e12, 4e12 * x), "tp " + std::to_string(static_cast<int>(512 / x))});
  }
  return data;
}

XmlElement drawn(const LineChartData& data, double width) {
  const auto chart = LineChart::of(data);
  EXPECT_TRUE(chart) << chart.error().describe();
  return parse_xml(chart->to_svg({.width_px = width}));
}

PlotBox box_of(const XmlElement& text) {
  const double width = width_px(text.text, text.number("font-size"));
  const auto anchor = text.attributes.find("text-anchor");
  double left = text.number("x");
  if (anchor != text.attributes.end()) left -= anchor->second == "end" ? width : width / 2;
  return {left, text.number("y") - 10, left + width, text.number("y") + 3};
}

bool overlap(const PlotBox& a, const PlotBox& b) {
  return a.left_px < b.right_px && b.left_px < a.right_px && a.top_px < b.bottom_px &&
         b.top_px < a.bottom_px;
}

TEST(LineChart, LabelsOfCrowdedPointsDoNotOverlapOnAPhoneOrADesk) {
  for (const double width : {340.0, 860.0}) {
    const XmlElement svg = drawn(roofline(), width);
    const auto labels = svg.with_class("em-halo", "text");
    ASSERT_EQ(labels.size(), 8u) << "one for each point, and no value at the roof's end";
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const PlotBox box = box_of(*labels[i]);
      EXPECT_GE(box.left_px, 0);
      EXPECT_LE(box.right_px, width);
      for (std::size_t j = 0; j < i; ++j) {
        EXPECT_FALSE(overlap(box, box_of(*labels[j])))
            << labels[i]->text << " covers " << labels[j]->text << " at " << width << " px";
      }
    }
  }
}

TEST(LineChart, PointsHaveNoLineAndCurvesOneMarker) {
  LineChartData data{.series = {{"curve", {{1, 1}, {2, 2}, {3, 3}, {4, 4}}},
                                {"points", {{4, 1}, {2, 2}, {3, 1}}}}};
  data.series[0].style = LineStyle::kPlain;
  data.series[1].style = LineStyle::kPoints;
  const XmlElement svg = drawn(data, 500);
  EXPECT_EQ(svg.with_class("em-line", "polyline").size(), 2u);  // the curve's, and in the legend
  EXPECT_EQ(svg.with_class("em-s0", "path").size(), 2u);        // at its end, and in the legend
  EXPECT_EQ(svg.with_class("em-s1", "path").size(), 4u);
  ASSERT_EQ(svg.all("circle").size(), 3u) << "every other value can be asked for";
  EXPECT_EQ(svg.all("circle")[1]->all_text(), "curve, 2: 2 (2)");
}

TEST(LineChart, AGuideStandsAtItsValueWithItsNameOverThePlot) {
  const XmlElement svg = drawn(roofline(), 860);
  const auto guide = std::ranges::find_if(svg.children, [](const XmlElement& one) {
    return one.attributes.contains("stroke-dasharray");
  });
  ASSERT_NE(guide, svg.children.end());
  const auto ridge = svg.with_class("em-s1", "path");  // legend, then the points
  // The third point is at the ridge: its circle begins left of the middle by the radius, 4.5 px.
  const std::string& path = ridge[3]->attributes.at("d");
  EXPECT_NEAR(guide->number("x1"), std::stod(path.substr(1)) + 4.5 * .9, 0.02) << path;
  const auto texts = svg.all("text");
  const auto name = std::ranges::find(texts, "ridge 256", &XmlElement::text);
  ASSERT_NE(name, texts.end());
  EXPECT_LT((*name)->number("y"), guide->number("y1"));
}

TEST(LineChart, AGuideBeyondThePointsWidensTheAxis) {
  LineChartData data{.series = {{"s", {{1, 1}, {2, 2}}}}, .guides = {{40, "far"}}};
  const XmlElement svg = drawn(data, 340);
  for (const XmlElement* line : svg.all("line")) EXPECT_LE(line->number("x2"), 340);
  EXPECT_THAT(svg.all("desc").at(0)->text, HasSubstr("far at 40"));
}

TEST(LineChart, EqualRatiosAreEquallyHighOnADecimalLogAxis) {
  LineChartData data{.y_scale = Scale::kLog10, .series = {{"s", {{1, 1}, {2, 10}, {3, 100}}}}};
  const XmlElement svg = drawn(data, 340);
  const std::string& path = svg.with_class("em-line", "polyline").at(0)->attributes.at("points");
  std::vector<double> heights;
  for (std::size_t at = path.find(','); at != std::string::npos; at = path.find(',', at + 1)) {
    heights.push_back(std::stod(path.substr(at + 1)));
  }
  ASSERT_EQ(heights.size(), 3u);
  EXPECT_NEAR(heights[0] - heights[1], heights[1] - heights[2], 0.02);
}

TEST(LineChart, IsToldInWordsByEndsLabelsAndGuides) {
  const std::string words = drawn(roofline(), 860).all("desc").at(0)->text;
  EXPECT_THAT(words, HasSubstr("roof: 4 TFLOP/s at 1, 1.024 PFLOP/s at 1024."));
  EXPECT_THAT(words, HasSubstr("512 TFLOP/s at 128 (tp 4)"));
  EXPECT_THAT(words, HasSubstr("ridge 256 at 256."));
}

TEST(LineChart, RefusesGuidesThatCannotBeDrawn) {
  LineChartData data = roofline();
  data.guides = {{0, "nowhere"}};
  auto chart = LineChart::of(data);
  ASSERT_FALSE(chart);
  EXPECT_EQ(chart.error().message,
            "chart 'Roofline': guide 'nowhere': x is 0; allowed on a logarithmic axis: above 0");
  data.guides.assign(7, {1, "many"});
  chart = LineChart::of(data);
  ASSERT_FALSE(chart);
  EXPECT_THAT(chart.error().message, HasSubstr("guide_count is 7; allowed: 0 to 6"));
}

TEST(LabelPlacer, TakesTheNearestFreePlaceAndStaysInside) {
  LabelPlacer placer;
  placer.stay_in({0, 0, 200, 100});
  const auto first = placer.place(50, 50, 40);
  EXPECT_EQ(first.anchor, Anchor::kStart);
  EXPECT_EQ(first.x_px, 59);
  const auto second = placer.place(50, 50, 40);
  EXPECT_NE(second.y_px, first.y_px);
  EXPECT_EQ(placer.place(195, 50, 40).anchor, Anchor::kEnd) << "no room to the right";
}

TEST(LabelPlacer, PrefersAPlaceThatNoLineCrosses) {
  LabelPlacer placer;
  placer.stay_in({0, 0, 200, 100});
  placer.keep_off(0, 50, 200, 50);
  const auto place = placer.place(50, 50, 40);
  EXPECT_GT(place.y_px - 10.5, 50) << "below the line that runs through the point";
}

}  // namespace
}  // namespace emblema
