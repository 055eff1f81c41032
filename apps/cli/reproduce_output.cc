#include "apps/cli/reproduce_output.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "emblema/report/table.h"

namespace emblema {
namespace {

std::uint64_t count_of(std::span<const ReproducedFigure> rows, FigureVerdict verdict) {
  return static_cast<std::uint64_t>(
      std::count_if(rows.begin(), rows.end(),
                    [verdict](const ReproducedFigure& row) { return row.verdict == verdict; }));
}

// The mark is in words: colour only repeats it.
Cell verdict_cell(FigureVerdict verdict) {
  if (verdict == FigureVerdict::kDiffers) return {"DIFFERS", Tone::kBad};
  return {std::string(to_string(verdict)), Tone::kMuted};
}

std::string document_text(const PublishedDocument& document,
                          std::span<const ReproducedFigure> rows) {
  Table table({{"section"},
               {"quantity"},
               {"formula"},
               {"printed", Align::kRight},
               {"exact", Align::kRight},
               {""}});
  std::string notes;
  for (const ReproducedFigure& row : rows) {
    if (row.document != document.name) continue;
    table.add_row({row.section, row.quantity, row.formula, row.as_printed, row.exact,
                   verdict_cell(row.verdict)});
    if (row.note.empty()) continue;
    notes += fmt::format("  {} ({}): {}\n", row.quantity, row.as_printed, row.note);
  }
  if (table.row_count() == 0) return {};
  std::string text = fmt::format("{}: {}\n\n{}", document.name, document.title, table.to_text());
  if (!notes.empty()) text += "\nnotes\n" + notes;
  return text;
}

}  // namespace

std::string reproduce_text(std::span<const ReproducedFigure> rows) {
  std::string text = fmt::format(
      "{} figures of {} documents: {} equal, {} rounded, {} hold, {} differ\n"
      "exact figures: = to the last digit, ~ rounded where they are shown\n",
      rows.size(), published_documents().size(), count_of(rows, FigureVerdict::kEqual),
      count_of(rows, FigureVerdict::kRounded), count_of(rows, FigureVerdict::kHolds),
      count_of(rows, FigureVerdict::kDiffers));
  for (const PublishedDocument& document : published_documents()) {
    const std::string part = document_text(document, rows);
    if (!part.empty()) text += "\n" + part;
  }
  return text;
}

void write_reproduce(std::span<const ReproducedFigure> rows, JsonOutput* json) {
  json->begin_object();
  json->field("schema", std::uint64_t{1});
  json->field("figures_differing", count_of(rows, FigureVerdict::kDiffers));
  json->key("documents").begin_array();
  for (const PublishedDocument& document : published_documents()) {
    json->begin_object(JsonOutput::Break::kNone);
    json->field("name", document.name);
    json->field("title", document.title);
    json->end_object();
  }
  json->end_array();
  json->key("figures").begin_array();
  for (const ReproducedFigure& row : rows) {
    json->begin_object(JsonOutput::Break::kNone);
    json->field("document", row.document);
    json->field("section", row.section);
    json->field("quantity", row.quantity);
    json->field("formula", row.formula);
    json->field("as_printed", row.as_printed);
    json->field("exact", row.exact);
    json->field("verdict", to_string(row.verdict));
    json->field("note", row.note);
    json->end_object();
  }
  json->end_array();
  json->end_object();
}

}  // namespace emblema
