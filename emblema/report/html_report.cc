#include "emblema/report/html_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "emblema/report/html_style.h"
#include "emblema/report/text.h"

namespace emblema {
namespace {

constexpr double kDeskWidthPx = 860;

// A mark and a word: neither shape nor colour is needed to read it.
std::string verdict_mark(bool passed) {
  return fmt::format(
      "<i class=\"{}\" aria-hidden=\"true\">{}</i><span class=\"hidden\">{}: </span>",
      passed ? "pass" : "fail", passed ? "✓" : "✗", passed ? "passed" : "failed");
}

// Line breaks survive; everything else is cleaned.
std::string escape_lines(std::string_view text) {
  std::string lines;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) lines += '\n';
    lines += escape_markup(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

void HtmlReport::set_verdict(bool passed, std::string_view text) {
  verdict_ = fmt::format("<p class=\"verdict {}\"><span aria-hidden=\"true\">{}</span>{}</p>\n",
                         passed ? "pass" : "fail", passed ? "✓" : "✗", escape_markup(text));
}

void HtmlReport::add_section(std::string_view heading) {
  if (in_section_) body_ += "</section>\n";
  in_section_ = true;
  body_ += fmt::format("<section>\n<h2>{}</h2>\n", escape_markup(heading));
}

void HtmlReport::add_paragraph(std::string_view text) {
  body_ += fmt::format("<p>{}</p>\n", escape_markup(text));
}

void HtmlReport::add_code(std::string_view text) {
  body_ += fmt::format("<pre class=\"box\" tabindex=\"0\">{}</pre>\n", escape_lines(text));
}

void HtmlReport::add_key_figures(std::span<const KeyFigure> figures) {
  if (figures.empty()) return;
  body_ += "<div class=\"figures\">\n";
  for (const KeyFigure& figure : figures) {
    body_ += fmt::format("<div class=\"box\"><b>{}</b><span>{}</span>", escape_markup(figure.value),
                         escape_markup(figure.label));
    if (!figure.note.empty()) {
      body_ += fmt::format("<small>{}</small>", escape_markup(figure.note));
    }
    body_ += "</div>\n";
  }
  body_ += "</div>\n";
}

void HtmlReport::add_facts(std::span<const Fact> facts) {
  if (facts.empty()) return;
  body_ += "<dl class=\"facts\">\n";
  for (const Fact& fact : facts) {
    body_ += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_markup(fact.name),
                         escape_markup(fact.value));
  }
  body_ += "</dl>\n";
}

void HtmlReport::add_table(const Table& table, const std::string& caption) {
  body_ += fmt::format(
      "<div class=\"box scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</div>\n",
      caption.empty() ? "Table" : escape_markup(caption), table.to_html(caption));
}

template <class Chart>
void HtmlReport::add_figure(const Chart& chart) {
  body_ += "<figure class=\"box\">\n<figcaption>";
  if (!chart.title().empty()) body_ += fmt::format("<b>{}</b>", escape_markup(chart.title()));
  if (!chart.note().empty()) body_ += fmt::format("<span>{}</span>", escape_markup(chart.note()));
  body_ += fmt::format(
      "</figcaption>\n<div class=\"narrow\">{}</div>\n<div class=\"wide\">{}</div>\n</figure>\n",
      chart.to_svg({.width_px = kPhoneWidthPx, .standalone = false}),
      chart.to_svg({.width_px = kDeskWidthPx, .standalone = false}));
}

void HtmlReport::add_chart(const BarChart& chart) {
  add_figure(chart);
}

void HtmlReport::add_chart(const LineChart& chart) {
  add_figure(chart);
}

void HtmlReport::add_checks(std::span<const ReportCheck> checks) {
  if (checks.empty()) return;
  body_ += "<ul class=\"checks box\">\n";
  for (const ReportCheck& check : checks) {
    body_ += fmt::format("<li>{}<span class=\"name\">{}</span>", verdict_mark(check.passed),
                         escape_markup(check.name));
    body_ += fmt::format("<span class=\"measured\">{}", escape_markup(check.measured));
    if (!check.allowed.empty()) {
      body_ += fmt::format(" (allowed: {})", escape_markup(check.allowed));
    }
    body_ += "</span></li>\n";
  }
  body_ += "</ul>\n";
}

std::string HtmlReport::to_html() const {
  const std::string title = escape_markup(heading_.title);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<header class=\"top\">\n"
      "<h1>{}</h1>\n",
      title, page_css(), title);
  if (!heading_.subtitle.empty()) {
    html += fmt::format("<p class=\"subtitle\">{}</p>\n", escape_markup(heading_.subtitle));
  }
  html += verdict_ + "</header>\n<main>\n" + body_;
  if (in_section_) html += "</section>\n";
  html += "</main>\n";
  if (!footer_.empty()) {
    html += fmt::format("<footer class=\"foot\">{}</footer>\n", escape_markup(footer_));
  }
  return html + "</body>\n</html>\n";
}

}  // namespace emblema
