#include "emblema/report/text.h"

#include <array>
#include <cstdint>

namespace emblema {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  // 0: the byte here starts no valid sequence
};

// Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
CodePoint decode(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return at + i < text.size() ? static_cast<std::uint8_t>(text[at + i]) : 0U;
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 0;
  if (length == 0 || first > 0xF4) return {};
  std::uint32_t value = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    value = (value << 6U) | (byte(i) & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[length] || value > 0x10FFFF || surrogate) return {};
  return {value, length};
}

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

template <std::size_t N>
bool is_in(std::uint32_t value, const std::array<Range, N>& ranges) {
  for (const Range& range : ranges) {
    if (value >= range.first && value <= range.last) return true;
  }
  return false;
}

bool is_unsafe(std::uint32_t value) {
  constexpr std::array<Range, 8> kUnsafe = {{{0x00, 0x1F},
                                             {0x7F, 0x9F},
                                             {0x061C, 0x061C},  // these four change the
                                             {0x200E, 0x200F},  // direction of what follows
                                             {0x2028, 0x202E},
                                             {0x2066, 0x2069},
                                             {0xFDD0, 0xFDEF},  // non-characters
                                             {0xFFF9, 0xFFFB}}};
  return is_in(value, kUnsafe) || (value & 0xFFFEU) == 0xFFFEU;
}

bool is_zero_width(std::uint32_t value) {
  constexpr std::array<Range, 7> kMarks = {{{0x0300, 0x036F},
                                            {0x0483, 0x0489},
                                            {0x1AB0, 0x1AFF},
                                            {0x1DC0, 0x1DFF},
                                            {0x200B, 0x200D},
                                            {0x20D0, 0x20FF},
                                            {0xFE00, 0xFE0F}}};
  return is_in(value, kMarks);
}

bool is_wide(std::uint32_t value) {
  constexpr std::array<Range, 11> kWide = {{{0x1100, 0x115F},
                                            {0x2E80, 0x303E},
                                            {0x3041, 0xA4CF},
                                            {0xAC00, 0xD7A3},
                                            {0xF900, 0xFAFF},
                                            {0xFE30, 0xFE6F},
                                            {0xFF00, 0xFF60},
                                            {0xFFE0, 0xFFE6},
                                            {0x1F300, 0x1F64F},
                                            {0x1F900, 0x1F9FF},
                                            {0x20000, 0x3FFFD}}};
  return is_in(value, kWide);
}

// Advance in units of the font size, rounded up over the common system fonts.
double advance_em(std::uint32_t value) {
  if (is_zero_width(value)) return 0;
  if (is_wide(value)) return 1.05;
  if (value >= 0x80) return 0.68;
  const char c = static_cast<char>(value);
  constexpr std::string_view kThin = "ijl.,:;|!'`";
  constexpr std::string_view kSlim = " ftrI()[]{}/\\-\"";
  constexpr std::string_view kBroad = "mwMW@%";
  if (kThin.find(c) != std::string_view::npos) return 0.30;
  if (kSlim.find(c) != std::string_view::npos) return 0.38;
  if (kBroad.find(c) != std::string_view::npos) return 0.92;
  return c >= 'A' && c <= 'Z' ? 0.70 : 0.63;
}

template <class Visit>
void for_each_code_point(std::string_view text, Visit visit) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    const std::size_t bytes = point.bytes == 0 ? 1 : point.bytes;
    visit(point, text.substr(at, bytes));
    at += bytes;
  }
}

}  // namespace

std::string clean_text(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for_each_code_point(text, [&](CodePoint point, std::string_view bytes) {
    if (point.bytes == 0) {
      clean += kReplacement;
    } else if (point.value == '\n' || point.value == '\r' || point.value == '\t') {
      clean += ' ';
    } else {
      clean += is_unsafe(point.value) ? kReplacement : bytes;
    }
  });
  return clean;
}

std::string escape_markup(std::string_view text) {
  std::string escaped;
  for (const char c : clean_text(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::size_t width_columns(std::string_view text) {
  std::size_t columns = 0;
  for_each_code_point(text, [&](CodePoint point, std::string_view) {
    if (!is_zero_width(point.value)) columns += is_wide(point.value) ? 2 : 1;
  });
  return columns;
}

double width_px(std::string_view text, double font_size_px) {
  double width_em = 0;
  for_each_code_point(
      text, [&](CodePoint point, std::string_view) { width_em += advance_em(point.value); });
  return width_em * font_size_px;
}

std::vector<std::string> wrap_text(std::string_view text, double font_size_px, double line_px) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = text.find(' ', at);
    const std::string_view word =
        text.substr(at, space == std::string_view::npos ? text.size() - at : space - at);
    at += word.size() + 1;
    if (word.empty()) continue;
    std::string& line = lines.back();
    std::string longer = line.empty() ? std::string(word) : line + " " + std::string(word);
    if (line.empty() || width_px(longer, font_size_px) <= line_px) {
      line = std::move(longer);
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

std::string fit_text(std::string_view text, double font_size_px, double line_px) {
  if (width_px(text, font_size_px) <= line_px) return std::string(text);
  constexpr std::string_view kEllipsis = "…";
  double width = width_px(kEllipsis, font_size_px);
  std::string fitting;
  bool full = false;
  for_each_code_point(text, [&](CodePoint point, std::string_view bytes) {
    width += advance_em(point.value) * font_size_px;
    full = full || width > line_px;
    if (!full) fitting += bytes;
  });
  return fitting + std::string(kEllipsis);
}

}  // namespace emblema
