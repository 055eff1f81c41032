// One self-contained HTML page: figures, tables, charts and checks; for a phone, a desk or paper.
//
//   HtmlReport page({.title = "Sixteen agents, one document", .subtitle = "deepseek-v2-lite"});
//   page.set_verdict(true, "All 9 checks passed");
//   page.add_section("Memory");
//   page.add_chart(*chart);
//   std::string html = page.to_html();      // the caller writes the file
//
// The page needs no network and no script, and is well-formed XML as well as HTML5. All text given
// here is plain text: it is cleaned and escaped. Pieces appear in the order they are added; the
// same calls give the same bytes. A plain value; not synchronised.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emblema/report/chart.h"
#include "emblema/report/table.h"

namespace emblema {

// A number that deserves a card: "1 copy", "of the document instead of 16".
struct KeyFigure {
  std::string value;
  std::string label;
  std::string note = {};  // how it comes about, optional
};

// One thing that was verified, with what was measured against what is allowed.
struct ReportCheck {
  std::string name;
  bool passed = false;
  std::string measured;
  std::string allowed = {};
};

// One line of a list of facts: "model", "deepseek-v2-lite".
struct Fact {
  std::string name;
  std::string value;
};

class HtmlReport {
 public:
  struct Heading {
    std::string title;
    std::string subtitle = {};
  };

  explicit HtmlReport(Heading heading) : heading_(std::move(heading)) {}

  // The line under the title that says how it all ended.
  void set_verdict(bool passed, std::string_view text);

  // The small print at the end: version, machine, how to repeat it.
  void set_footer(std::string text) { footer_ = std::move(text); }

  void add_section(std::string_view heading);
  void add_paragraph(std::string_view text);
  void add_code(std::string_view text);  // kept line by line, in a fixed-width font
  void add_key_figures(std::span<const KeyFigure> figures);
  void add_facts(std::span<const Fact> facts);
  void add_table(const Table& table, const std::string& caption = {});
  void add_chart(const BarChart& chart);
  void add_chart(const LineChart& chart);
  void add_checks(std::span<const ReportCheck> checks);

  std::string to_html() const;

 private:
  template <class Chart>
  void add_figure(const Chart& chart);

  Heading heading_;
  std::string verdict_;  // markup, like body_
  std::string footer_;
  std::string body_;
  bool in_section_ = false;
};

}  // namespace emblema
