#include "emblema/report/chart.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "emblema/report/text.h"
#include "emblema/report/xml_testing.h"

namespace emblema {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

BarChartData memory_by_way() {
  return {.title = "Memory by way",
          .note = "Logical and physical bytes.",
          .unit = Unit::kBytes,
          .categories = {"unshared", "prefix", "segment"},
          .series = {{"logical", {55'050'240, 55'050'240, 55'050'240}},
                     {"physical", {55'050'240, 20'643'840, 8'577'024}}}};
}

BarChartData blocks_by_owner() {
  return {.title = "Blocks by owner",
          .unit = Unit::kCount,
          .arrangement = BarArrangement::kStacked,
          .categories = {"unshared", "prefix", "segment"},
          .series = {{"document", {128, 32, 8}},
                     {"preamble", {32, 8, 8}},
                     {"question", {16, 16, 16}},
                     {"answers", {32, 32, 32}}}};
}

LineChartData bytes_by_context() {
  LineChartData data{.title = "Bytes by context",
                     .x_label = "context (tokens)",
                     .x_unit = Unit::kTokens,
                     .y_unit = Unit::kBytes,
                     .x_scale = Scale::kLog2,
                     .series = {{"mla", {}}, {"gqa", {}}}};
  for (int power = 10; power <= 17; ++power) {
    const double tokens = std::exp2(power);
    data.series[0].points.push_back({tokens, tokens * 70272});
    data.series[1].points.push_back({tokens, tokens * 327680});
  }
  return data;
}

std::vector<const XmlElement*> bars(const XmlElement& svg) {
  return svg.with_class("em-bar", "rect");
}

std::vector<std::string> texts(const XmlElement& svg) {
  std::vector<std::string> all;
  for (const XmlElement* text : svg.all("text")) all.push_back(text->text);
  return all;
}

// Every rectangle inside the picture, every text of a readable size and inside too.
void expect_inside(const XmlElement& svg, double width) {
  const std::string& box = svg.attributes.at("viewBox");
  const double height = std::stod(box.substr(box.rfind(' ')));
  EXPECT_EQ(box, "0 0 " + std::to_string(static_cast<int>(width)) + box.substr(box.rfind(' ')));
  for (const XmlElement* bar : bars(svg)) {
    EXPECT_GE(bar->number("x"), 0);
    EXPECT_LE(bar->number("x") + bar->number("width"), width + 0.01);
    EXPECT_GE(bar->number("y"), 0);
    EXPECT_LE(bar->number("y") + bar->number("height"), height);
  }
  for (const XmlElement* text : svg.all("text")) {
    EXPECT_GE(text->number("font-size"), 12);
    EXPECT_LE(text->number("y"), height) << text->text;
    const double size = width_px(text->text, text->number("font-size"));
    const auto anchor = text->attributes.find("text-anchor");
    const double left = anchor == text->attributes.end() ? text->number("x")
                        : anchor->second == "middle"     ? text->number("x") - size / 2
                                                         : text->number("x") - size;
    EXPECT_GE(left, -1) << text->text;
    EXPECT_LE(left + size, width + 1) << text->text;
  }
}

TEST(BarChart, ASmallOneByteForByte) {
  const auto chart = BarChart::of({.title = "Copies",
                                   .unit = Unit::kCount,
                                   .categories = {"<prefix>"},
                                   .series = {{"document", {4}}}});
  ASSERT_TRUE(chart);
  EXPECT_EQ(chart->to_svg({.width_px = 300, .standalone = false}),
            R"svg(<svg xmlns="http://www.w3.org/2000/svg" class="em-chart" role="img")svg"
            R"svg( viewBox="0 0 300 74" width="100%">
<title>Copies</title>
<desc>Bars. &lt;prefix&gt;: document 4.</desc>
<line class="em-axis" stroke="#586472" x1="0" y1="8" x2="0" y2="52"/>
<line class="em-grid" stroke="#dfe4ea" x1="141.67" y1="8" x2="141.67" y2="52"/>
<line class="em-grid" stroke="#dfe4ea" x1="283.34" y1="8" x2="283.34" y2="52"/>
<text class="em-halo em-bold" x="0" y="21" font-size="13" fill="#1b2430">&lt;prefix&gt;</text>
<rect class="em-bar em-s0" fill="#3b7fd0" x="0" y="26" width="283.34")svg"
            R"svg( height="18"><title>&lt;prefix&gt;, document: 4</title></rect>
<text class="em-halo" x="289.34" y="39.5" font-size="12.5" fill="#1b2430">4</text>
<text class="em-muted" x="0" y="68" font-size="12.5" fill="#586472">0</text>
<text class="em-muted" x="141.67" y="68" font-size="12.5" fill="#586472")svg"
            R"svg( text-anchor="middle">2</text>
<text class="em-muted" x="283.34" y="68" font-size="12.5" fill="#586472")svg"
            R"svg( text-anchor="middle">4</text>
</svg>
)svg");
}

TEST(BarChart, BarsAreAsLongAsTheirValues) {
  for (const double width : {280.0, 340.0, 860.0}) {
    const XmlElement svg = parse_xml(BarChart::of(memory_by_way())->to_svg({.width_px = width}));
    const auto all = bars(svg);
    ASSERT_EQ(all.size(), 6u);  // category by category: logical, physical
    const double whole = all[0]->number("width");
    EXPECT_GT(whole, 0.4 * width);
    const double expected[] = {1, 1, 1, 20'643'840.0 / 55'050'240, 1, 8'577'024.0 / 55'050'240};
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(all[i]->number("width"), whole * expected[i], 0.02) << i;
      EXPECT_EQ(all[i]->number("x"), all[0]->number("x"));
    }
    expect_inside(svg, width);
  }
}

RC_GTEST_PROP(BarChart, AnyValuesAreProportionalAndInside, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 8);
  const auto exponents = *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(-1, 60));
  BarChartData data{.title = "any", .unit = *rc::gen::element(Unit::kBytes, Unit::kCount)};
  data.direction = *rc::gen::element(BarDirection::kHorizontal, BarDirection::kVertical);
  data.series = {{"only", {}}};
  double largest = 0;
  for (const int exponent : exponents) {
    data.categories.push_back("c" + std::to_string(data.categories.size()));
    data.series[0].values.push_back(exponent < 0 ? 0 : std::exp2(exponent));
    largest = std::max(largest, data.series[0].values.back());
  }
  const double width = *rc::gen::element(280.0, 340.0, 860.0);
  const XmlElement svg = parse_xml(BarChart::of(data)->to_svg({.width_px = width}));
  expect_inside(svg, width);
  const auto all = bars(svg);
  RC_ASSERT(all.size() == count);
  const bool upright = count > 1 && all[0]->number("x") != all[1]->number("x");
  const char* length = upright ? "height" : "width";
  double longest = 0;
  for (const XmlElement* bar : all) longest = std::max(longest, bar->number(length));
  for (std::size_t i = 0; count > 1 && largest > 0 && i < count; ++i) {
    const double expected = longest * data.series[0].values[i] / largest;
    RC_ASSERT(std::abs(all[i]->number(length) - expected) < 0.02);
  }
}

TEST(BarChart, AStackIsAsLongAsItsSumAndHasNoGaps) {
  const XmlElement svg = parse_xml(BarChart::of(blocks_by_owner())->to_svg({.width_px = 860}));
  const auto all = bars(svg);
  ASSERT_EQ(all.size(), 12u);
  const double px_per_block = all[0]->number("width") / 128;
  const double sums[] = {208, 88, 64};
  for (std::size_t category = 0; category < 3; ++category) {
    for (std::size_t i = 1; i < 4; ++i) {
      const XmlElement& before = *all[4 * category + i - 1];
      EXPECT_NEAR(all[4 * category + i]->number("x"), before.number("x") + before.number("width"),
                  0.02);
    }
    const XmlElement& last = *all[4 * category + 3];
    EXPECT_NEAR(last.number("x") + last.number("width") - all[0]->number("x"),
                sums[category] * px_per_block, 0.03);
  }
}

TEST(BarChart, EveryValueIsPrintedAlsoWhereItsPartIsTooThin) {
  for (const double width : {340.0, 860.0}) {
    const XmlElement svg = parse_xml(BarChart::of(blocks_by_owner())->to_svg({.width_px = width}));
    const std::string all = svg.all_text();
    for (const char* total : {"208", "88", "64"}) EXPECT_THAT(texts(svg), testing::Contains(total));
    for (const char* part : {"8", "16", "32", "128"}) EXPECT_THAT(all, HasSubstr(part));
    if (width == 340.0) {  // 8 of 208 blocks are 11 px: a line under the bar says it
      EXPECT_THAT(all, HasSubstr("document 8 · preamble 8 · question 16"));
    }
    expect_inside(svg, width);
  }
}

TEST(BarChart, UprightBarsStandOnOneLine) {
  BarChartData data = memory_by_way();
  data.direction = BarDirection::kVertical;
  const XmlElement svg = parse_xml(BarChart::of(data)->to_svg({.width_px = 860}));
  const auto all = bars(svg);
  ASSERT_EQ(all.size(), 6u);
  const double ground = all[0]->number("y") + all[0]->number("height");
  for (const XmlElement* bar : all) {
    EXPECT_NEAR(bar->number("y") + bar->number("height"), ground, 0.02);
  }
  EXPECT_NEAR(all[5]->number("height") / all[0]->number("height"), 8'577'024.0 / 55'050'240, 1e-3);
  expect_inside(svg, 860);
}

TEST(BarChart, UprightBarsLieDownWhereTheirLabelsWouldNotFit) {
  BarChartData data = memory_by_way();
  data.direction = BarDirection::kVertical;
  const XmlElement svg = parse_xml(BarChart::of(data)->to_svg({.width_px = 300}));
  EXPECT_EQ(bars(svg)[0]->number("x"), bars(svg)[5]->number("x"));
  expect_inside(svg, 300);
}

TEST(BarChart, ATooltipSaysTheExactBytes) {
  const XmlElement svg = parse_xml(BarChart::of(memory_by_way())->to_svg());
  EXPECT_EQ(bars(svg)[5]->children.at(0).text, "segment, physical: 8.180 MiB (8,577,024 bytes)");
}

TEST(BarChart, IsReadableWithoutSeeingIt) {
  const XmlElement svg = parse_xml(BarChart::of(blocks_by_owner())->to_svg());
  EXPECT_EQ(svg.attributes.at("role"), "img");
  EXPECT_EQ(svg.children.at(0).name, "title");
  EXPECT_EQ(svg.children.at(0).text, "Blocks by owner");
  EXPECT_EQ(svg.children.at(1).name, "desc");
  EXPECT_THAT(svg.children.at(1).text,
              HasSubstr("segment: document 8, preamble 8, question 16, answers 32, together 64."));
}

TEST(BarChart, LongAndHostileNamesStayInsideThePicture) {
  BarChartData data{
      .title = std::string(300, 'T') + "</svg><script>",
      .note = "a\x1b]0;b & c",
      .categories = {std::string(400, 'W'), "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字", ""},
      .series = {{"\"'<>&", {1, 2, 3}}, {std::string(200, 'm'), {3, 2, 1}}}};
  for (const auto arrangement : {BarArrangement::kGrouped, BarArrangement::kStacked}) {
    data.arrangement = arrangement;
    for (const double width : {280.0, 860.0}) {
      const std::string svg = BarChart::of(data)->to_svg({.width_px = width});
      EXPECT_EQ(svg.find("<script>"), std::string::npos);
      expect_inside(parse_xml(svg), width);
    }
  }
}

TEST(BarChart, NoDataIsAPictureThatSaysSo) {
  for (const BarChartData& data :
       {BarChartData{.title = "Empty"}, BarChartData{.title = "Empty", .categories = {"a"}},
        BarChartData{.title = "Empty", .series = {{"s", {}}}}}) {
    const auto chart = BarChart::of(data);
    ASSERT_TRUE(chart);
    EXPECT_THAT(texts(parse_xml(chart->to_svg())), testing::Contains("No data"));
  }
  const auto zeros = BarChart::of({.categories = {"a"}, .series = {{"s", {0}}}});
  EXPECT_EQ(bars(parse_xml(zeros->to_svg()))[0]->number("width"), 0);
}

std::string refusal(const BarChartData& data) {
  const auto chart = BarChart::of(data);
  if (chart) return "accepted";
  EXPECT_EQ(chart.error().code, ErrorCode::Invalid);
  EXPECT_EQ(chart.error().message.find('\n'), std::string::npos);
  return chart.error().message;
}

TEST(BarChart, RefusesDataThatCannotBeDrawnAndNamesIt) {
  BarChartData data = memory_by_way();
  data.series[1].values[2] = kNan;
  EXPECT_EQ(refusal(data),
            "chart 'Memory by way': 'physical' of 'segment' is nan; allowed: 0 to 2^63, finite");
  data = memory_by_way();
  data.series[1].values[2] = -1;
  EXPECT_THAT(refusal(data), HasSubstr("'physical' of 'segment' is -1; allowed: 0 to 2^63"));
  data.series[1].values.pop_back();
  EXPECT_THAT(refusal(data), HasSubstr("'physical' has 2 values; allowed: one for each of the 3"));
  data.series.assign(7, {"s", {1, 2, 3}});
  EXPECT_THAT(refusal(data), HasSubstr("series_count is 7; allowed: 0 to 6"));
  data = {.title = "two\nlines", .categories = std::vector<std::string>(201)};
  EXPECT_THAT(refusal(data), HasSubstr("category_count is 201; allowed: 0 to 200"));
  data = {.arrangement = BarArrangement::kStacked,
          .categories = {"a"},
          .series = {{"s", {std::exp2(63)}}, {"t", {std::exp2(63)}}}};
  EXPECT_THAT(refusal(data), HasSubstr("the sum of 'a' is"));
}

TEST(BarChartDeathTest, AWidthOutOfRangeIsAProgrammersError) {
  const auto chart = BarChart::of(memory_by_way());
  EXPECT_DEATH(chart->to_svg({.width_px = 279}), "280 to 2000");
  EXPECT_DEATH(chart->to_svg({.width_px = kNan}), "280 to 2000");
}

TEST(LineChart, MarkersStandWhereTheirValuesAre) {
  const XmlElement svg = parse_xml(LineChart::of(bytes_by_context())->to_svg({.width_px = 860}));
  const auto lines = svg.with_class("em-line", "polyline");
  ASSERT_EQ(lines.size(), 4u);  // two in the legend, then the two series
  std::vector<std::pair<double, double>> points;
  const std::string& path = lines[3]->attributes.at("points");
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t comma = path.find(',', at);
    const std::size_t end = std::min(path.find(' ', comma), path.size());
    points.emplace_back(std::stod(path.substr(at)), std::stod(path.substr(comma + 1)));
    at = end + 1;
  }
  ASSERT_EQ(points.size(), 8u);
  // Doubling contexts: equal steps on a log2 axis, doubling heights on a linear one.
  const double step = points[1].first - points[0].first;
  for (std::size_t i = 1; i < 8; ++i) {
    EXPECT_NEAR(points[i].first - points[i - 1].first, step, 0.02);
  }
  const double ground = points[6].second + (points[6].second - points[7].second);
  for (std::size_t i = 1; i < 8; ++i) {
    EXPECT_NEAR(ground - points[i].second, 2 * (ground - points[i - 1].second), 0.05);
  }
  EXPECT_EQ(svg.with_class("em-mark", "path").size(), 2u + 16u);
  expect_inside(svg, 860);
}

TEST(LineChart, LabelsOfLinesThatEndTogetherDoNotOverlap) {
  LineChartData data{.title = "Close"};
  for (int i = 0; i < 6; ++i) {
    data.series.push_back({"s" + std::to_string(i), {{1, 1}, {2, 2 + 0.001 * i}}});
  }
  const XmlElement svg = parse_xml(LineChart::of(data)->to_svg());
  std::vector<double> heights;
  for (const XmlElement* text : svg.with_class("em-halo", "text")) {
    heights.push_back(text->number("y"));
  }
  ASSERT_EQ(heights.size(), 6u);
  std::sort(heights.begin(), heights.end());
  for (std::size_t i = 1; i < 6; ++i) EXPECT_GE(heights[i] - heights[i - 1], 14.9);
  expect_inside(svg, 340);
}

TEST(LineChart, SeriesDifferInMoreThanColour) {
  LineChartData data{.title = "Six"};
  for (int i = 0; i < 6; ++i) data.series.push_back({"s", {{1, 1.0 * i}, {2, 2.0 * i}}});
  const XmlElement svg = parse_xml(LineChart::of(data)->to_svg());
  std::vector<std::string> dashes;
  for (const XmlElement* line : svg.with_class("em-line", "polyline")) {
    const auto dash = line->attributes.find("stroke-dasharray");
    dashes.push_back(dash == line->attributes.end() ? "solid" : dash->second);
  }
  std::sort(dashes.begin(), dashes.end());
  EXPECT_EQ(std::unique(dashes.begin(), dashes.end()) - dashes.begin(), 6);
}

TEST(LineChart, OnePointAndNoPointAreDrawn) {
  const auto one = LineChart::of({.title = "One", .series = {{"s", {{5, 7}}}, {"none", {}}}});
  const XmlElement svg = parse_xml(one->to_svg());
  EXPECT_EQ(svg.with_class("em-mark", "path").size(), 3u);  // legend, legend, point
  EXPECT_THAT(texts(parse_xml(LineChart::of({.title = "None"})->to_svg())),
              testing::Contains("No data"));
}

TEST(LineChart, RefusesDataThatCannotBeDrawnAndNamesIt) {
  const auto message = [](LineChartData data) {
    const auto chart = LineChart::of(std::move(data));
    return chart ? "accepted" : chart.error().message;
  };
  EXPECT_EQ(message({.title = "t", .series = {{"s", {{1, kNan}}}}}),
            "chart 't': series 's': point 0: y is nan; allowed: 0 to 2^63, finite");
  EXPECT_THAT(message({.title = "t", .series = {{"s", {{1, 1}, {1, 2}}}}}),
              HasSubstr("point 1: x is 1; allowed: above 1"));
  EXPECT_THAT(message({.x_scale = Scale::kLog2, .series = {{"s", {{0, 1}}}}}),
              HasSubstr("x is 0; allowed on a logarithmic axis: above 0"));
  EXPECT_THAT(message({.series = {{"s", std::vector<LinePoint>(1001)}}}),
              HasSubstr("point_count is 1001; allowed: 0 to 1000"));
  EXPECT_THAT(message({.series = std::vector<LineSeries>(7)}), HasSubstr("series_count is 7"));
}

TEST(Charts, NeedNothingFromOutsideAndAreDeterministic) {
  const auto bar = BarChart::of(blocks_by_owner());
  const auto line = LineChart::of(bytes_by_context());
  EXPECT_EQ(bar->to_svg(), BarChart::of(blocks_by_owner())->to_svg());
  EXPECT_EQ(line->to_svg(), LineChart::of(bytes_by_context())->to_svg());
  for (const std::string& svg : {bar->to_svg(), line->to_svg()}) {
    const std::string name = "http://www.w3.org/2000/svg";
    const std::size_t at = svg.find(name);
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(svg.find("http", at + name.size()), std::string::npos);
    for (const char* outside : {"href", "url(", "@import", "<script", "<image", "<use"}) {
      EXPECT_EQ(svg.find(outside), std::string::npos) << outside;
    }
  }
}

}  // namespace
}  // namespace emblema
