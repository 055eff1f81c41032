// The colours of every picture: two themes, chosen by the reader's system, as CSS custom
// properties.
//
// Series colours keep a contrast of 3:1 to the card in both themes, and stay apart under
// protanopia, deuteranopia and tritanopia (theme_test.cc computes both). Constants; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace emblema {

inline constexpr std::size_t kSeriesMax = 6;  // as many as stay distinguishable

struct Theme {
  std::string_view page;
  std::string_view card;
  std::string_view ink;
  std::string_view muted;
  std::string_view line;
  std::string_view shade;  // at the edge of a box that scrolls
  std::string_view accent;
  std::string_view good;
  std::string_view bad;
  std::array<std::string_view, kSeriesMax> series;
  std::array<std::string_view, kSeriesMax> on_series;  // text inside a bar of that colour
};

inline constexpr Theme kLightTheme = {
    .page = "#f5f6f8",
    .card = "#ffffff",
    .ink = "#1b2430",
    .muted = "#586472",
    .line = "#dfe4ea",
    .shade = "#c9d0d9",
    .accent = "#2862ad",
    .good = "#17703f",
    .bad = "#b3261e",
    .series = {"#3b7fd0", "#d97a14", "#0a4f45", "#4f2388", "#d4659c", "#6b5a00"},
    .on_series = {"#000000", "#000000", "#ffffff", "#ffffff", "#000000", "#ffffff"},
};

inline constexpr Theme kDarkTheme = {
    .page = "#0f141a",
    .card = "#171e26",
    .ink = "#e6ebf1",
    .muted = "#9fabb8",
    .line = "#2e3843",
    .shade = "#000000",
    .accent = "#8ab4f3",
    .good = "#63cc8f",
    .bad = "#ff8f84",
    .series = {"#4f86ea", "#f5a742", "#6fd9b5", "#cdbcf8", "#c2527d", "#857426"},
    .on_series = {"#000000", "#000000", "#000000", "#000000", "#000000", "#000000"},
};

// `selector{--em-…}`, the dark values inside a prefers-color-scheme query, and the light ones again
// for print.
std::string theme_css(std::string_view selector);

// The classes that charts use; needs theme_css.
std::string_view chart_css();

}  // namespace emblema
