#include "apps/agents/summary.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/report/chart.h"
#include "emblema/report/html_report.h"
#include "emblema/report/table.h"

namespace emblema::agents {
namespace {

std::string share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "0 %"
                    : fmt::format("{:.1f} %",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string bytes_of(std::uint64_t bytes) {
  return fmt::format("{} ({} B)", format_bytes(bytes), format_count(bytes));
}

std::string measured(double value) {
  return value == 0   ? "0"
         : value >= 1 ? fmt::format("{:.0f}", value)
                      : fmt::format("{:.2e}", value);
}

// One column per way: narrow enough for a terminal and a phone.
Table ways_table(const AgentsReport& report) {
  std::vector<Column> columns = {{""}};
  for (const WayReport& way : report.ways) columns.push_back({way.name, Align::kRight});
  Table table(columns);
  const auto add = [&](const std::string& name, auto&& value) {
    std::vector<Cell> cells = {name};
    for (const WayReport& way : report.ways) cells.emplace_back(value(way));
    table.add_row(cells);
  };
  const auto add_count = [&](const std::string& name, auto&& value) {
    add(name, [&](const WayReport& way) { return format_count(value(way)); });
  };
  add_count("copies of the document",
            [](const WayReport& way) { return way.holdings.document_copies; });
  add("logical", [](const WayReport& way) { return format_bytes(way.logical_bytes); });
  add_count("logical, exactly", [](const WayReport& way) { return way.logical_bytes; });
  add("physical", [](const WayReport& way) { return format_bytes(way.physical_bytes); });
  add_count("physical, exactly", [](const WayReport& way) { return way.physical_bytes; });
  add_count("prefix hits (tokens)", [](const WayReport& way) { return way.prefix_hit_tokens; });
  add_count("segment hits (tokens)", [](const WayReport& way) { return way.segment_hit_tokens; });
  add_count("blocks shared by content",
            [](const WayReport& way) { return way.content_shared_blocks; });
  add_count("collisions", [](const WayReport& way) { return way.collisions; });
  add_count("blocks copied on write", [](const WayReport& way) { return way.copied_blocks; });
  add_count("tokens computed", [](const WayReport& way) { return way.computed_tokens; });
  add_count("tokens served", [](const WayReport& way) { return way.served_tokens; });
  add_count("served per second",
            [](const WayReport& way) { return static_cast<std::uint64_t>(way.tokens_per_second); });
  add("largest relative difference",
      [](const WayReport& way) { return measured(way.max_relative_difference); });
  return table;
}

// The tokens of all agents, as other attention would have to keep them.
Table sizes_table(const AgentsReport& report) {
  Table table({{"the same tokens kept as"},
               {"bytes per token", Align::kRight},
               {"all tokens", Align::kRight},
               {"against ours", Align::kRight}});
  const auto add = [&](const std::string& name, const Rational& rate) {
    const std::uint64_t bytes = rate.floor() * report.total_tokens;
    const double ratio = rate.approximate() / report.per_token.bytes.approximate();
    table.add_row(
        {name, format_count(rate.floor()), bytes_of(bytes), fmt::format("{:.2f} x", ratio)});
  };
  add("MHA (a key and a value per head)", report.per_token.mha_bytes);
  add("GQA with 8 KV heads", report.per_token.gqa8_bytes);
  add(report.attention, report.per_token.bytes);
  return table;
}

Table checks_table(const AgentsReport& report) {
  Table table({{"check"}, {"measured", Align::kRight}, {"allowed", Align::kRight}, {""}});
  for (const Check& check : report.checks) {
    table.add_row({check.name, measured(check.measured), measured(check.allowed),
                   check.passed ? Cell("ok", Tone::kGood) : Cell("FAILED", Tone::kBad)});
  }
  return table;
}

std::uint64_t failed_count(const AgentsReport& report) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(report.checks, [](const Check& check) { return !check.passed; }));
}

std::string verdict(const AgentsReport& report) {
  const std::uint64_t failed = failed_count(report);
  if (failed == 0) return fmt::format("All {} checks passed.", report.checks.size());
  return fmt::format("{} of {} checks failed.", failed, report.checks.size());
}

std::string pages_in_words(const AgentsReport& report) {
  const bool advised = std::ranges::all_of(report.ways, &WayReport::huge_pages);
  return advised ? "advised to use 2 MiB pages" : "4 KiB pages: 2 MiB ones were refused";
}

std::string agents_in_words(const AgentsReport& report) {
  return report.agents == 1 ? "1 agent" : fmt::format("{} agents", report.agents);
}

std::string headline(const AgentsReport& report) {
  return fmt::format("{}, one document of {} tokens, {} ({}, {})", agents_in_words(report),
                     format_count(report.document_tokens), report.model, report.attention,
                     report.kv_dtype);
}

std::vector<std::string> way_names(const AgentsReport& report) {
  std::vector<std::string> names;
  for (const WayReport& way : report.ways) names.push_back(way.name);
  return names;
}

template <class Value>
BarSeries series(const AgentsReport& report, std::string name, Value&& value) {
  BarSeries bars{std::move(name), {}};
  for (const WayReport& way : report.ways) bars.values.push_back(static_cast<double>(value(way)));
  return bars;
}

Result<BarChart> memory_chart(const AgentsReport& report) {
  return BarChart::of(
      {.title = "Memory by way",
       .note = "Logical: blocks as each answer counts them. Physical: blocks that are there.",
       .unit = Unit::kBytes,
       .categories = way_names(report),
       .series = {
           series(report, "logical", [](const WayReport& way) { return way.logical_bytes; }),
           series(report, "physical", [](const WayReport& way) { return way.physical_bytes; })}});
}

Result<BarChart> owners_chart(const AgentsReport& report) {
  const auto bytes = [&](std::uint64_t rows) { return rows * report.per_token.bytes.floor(); };
  return BarChart::of(
      {.title = "What the blocks hold",
       .note = "Rows that are there, each counted once, by what they belong to.",
       .unit = Unit::kBytes,
       .arrangement = BarArrangement::kStacked,
       .categories = way_names(report),
       .series = {series(report, "document",
                         [&](const WayReport& way) { return bytes(way.holdings.document_rows); }),
                  series(report, "preambles",
                         [&](const WayReport& way) { return bytes(way.holdings.preamble_rows); }),
                  series(report, "questions",
                         [&](const WayReport& way) { return bytes(way.holdings.question_rows); }),
                  series(report, "answers",
                         [&](const WayReport& way) { return bytes(way.holdings.answer_rows); })}});
}

Result<BarChart> hits_chart(const AgentsReport& report) {
  return BarChart::of(
      {.title = "Prompt tokens found instead of computed",
       .note = "A prefix hit continues what was read before; a segment hit reuses a span that "
               "was encoded alone.",
       .unit = Unit::kCount,
       .arrangement = BarArrangement::kStacked,
       .categories = way_names(report),
       .series = {
           series(report, "prefix", [](const WayReport& way) { return way.prefix_hit_tokens; }),
           series(report, "segment",
                  [](const WayReport& way) { return way.segment_hit_tokens; })}});
}

void add_key_figures(const AgentsReport& report, HtmlReport* page) {
  const WayReport& unshared = report.ways.front();
  const WayReport& segment = report.ways.back();
  const std::array<KeyFigure, 4> figures = {
      {{format_count(segment.holdings.document_copies),
        segment.holdings.document_copies == 1 ? "copy of the document" : "copies of the document",
        fmt::format("instead of {}", unshared.holdings.document_copies)},
       {fmt::format("{:.2f} x", report.ratio_to_mha), "smaller than MHA",
        "for the same tokens and number type"},
       {fmt::format("{:.1f} x", static_cast<double>(unshared.physical_bytes) /
                                    static_cast<double>(segment.physical_bytes)),
        "less memory than unshared", "as a segment, all answers alive"},
       {share(segment.computed_tokens, segment.served_tokens), "of the tokens computed",
        "as a segment; the rest was found"}}};
  page->add_key_figures(figures);
}

void add_facts(const AgentsReport& report, HtmlReport* page) {
  const std::array<Fact, 8> facts = {
      {{"model",
        fmt::format("{}, {} layers of its attention, seeded weights", report.model, report.layers)},
       {"attention", report.attention},
       {"number type", report.kv_dtype},
       {"tokens per block", format_count(report.block_tokens)},
       {"memory of the pool", pages_in_words(report)},
       {"agents", fmt::format("{}, two answers each", report.agents)},
       {"document", fmt::format("{} tokens", format_count(report.document_tokens))},
       {"tokens in all",
        fmt::format("{}, as if nothing were shared", format_count(report.total_tokens))}}};
  page->add_facts(facts);
}

}  // namespace

std::string text_summary(const AgentsReport& report, bool color) {
  const TextStyle style{.color = color};
  std::string text = headline(report) + "\n\n";
  for (const std::string& note : report.notes) text += "note: " + note + "\n";
  if (!report.notes.empty()) text += "\n";
  text += sizes_table(report).to_text(style) + "\n";
  text += ways_table(report).to_text(style) + "\n";
  text += "The pool's memory: " + pages_in_words(report) + ".\n\n";
  text += checks_table(report).to_text(style) + "\n" + verdict(report) + "\n";
  return text;
}

Result<std::string> html_page(const AgentsReport& report, const std::string& command) {
  HtmlReport page(
      {.title = agents_in_words(report) + ", one document", .subtitle = headline(report)});
  page.set_verdict(report.ok, verdict(report));
  add_key_figures(report, &page);
  page.add_section("Three ways");
  page.add_paragraph(
      "Every agent reads a preamble, the document and a question of its own, then answers twice "
      "by fork. Unshared: each agent is a tenant of its own. Prefix: agents with the same "
      "preamble share it and the document behind it; two of them arrive at the same moment, and "
      "their equal blocks are found by comparing bytes. Segment: the document is encoded once, "
      "alone, and attached behind every preamble without a copy.");
  page.add_table(ways_table(report));
  for (const auto& chart : {memory_chart(report), owners_chart(report), hits_chart(report)}) {
    if (!chart) return propagate(chart);
    page.add_chart(*chart);
  }
  page.add_section("Size");
  page.add_table(sizes_table(report));
  page.add_section("Checks");
  page.add_paragraph(
      "A difference is relative, in the Euclidean norm over one token's attention output, and the "
      "largest of all that were compared. Segment semantics: the document sees only itself; the "
      "recomputation gives each agent a private copy with keys rotated in place.");
  std::vector<ReportCheck> checks;
  for (const Check& check : report.checks) {
    checks.push_back({check.name, check.passed, measured(check.measured), measured(check.allowed)});
  }
  page.add_checks(checks);
  page.add_section("The run");
  add_facts(report, &page);
  for (const std::string& note : report.notes) page.add_paragraph("Note: " + note);
  page.add_code(command);
  return page.to_html();
}

}  // namespace emblema::agents
