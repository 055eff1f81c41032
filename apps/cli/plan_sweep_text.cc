// Rows over contexts and tensor degrees, and where grouped heads overtake latents.
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/cli/counts.h"
#include "apps/cli/plan_output.h"
#include "emblema/contract/bytes.h"
#include "emblema/plan/crossover.h"
#include "emblema/plan/printed_number.h"
#include "emblema/report/table.h"
#include "emblema/report/text.h"

namespace emblema {
namespace {

std::vector<Cell> sweep_row(const SweepRow& one, const std::string& value) {
  if (!one.plan) return {value, "-", "-", "-", "-", "-", "-", "-"};
  const RankCapacity& rank = one.plan->ranks.front();
  const LengthBytes& at = rank.at.front();
  return {value,
          exact_in_words(rank.growing_bytes_per_token),
          format_bytes(at.payload_bytes),
          format_bytes(at.allocated_bytes),
          rank.pool ? format_count(rank.tokens) : "-",
          rank.pool ? format_count(one.plan->concurrency_total.value_or(0)) : "-",
          fmt::format("{:.1f}", rank.flop_per_byte.approximate()),
          rank.roofline ? std::string(to_string(rank.roofline->bound)) : "-"};
}

Result<TensorCrossover> crossover_of(const PlanAnswer& grouped, const PlanAnswer& latent) {
  Deployment undivided = grouped.deployment;
  undivided.parallel = {};
  const Stage all{0, grouped.deployment.layers, true};
  const auto of_grouped = rank_geometry(grouped.model, undivided, all);
  if (!of_grouped) return propagate(of_grouped);
  const auto of_latent = rank_geometry(latent.model, undivided, all);
  if (!of_latent) return propagate(of_latent);
  return tensor_crossover(*of_grouped, *of_latent, *grouped.plan.ranks.front().pool_bytes);
}

std::string crossover_text(const PlannedCrossover& one) {
  const std::string grouped = clean_text(one.grouped);
  const std::string latent = clean_text(one.latent);
  std::string text = fmt::format(
      "in {} per GPU, whatever weights leave, {} holds more tokens than {} from TP {} on",
      format_bytes(one.pool_bytes), grouped, latent, rounded_text(one.crossover.real_degree, 2));
  if (!one.crossover.first_degree) return text + ", which its heads do not reach\n";
  text += fmt::format("; TP {} is the first that divides the heads of both\n",
                      *one.crossover.first_degree);
  Table table({{"TP", Align::kRight},
               {grouped + " bytes", Align::kRight},
               {grouped + " tokens", Align::kRight},
               {latent + " bytes", Align::kRight},
               {latent + " tokens", Align::kRight}});
  for (const TensorDegree& degree : one.crossover.degrees) {
    table.add_row({fmt::format("{}", degree.degree), exact_in_words(degree.grouped_bytes_per_token),
                   format_count(degree.grouped_tokens),
                   exact_in_words(degree.latent_bytes_per_token),
                   format_count(degree.latent_tokens)});
  }
  return text + table.to_text();
}

bool grows_in_heads(const PlanAnswer& answer) {
  return answer.model.family == AttentionFamily::kGrouped &&
         answer.plan.ranks.front().growing_bytes_per_token.numerator() > 0;
}

}  // namespace

std::string sweep_text(const PlanAnswer& answer) {
  const bool over_ranks = answer.axis == SweepAxis::kTensor;
  Table table({{over_ranks ? "TP" : "context", Align::kRight},
               {"bytes per token", Align::kRight},
               {"payload", Align::kRight},
               {"allocated", Align::kRight},
               {"tokens", Align::kRight},
               {"at once", Align::kRight},
               {"FLOP per byte", Align::kRight},
               {"bound by"}});
  std::string refusals;
  for (const SweepRow& one : answer.sweep) {
    const std::string value =
        over_ranks ? fmt::format("{}", one.value) : tokens_in_words(one.value);
    table.add_row(sweep_row(one, value));
    if (!one.plan) refusals += fmt::format("TP {}: {}\n", one.value, clean_text(one.refusal));
  }
  std::string text;
  if (over_ranks) {
    text = fmt::format("per rank, sequences of {} tokens\n",
                       tokens_in_words(answer.plan.step_context_tokens));
  }
  return text + table.to_text() + refusals;
}

Result<std::vector<PlannedCrossover>> crossovers_of(std::span<const PlanAnswer> answers) {
  std::vector<PlannedCrossover> crossovers;
  for (const PlanAnswer& grouped : answers) {
    if (!grows_in_heads(grouped) || !grouped.plan.ranks.front().pool_bytes) continue;
    for (const PlanAnswer& latent : answers) {
      if (latent.model.family != AttentionFamily::kLatent) continue;
      auto crossover = crossover_of(grouped, latent);
      if (!crossover) return propagate(crossover);
      crossovers.push_back({grouped.plan.model, latent.plan.model, std::move(*crossover),
                            *grouped.plan.ranks.front().pool_bytes});
    }
  }
  return crossovers;
}

std::string crossovers_text(std::span<const PlannedCrossover> crossovers) {
  std::string text;
  for (const PlannedCrossover& one : crossovers) text += "\n" + crossover_text(one);
  return text;
}

}  // namespace emblema
