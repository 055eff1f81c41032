#include "emblema/report/theme.h"

#include <fmt/format.h>

namespace emblema {
namespace {

std::string properties(const Theme& theme, std::string_view scheme) {
  std::string css = fmt::format(
      "color-scheme:{};--em-page:{};--em-card:{};--em-ink:{};--em-muted:{};--em-line:{};"
      "--em-shade:{};--em-accent:{};--em-good:{};--em-bad:{};",
      scheme, theme.page, theme.card, theme.ink, theme.muted, theme.line, theme.shade, theme.accent,
      theme.good, theme.bad);
  for (std::size_t i = 0; i < kSeriesMax; ++i) {
    css += fmt::format("--em-s{}:{};--em-on{}:{};", i, theme.series[i], i, theme.on_series[i]);
  }
  return css;
}

}  // namespace

std::string theme_css(std::string_view selector) {
  const std::string light = properties(kLightTheme, "light");
  const std::string dark = properties(kDarkTheme, "dark");
  return fmt::format(
      "{0}{{{1}}}\n@media (prefers-color-scheme:dark){{{0}{{{2}}}}}\n@media print{{{0}{{{1}}}}}\n",
      selector, light, dark);
}

std::string_view chart_css() {
  return R"(.em-chart{display:block;width:100%;height:auto}
.em-chart text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
  "Liberation Sans",sans-serif;font-variant-numeric:tabular-nums;fill:var(--em-ink)}
.em-chart .em-muted{fill:var(--em-muted)}
.em-chart .em-halo{paint-order:stroke;stroke:var(--em-card);stroke-width:4px;
  stroke-linejoin:round}
.em-chart .em-bold{font-weight:600}
.em-card{fill:var(--em-card)}
.em-grid{stroke:var(--em-line);stroke-width:1}
.em-axis{stroke:var(--em-muted);stroke-width:1}
.em-line{fill:none;stroke-width:2.25;stroke-linejoin:round;stroke-linecap:round}
.em-mark{stroke:var(--em-card);stroke-width:1.5}
.em-s0{fill:var(--em-s0)}.em-s1{fill:var(--em-s1)}.em-s2{fill:var(--em-s2)}
.em-s3{fill:var(--em-s3)}.em-s4{fill:var(--em-s4)}.em-s5{fill:var(--em-s5)}
.em-l0{stroke:var(--em-s0)}.em-l1{stroke:var(--em-s1)}.em-l2{stroke:var(--em-s2)}
.em-l3{stroke:var(--em-s3)}.em-l4{stroke:var(--em-s4)}.em-l5{stroke:var(--em-s5)}
.em-chart .em-on0{fill:var(--em-on0)}.em-chart .em-on1{fill:var(--em-on1)}.em-chart .em-on2{
  fill:var(--em-on2)}
.em-chart .em-on3{fill:var(--em-on3)}.em-chart .em-on4{fill:var(--em-on4)}.em-chart .em-on5{
  fill:var(--em-on5)}
)";
}

}  // namespace emblema
