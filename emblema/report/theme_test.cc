// Contrast by the formulas of WCAG 2.1 (relative luminance, contrast ratio); colour-vision
// deficiency by the matrices of Machado, Oliveira and Fernandes (2009) at severity 1.0; distance as
// CIE 1976 Delta E.
#include "emblema/report/theme.h"

#include <array>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace emblema {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

constexpr std::array<Matrix, 4> kVisions = {{
    {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {{{0.152286, 1.052583, -0.204868},
      {0.114503, 0.786281, 0.099216},
      {-0.003882, -0.048116, 1.051998}}},
    {{{0.367322, 0.860646, -0.227968},
      {0.280085, 0.672501, 0.047413},
      {-0.011820, 0.042940, 0.968881}}},
    {{{1.255528, -0.076749, -0.178779},
      {-0.078411, 0.930809, 0.147602},
      {0.004733, 0.691367, 0.303900}}},
}};

Vector linear_rgb(std::string_view hex) {
  Vector rgb{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double c = std::stoi(std::string(hex.substr(1 + 2 * i, 2)), nullptr, 16) / 255.0;
    rgb[i] = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  return rgb;
}

double luminance(const Vector& rgb) {
  return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
}

double contrast(std::string_view a, std::string_view b) {
  const double x = luminance(linear_rgb(a)) + 0.05;
  const double y = luminance(linear_rgb(b)) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

Vector lab(const Vector& rgb) {
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = f((0.4124 * rgb[0] + 0.3576 * rgb[1] + 0.1805 * rgb[2]) / 0.95047);
  const double y = f(luminance(rgb));
  const double z = f((0.0193 * rgb[0] + 0.1192 * rgb[1] + 0.9505 * rgb[2]) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

Vector seen_by(const Matrix& vision, std::string_view hex) {
  const Vector rgb = linear_rgb(hex);
  Vector seen{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) seen[i] += vision[i][j] * rgb[j];
    seen[i] = std::min(1.0, std::max(0.0, seen[i]));
  }
  return lab(seen);
}

class ReportTheme : public testing::TestWithParam<const Theme*> {};

TEST_P(ReportTheme, TextHasAContrastOfAtLeast4Point5) {
  const Theme& theme = *GetParam();
  for (const auto text : {theme.ink, theme.muted, theme.accent, theme.good, theme.bad}) {
    EXPECT_GE(contrast(text, theme.card), 4.5) << text;
    EXPECT_GE(contrast(text, theme.page), 4.5) << text;
  }
  for (std::size_t i = 0; i < kSeriesMax; ++i) {
    EXPECT_GE(contrast(theme.on_series[i], theme.series[i]), 4.5) << i;
  }
}

TEST_P(ReportTheme, BarsHaveAContrastOfAtLeast3) {
  for (const auto color : GetParam()->series) EXPECT_GE(contrast(color, GetParam()->card), 3.0);
}

TEST_P(ReportTheme, SeriesStayApartInEveryColourVision) {
  const auto& series = GetParam()->series;
  for (const Matrix& vision : kVisions) {
    for (std::size_t a = 0; a < kSeriesMax; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const Vector x = seen_by(vision, series[a]);
        const Vector y = seen_by(vision, series[b]);
        const double distance = std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
        EXPECT_GE(distance, a == b + 1 ? 24 : 13) << series[a] << " and " << series[b];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Both, ReportTheme, testing::Values(&kLightTheme, &kDarkTheme),
                         [](const auto& test) {
                           return test.param == &kLightTheme ? "Light" : "Dark";
                         });

TEST(ReportThemeFormula, BlackOnWhiteIs21) {
  EXPECT_DOUBLE_EQ(contrast("#000000", "#ffffff"), 21);
}

TEST(ReportThemeCss, EveryClassColourIsDefinedInBothSchemes) {
  const std::string css = theme_css(":root");
  const std::size_t dark = css.find("prefers-color-scheme:dark");
  ASSERT_NE(dark, std::string::npos);
  const std::string used = std::string(chart_css());
  for (std::size_t at = used.find("var("); at != std::string::npos;
       at = used.find("var(", at + 1)) {
    const std::string name = used.substr(at + 4, used.find(')', at) - at - 4) + ":";
    EXPECT_LT(css.find(name), dark) << name;
    EXPECT_NE(css.find(name, dark), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace emblema
