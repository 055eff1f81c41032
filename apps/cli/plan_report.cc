#include "apps/cli/plan_report.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "apps/cli/counts.h"
#include "apps/cli/plan_words.h"
#include "emblema/contract/bytes.h"
#include "emblema/report/html_report.h"
#include "emblema/report/table.h"

namespace emblema {
namespace {

constexpr double kSvgWidthPx = 860;

std::string exactly(std::uint64_t bytes) {
  return bytes == 1 ? "1 byte" : format_count(bytes) + " bytes";
}

std::string gpus_in_words(const Deployment& deployment) {
  return deployment.parallel.ranks() == 1 ? "on one GPU" : "on each GPU";
}

// The longest of the lengths that bytes were asked for, or nullptr.
const LengthBytes* longest(const RankCapacity& rank) {
  const auto found = std::ranges::max_element(rank.at, {}, &LengthBytes::tokens);
  return found == rank.at.end() ? nullptr : &*found;
}

// "68.62 KiB", "4.5 B": a fraction of a byte is shown where it is not lost beside the rest.
std::string rate_in_words(const Rational& bytes) {
  if (bytes.floor() < kKiB) return exact_in_words(bytes) + " B";
  return format_bytes(bytes.floor());
}

// How many fit: the answer, where there is a pool.
void add_capacity_figures(const CapacityPlan& plan, std::vector<KeyFigure>* figures) {
  const RankCapacity& rank = plan.ranks.front();
  if (!rank.pool) return;
  figures->push_back({format_count(rank.tokens), "tokens fit as one sequence",
                      "pool of each GPU: " + size_in_words(*rank.pool_bytes)});
  figures->push_back(
      {format_count(plan.concurrency_total.value_or(rank.concurrency)),
       fmt::format("sequences of {} tokens at once", tokens_in_words(plan.context_tokens)),
       "bound by " + rank.capacity_bound_by});
}

std::vector<KeyFigure> key_figures(const PlanPicture& picture) {
  const RankCapacity& rank = picture.plan->ranks.front();
  std::vector<KeyFigure> figures;
  add_capacity_figures(*picture.plan, &figures);
  figures.push_back({rate_in_words(rank.growing_bytes_per_token),
                     "per token, " + gpus_in_words(picture.deployment),
                     exact_in_words(rank.growing_bytes_per_token) + " bytes"});
  if (const LengthBytes* at = longest(rank)) {
    figures.push_back({format_bytes(at->payload_bytes),
                       fmt::format("of one sequence of {} tokens", tokens_in_words(at->tokens)),
                       fmt::format("{}; allocated {}", exactly(at->payload_bytes),
                                   exactly(at->allocated_bytes))});
  }
  if (rank.fixed_bytes_per_sequence > 0) {
    figures.push_back({format_bytes(rank.fixed_bytes_per_sequence), "of a sequence's windows",
                       "at most " + exactly(rank.fixed_bytes_per_sequence)});
  }
  if (rank.state_bytes_per_sequence > 0) {
    figures.push_back({format_bytes(rank.state_bytes_per_sequence), "of a sequence's state",
                       exactly(rank.state_bytes_per_sequence) + ", whatever its length"});
  }
  return figures;
}

std::string parallel_in_words(const Parallelism& parallel) {
  std::string text = fmt::format("TP {}", parallel.tensor);
  if (parallel.pipeline > 1) text += fmt::format(", PP {}", parallel.pipeline);
  if (parallel.data_attention > 1) text += fmt::format(", DP {}", parallel.data_attention);
  if (parallel.decode_context > 1) text += fmt::format(", DCP {}", parallel.decode_context);
  if (parallel.prefill_context > 1) text += fmt::format(", PCP {}", parallel.prefill_context);
  return text;
}

std::vector<Fact> facts_of(const PlanPicture& picture) {
  const CapacityPlan& plan = *picture.plan;
  std::vector<Fact> facts = {{"model", plan.model},
                             {"attention", plan.attention},
                             {"number type", std::string(to_string(plan.kv_dtype))},
                             {"profile", plan.profile}};
  if (plan.indexer_dtype) {
    facts.push_back({"of index keys", std::string(to_string(*plan.indexer_dtype))});
  }
  if (plan.block_tokens > 0) facts.push_back({"tokens per block", format_count(plan.block_tokens)});
  const Deployment& deployment = picture.deployment;
  facts.push_back({"parallel", parallel_in_words(deployment.parallel)});
  facts.push_back({"GPUs", format_count(deployment.parallel.ranks() * plan.copies)});
  if (deployment.hardware) facts.push_back({"GPU", deployment.hardware->name});
  if (plan.copies > 1) facts.push_back({"copies of the model", format_count(plan.copies)});
  if (plan.ranks.size() > 1) facts.push_back({"rank that bounds", plan.ranks.front().name});
  return facts;
}

Table lengths_table(const PlanPicture& picture) {
  const std::uint64_t sequences = picture.deployment.sequences;
  std::vector<Column> columns = {{"tokens"},
                                 {"payload", Align::kRight},
                                 {"in bytes", Align::kRight},
                                 {"allocated", Align::kRight},
                                 {"in bytes", Align::kRight}};
  if (sequences > 0) {
    columns.push_back(
        {fmt::format("{} sequences, allocated", format_count(sequences)), Align::kRight});
    columns.push_back({"in bytes", Align::kRight});
  }
  Table table(std::move(columns));
  for (const LengthBytes& at : picture.plan->ranks.front().at) {
    std::vector<Cell> row = {tokens_in_words(at.tokens)};
    const auto add = [&row](std::uint64_t bytes) {
      row.emplace_back(format_bytes(bytes));
      row.emplace_back(format_count(bytes), Tone::kMuted);
    };
    add(at.payload_bytes);
    add(at.allocated_bytes);
    if (sequences > 0) add(at.allocated_bytes_total.value_or(0));
    table.add_row(std::move(row));
  }
  return table;
}

Table memory_table(const PlanPicture& picture) {
  Table table({{"part"}, {"size", Align::kRight}, {"in bytes", Align::kRight}});
  std::uint64_t sum = 0;
  for (const MemoryPart& part : memory_parts(picture.plan->ranks.front(), picture.deployment)) {
    if (part.bytes == 0) continue;
    sum += part.bytes;
    table.add_row(
        {part.name, format_bytes(part.bytes), Cell(format_count(part.bytes), Tone::kMuted)});
  }
  table.add_row({Cell("together", Tone::kStrong), Cell(format_bytes(sum), Tone::kStrong),
                 Cell(format_count(sum), Tone::kStrong)});
  return table;
}

Table tensor_table(const PlanCurves& curves) {
  const std::uint64_t context = curves.picture.plan->context_tokens;
  const bool has_pool = has_capacity({&curves, 1});
  std::vector<Column> columns = {{"TP"}, {"bytes per token", Align::kRight}};
  if (has_pool) {
    columns.push_back({"pool of each GPU", Align::kRight});
    columns.push_back({"tokens that fit", Align::kRight});
    columns.push_back({fmt::format("sequences of {}", tokens_in_words(context)), Align::kRight});
  }
  Table table(std::move(columns));
  for (const TensorPoint& point : curves.by_tensor) {
    if (!point.refused.empty()) continue;
    const bool is_own = point.tensor == curves.picture.deployment.parallel.tensor;
    std::vector<Cell> row = {fmt::format("{}{}", point.tensor, is_own ? " (this plan)" : ""),
                             exact_in_words(point.growing_bytes_per_token)};
    if (has_pool) {
      row.emplace_back(format_bytes(point.pool_bytes.value_or(0)));
      row.emplace_back(format_count(point.tokens.value_or(0)));
      row.emplace_back(format_count(point.concurrency.value_or(0)));
    }
    table.add_row(std::move(row));
  }
  return table;
}

Table layers_table(const CapacityPlan& plan) {
  Table table({{"layer"},
               {"kind"},
               {"window", Align::kRight},
               {"bytes per token", Align::kRight},
               {"bytes of an entry of its streams"}});
  for (const LayerCapacity& layer : plan.layers) {
    table.add_row({fmt::format("{}", layer.index), layer.kind + (layer.is_draft ? " draft" : ""),
                   layer.window_tokens ? format_count(*layer.window_tokens) : "-",
                   exact_in_words(layer.growing_bytes_per_token), streams_in_words(layer)});
  }
  return table;
}

std::string attainable_in_words(const RooflinePicture& roof, double flop_per_byte) {
  return format_value(std::min(roof.flop_per_second, flop_per_byte * roof.bytes_per_second),
                      Unit::kFlopRate);
}

Table roofline_table(std::span<const PlanCurves> models) {
  std::vector<Column> columns = {
      {""}, {"FLOP per byte", Align::kRight}, {"attainable", Align::kRight}, {"bound by"}};
  const bool is_one = models.size() == 1;
  if (!is_one) columns.insert(columns.begin(), {"model"});
  Table table(std::move(columns));
  for (const PlanCurves& model : models) {
    if (!model.picture.roofline) continue;
    const RooflinePicture& roof = *model.picture.roofline;
    for (const RooflinePicture::Point& point : roof.points) {
      const bool is_low = point.flop_per_byte < roof.flop_per_second / roof.bytes_per_second;
      std::vector<Cell> row = {point.label, format_value(point.flop_per_byte, Unit::kNumber),
                               attainable_in_words(roof, point.flop_per_byte),
                               is_low ? "memory bandwidth" : "compute"};
      if (!is_one) row.insert(row.begin(), model.picture.plan->model);
      table.add_row(std::move(row));
    }
  }
  return table;
}

Table side_by_side(std::span<const PlanCurves> models) {
  const bool has_pool = has_capacity(models);
  std::vector<Column> columns = {{"model"},
                                 {"attention"},
                                 {"bytes per token", Align::kRight},
                                 {"windows up to", Align::kRight},
                                 {"state", Align::kRight}};
  if (has_pool) {
    columns.push_back({"tokens that fit", Align::kRight});
    columns.push_back({"sequences at once", Align::kRight});
  }
  Table table(std::move(columns));
  for (const PlanCurves& model : models) {
    const CapacityPlan& plan = *model.picture.plan;
    const RankCapacity& rank = plan.ranks.front();
    std::vector<Cell> row = {
        plan.model, plan.attention, exact_in_words(rank.growing_bytes_per_token),
        format_count(rank.fixed_bytes_per_sequence), format_count(rank.state_bytes_per_sequence)};
    if (has_pool) {
      row.emplace_back(rank.pool ? format_count(rank.tokens) : "-");
      row.emplace_back(rank.pool ? fmt::format("{} of {}",
                                               format_count(plan.concurrency_total.value_or(0)),
                                               tokens_in_words(plan.context_tokens))
                                 : "-");
    }
    table.add_row(std::move(row));
  }
  return table;
}

template <class Chart>
Status add_chart(const Result<Chart>& chart, HtmlReport* html) {
  if (!chart) return propagate(chart);
  html->add_chart(*chart);
  return {};
}

Status add_memory(const PlanPicture& picture, HtmlReport* html) {
  const RankCapacity& rank = picture.plan->ranks.front();
  if (rank.pool) {
    if (const Status ok = add_chart(memory_chart(picture), html); !ok) return ok;
    html->add_table(memory_table(picture), "Of rank " + rank.name);
  }
  if (rank.groups.empty()) {
    html->add_paragraph("Nothing of this model is paged: it keeps no blocks.");
  } else {
    html->add_table(groups_table(rank), "Blocks");
  }
  if (rank.arena_slot_bytes > 0) {
    html->add_paragraph("Beside its blocks each sequence has an arena slot of " +
                        size_in_words(rank.arena_slot_bytes) + ".");
  }
  if (!rank.pool) html->add_paragraph("How many fit: pass --pool, or --gpu.");
  return {};
}

// What a number of tensor ranks is refused for; long, so not in the table.
void add_refusals(const PlanCurves& curves, HtmlReport* html) {
  for (const TensorPoint& point : curves.by_tensor) {
    if (point.refused.empty()) continue;
    html->add_paragraph(fmt::format("TP {} is no answer: {}.", point.tensor, point.refused));
  }
}

Status add_tensor_charts(std::span<const PlanCurves> models, HtmlReport* html) {
  if (const Status ok = add_chart(rate_chart(models), html); !ok) return ok;
  if (!has_capacity(models)) {
    html->add_paragraph("Tokens and sequences against TP: pass --pool, or --gpu.");
    return {};
  }
  if (const Status ok = add_chart(tokens_chart(models), html); !ok) return ok;
  return add_chart(concurrency_chart(models), html);
}

Status add_roofline(std::span<const PlanCurves> models, HtmlReport* html) {
  html->add_section("Roofline");
  const bool is_asked = std::ranges::any_of(
      models, [](const PlanCurves& model) { return model.picture.roofline.has_value(); });
  if (!is_asked) {
    html->add_paragraph(
        "What bounds attention, memory or arithmetic: pass --gpu, or --bandwidth "
        "and --flops.");
    return {};
  }
  if (const Status ok = add_chart(roofline_chart(models), html); !ok) return ok;
  html->add_table(roofline_table(models));
  return {};
}

void add_notes(const PlanCurves& curves, HtmlReport* html) {
  const CapacityPlan& plan = *curves.picture.plan;
  if (plan.notes.empty() && plan.weights_formula.empty()) return;
  html->add_section("What was assumed");
  if (!plan.weights_formula.empty()) {
    html->add_paragraph(fmt::format(
        "Weights{}: {}", plan.are_weights_estimated ? ", estimated" : "", plan.weights_formula));
  }
  for (const std::string& note : plan.notes) html->add_paragraph("Note: " + note + ".");
}

// The same question under other engines' rules.
void add_engines(const PlanPicture& picture, HtmlReport* html) {
  if (!picture.engines) return;
  html->add_section("Other engines");
  html->add_table(*picture.engines, "In the same memory, of " + picture.plan->model);
  std::string lines;
  for (const std::string& line : picture.engine_lines) lines += line + "\n";
  if (!lines.empty()) html->add_code(lines);
}

void add_layers(const PlanPage& page, const CapacityPlan& plan, HtmlReport* html) {
  if (!page.per_layer) return;
  html->add_section("Every layer");
  html->add_table(layers_table(plan), "On one GPU");
}

// What only one model's plan can say; several follow one another.
Status add_model(const PlanPage& page, const PlanCurves& curves, HtmlReport* html) {
  if (const Status ok = add_chart(kinds_chart(curves), html); !ok) return ok;
  html->add_table(lengths_table(curves.picture),
                  "One sequence, " + gpus_in_words(curves.picture.deployment));
  html->add_section(page.plans.size() == 1 ? "Memory" : "Memory of " + curves.picture.plan->model);
  return add_memory(curves.picture, html);
}

Result<HtmlReport> single_page(const PlanPage& page, const PlanCurves& curves) {
  const std::span<const PlanCurves> alone(&curves, 1);
  const CapacityPlan& plan = *curves.picture.plan;
  HtmlReport html(
      {.title = plan.model + ": what its cache takes", .subtitle = curves.picture.headline});
  html.add_key_figures(key_figures(curves.picture));
  html.add_facts(facts_of(curves.picture));
  html.add_section("Bytes");
  if (const Status ok = add_model(page, curves, &html); !ok) return propagate(ok);
  html.add_section("Tensor parallelism");
  if (const Status ok = add_tensor_charts(alone, &html); !ok) return propagate(ok);
  html.add_table(tensor_table(curves), "On each GPU, at each TP");
  add_refusals(curves, &html);
  if (const Status ok = add_roofline(alone, &html); !ok) return propagate(ok);
  add_layers(page, plan, &html);
  add_engines(curves.picture, &html);
  add_notes(curves, &html);
  return html;
}

Result<HtmlReport> comparison_page(const PlanPage& page, std::span<const PlanCurves> models) {
  std::string names;
  for (const PlanCurves& model : models) {
    names += (names.empty() ? "" : ", ") + model.picture.plan->model;
  }
  HtmlReport html({.title = "What their caches take", .subtitle = names});
  html.add_section("Side by side");
  html.add_table(side_by_side(models), gpus_in_words(page.plans.front().deployment) == "on one GPU"
                                           ? "On one GPU"
                                           : "On each GPU");
  if (const Status ok = add_chart(bytes_chart(models), &html); !ok) return propagate(ok);
  html.add_section("Tensor parallelism");
  if (const Status ok = add_tensor_charts(models, &html); !ok) return propagate(ok);
  if (const Status ok = add_roofline(models, &html); !ok) return propagate(ok);
  for (const PlanCurves& model : models) {
    html.add_section(model.picture.plan->model);
    html.add_paragraph(model.picture.headline);
    html.add_key_figures(key_figures(model.picture));
    html.add_facts(facts_of(model.picture));
    if (const Status ok = add_model(page, model, &html); !ok) return propagate(ok);
    html.add_table(tensor_table(model), "On each GPU, at each TP");
    add_refusals(model, &html);
    add_layers(page, *model.picture.plan, &html);
    add_engines(model.picture, &html);
    add_notes(model, &html);
  }
  return html;
}

Result<std::vector<PlanCurves>> all_curves(const PlanPage& page) {
  std::vector<PlanCurves> all;
  for (const PlanPicture& picture : page.plans) {
    auto curves = curves_of(picture);
    if (!curves) return propagate(curves);
    all.push_back(std::move(*curves));
  }
  return all;
}

Result<LineChart> chart_of(std::span<const PlanCurves> models, PlanChart chart) {
  switch (chart) {
    case PlanChart::kBytes:
      return models.size() == 1 ? kinds_chart(models.front()) : bytes_chart(models);
    case PlanChart::kCapacity:
      return has_capacity(models) ? tokens_chart(models) : rate_chart(models);
    case PlanChart::kRoofline:
      break;
  }
  return roofline_chart(models);
}

}  // namespace

Result<std::string> plan_html(const PlanPage& page) {
  const auto models = all_curves(page);
  if (!models) return propagate(models);
  auto html =
      models->size() == 1 ? single_page(page, models->front()) : comparison_page(page, *models);
  if (!html) return propagate(html);
  html->set_footer("Made by: " + page.command);
  return html->to_html();
}

Result<std::string> plan_svg(const PlanPage& page, PlanChart chart) {
  const auto models = all_curves(page);
  if (!models) return propagate(models);
  const auto picture = chart_of(*models, chart);
  if (!picture) return propagate(picture);
  return picture->to_svg({.width_px = kSvgWidthPx, .standalone = true});
}

}  // namespace emblema
