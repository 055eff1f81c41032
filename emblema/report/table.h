// A table: columns with an alignment, rows of cells, written for a terminal or for HTML.
//
//   Table table({{"way"}, {"physical", Align::kRight}});
//   table.add_row({"prefix", "1.234 MiB"});
//   table.to_text({.color = true});  table.to_html();
//
// Cells hold any text: it is cleaned (text.h) and escaped on the way out. A plain value; not
// synchronised.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace emblema {

enum class Align : std::uint8_t { kLeft, kRight };  // numbers stand right, so that digits line up

struct Column {
  std::string header;
  Align align = Align::kLeft;
};

// What a cell says beyond its text; colour never carries it alone.
enum class Tone : std::uint8_t { kPlain, kStrong, kMuted, kGood, kBad };

struct Cell {
  std::string text;
  Tone tone = Tone::kPlain;

  Cell(const char* plain) : text(plain) {}             // NOLINT: a text is a cell
  Cell(std::string plain) : text(std::move(plain)) {}  // NOLINT: a text is a cell
  Cell(std::string words, Tone how) : text(std::move(words)), tone(how) {}
};

struct TextStyle {
  bool color = false;  // ANSI colours: only for a terminal, which the caller knows
};

class Table {
 public:
  // REQUIRES: at least one column.
  explicit Table(std::vector<Column> columns);

  // REQUIRES: one cell per column.
  void add_row(std::vector<Cell> cells);

  std::size_t row_count() const { return rows_.size(); }

  // Header, a rule, the rows: two spaces between columns, no space at a line's end, each line
  // ended. Columns are as wide as their widest cell in terminal columns.
  std::string to_text(TextStyle style = {}) const;

  // One <table> element of well-formed XHTML; the first column heads its row. A caption is
  // optional.
  std::string to_html(const std::string& caption = {}) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace emblema
