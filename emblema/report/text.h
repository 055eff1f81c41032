// Text on its way into a terminal, an SVG or an HTML page: made safe first, then measured.
//
// Names in a report come from outside (a config.json, a trace, a file name). clean_text() is the
// one gate: what it returns is valid UTF-8 on one line without control or direction-changing
// characters, so it can neither drive a terminal nor break markup. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace emblema {

// Line breaks and tabs become a space; every other control character, direction override,
// non-character and byte that is not UTF-8 becomes U+FFFD.
std::string clean_text(std::string_view text);

// clean_text(), then & < > " ' as entities: right inside an element and inside a quoted attribute.
std::string escape_markup(std::string_view text);

// Columns that cleaned text takes in a terminal: combining marks 0, East Asian wide and emoji 2.
std::size_t width_columns(std::string_view text);

// An estimate on the safe side of how wide text is drawn in a sans-serif font, as wide as DejaVu
// Sans, which a Linux without other fonts shows.
double width_px(std::string_view text, double font_size_px);

// Bold text is that much wider: DejaVu Sans Bold's digits, 0.696 em against 0.636 em.
inline constexpr double kBoldWidth = 1.1;

// Breaks at spaces so that a line is at most `line_px` wide by width_px; a single word that is
// longer stands alone. Never empty: no text is one empty line.
std::vector<std::string> wrap_text(std::string_view text, double font_size_px, double line_px);

// As much of the text as fits, with "…" for what does not.
std::string fit_text(std::string_view text, double font_size_px, double line_px);

}  // namespace emblema
