#include "emblema/report/table.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "emblema/contract/check.h"
#include "emblema/report/text.h"

namespace emblema {
namespace {

std::string_view ansi_code(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kStrong:
      return "\x1b[1m";
    case Tone::kMuted:
      return "\x1b[2m";
    case Tone::kGood:
      return "\x1b[32m";
    case Tone::kBad:
      return "\x1b[31m";
  }
  return "";
}

std::string_view css_class(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kStrong:
      return "strong";
    case Tone::kMuted:
      return "muted";
    case Tone::kGood:
      return "good";
    case Tone::kBad:
      return "bad";
  }
  return "";
}

// Padding stays outside the colour, so that a coloured table has the plain one's shape.
std::string padded(const Cell& cell, Align align, std::size_t width, bool color) {
  const std::string text = clean_text(cell.text);
  const std::string padding(width - width_columns(text), ' ');
  const std::string_view code = color && !text.empty() ? ansi_code(cell.tone) : "";
  const std::string shown = code.empty() ? text : fmt::format("{}{}\x1b[0m", code, text);
  return align == Align::kRight ? padding + shown : shown + padding;
}

void end_line(std::string& line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  line += '\n';
}

std::string class_attribute(Align align, Tone tone) {
  const std::string_view tone_class = css_class(tone);
  const std::string_view align_class = align == Align::kRight ? "num" : "";
  if (tone_class.empty() && align_class.empty()) return {};
  const std::string_view gap = tone_class.empty() || align_class.empty() ? "" : " ";
  return fmt::format(" class=\"{}{}{}\"", align_class, gap, tone_class);
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  EMBLEMA_CHECK(!columns_.empty(), "a table has at least one column");
}

void Table::add_row(std::vector<Cell> cells) {
  EMBLEMA_CHECK(cells.size() == columns_.size(), "a row has one cell per column");
  rows_.push_back(std::move(cells));
}

std::string Table::to_text(TextStyle style) const {
  std::vector<std::size_t> widths;
  std::vector<Cell> header;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    header.emplace_back(columns_[column].header, Tone::kStrong);
    std::size_t width = width_columns(clean_text(columns_[column].header));
    for (const auto& row : rows_) {
      width = std::max(width, width_columns(clean_text(row[column].text)));
    }
    widths.push_back(width);
  }
  std::string text;
  const auto add_line = [&](const std::vector<Cell>& cells) {
    std::string line;
    for (std::size_t column = 0; column < cells.size(); ++column) {
      if (column > 0) line += "  ";
      line += padded(cells[column], columns_[column].align, widths[column], style.color);
    }
    end_line(line);
    text += line;
  };
  add_line(header);
  std::string rule;
  for (std::size_t column = 0; column < widths.size(); ++column) {
    if (column > 0) rule += "  ";
    for (std::size_t i = 0; i < widths[column]; ++i) rule += "─";
  }
  end_line(rule);
  text += rule;
  for (const auto& row : rows_) add_line(row);
  return text;
}

std::string Table::to_html(const std::string& caption) const {
  std::string html = "<table>";
  if (!caption.empty()) html += fmt::format("<caption>{}</caption>", escape_markup(caption));
  html += "<thead><tr>";
  for (const Column& column : columns_) {
    html += fmt::format("<th scope=\"col\"{}>{}</th>", class_attribute(column.align, Tone::kPlain),
                        escape_markup(column.header));
  }
  html += "</tr></thead>\n<tbody>";
  for (const auto& row : rows_) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string_view tag = i == 0 ? "th" : "td";
      html += fmt::format("<{}{}{}>{}</{}>", tag, i == 0 ? " scope=\"row\"" : "",
                          class_attribute(columns_[i].align, row[i].tone),
                          escape_markup(row[i].text), tag);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

}  // namespace emblema
