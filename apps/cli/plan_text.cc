#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/cli/counts.h"
#include "apps/cli/plan_output.h"
#include "apps/cli/plan_words.h"
#include "emblema/contract/bytes.h"
#include "emblema/plan/explain.h"
#include "emblema/report/table.h"
#include "emblema/report/text.h"

namespace emblema {
namespace {

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", format_count(count), count == 1 ? one : many);
}

// "70,272 bytes per token, windows up to 4.500 MiB; 128k tokens take 8.578 GiB"
std::string bytes_in_words(const RankCapacity& rank) {
  std::string line =
      fmt::format("{} bytes per token", exact_in_words(rank.growing_bytes_per_token));
  if (rank.fixed_bytes_per_sequence > 0) {
    line += fmt::format(", windows up to {}", format_bytes(rank.fixed_bytes_per_sequence));
  }
  if (rank.state_bytes_per_sequence > 0) {
    line += fmt::format(", state {}", format_bytes(rank.state_bytes_per_sequence));
  }
  const auto longest =
      std::max_element(rank.at.begin(), rank.at.end(),
                       [](const auto& a, const auto& b) { return a.tokens < b.tokens; });
  if (longest != rank.at.end()) {
    line += fmt::format("; {} token{} {}", tokens_in_words(longest->tokens),
                        longest->tokens == 1 ? " takes" : "s take",
                        format_bytes(longest->payload_bytes));
  }
  return line;
}

// "611,136 tokens per rank; 4 requests of 128k at once, bound by blocks of group growing"
std::string capacity_in_words(const CapacityPlan& plan, const Deployment& deployment) {
  const RankCapacity& rank = plan.ranks.front();
  const bool one_gpu = deployment.parallel.ranks() == 1 && plan.copies == 1;
  std::string line = fmt::format("{} tokens{}", format_count(rank.tokens),
                                 one_gpu                                   ? ""
                                 : deployment.parallel.decode_context == 1 ? " per rank"
                                                                           : " over dcp ranks");
  line += fmt::format("; {} of {} at once", counted(*plan.concurrency_total, "request", "requests"),
                      tokens_in_words(plan.context_tokens));
  return line + fmt::format(", bound by {}", rank.capacity_bound_by);
}

std::string setting_line(const CapacityPlan& plan, const Deployment& deployment) {
  const RankCapacity& rank = plan.ranks.front();
  std::string line =
      fmt::format("model {}, kv dtype {}", clean_text(plan.model), to_string(plan.kv_dtype));
  if (plan.indexer_dtype) line += fmt::format(", indexer dtype {}", to_string(*plan.indexer_dtype));
  line += fmt::format(", profile {}, rank {}", plan.profile, rank.name);
  const Parallelism& parallel = deployment.parallel;
  if (parallel.data_attention > 1)
    line += fmt::format(", dp-attention {}", parallel.data_attention);
  if (parallel.decode_context > 1) line += fmt::format(", dcp {}", parallel.decode_context);
  if (parallel.prefill_context > 1) line += fmt::format(", pcp {}", parallel.prefill_context);
  if (plan.copies > 1) line += fmt::format(", {} copies of the model", plan.copies);
  return line + "\n";
}

std::string lengths_table(const RankCapacity& rank, std::uint64_t sequences) {
  std::vector<Column> columns = {{"tokens", Align::kRight},
                                 {"payload", Align::kRight},
                                 {"bytes", Align::kRight},
                                 {"allocated", Align::kRight},
                                 {"bytes", Align::kRight}};
  if (sequences > 0) {
    columns.push_back({fmt::format("{} sequences", format_count(sequences)), Align::kRight});
    columns.push_back({"bytes", Align::kRight});
    columns.push_back({"allocated", Align::kRight});
    columns.push_back({"bytes", Align::kRight});
  }
  Table table(std::move(columns));
  for (const LengthBytes& at : rank.at) {
    std::vector<Cell> row = {tokens_in_words(at.tokens)};
    const auto add = [&row](std::uint64_t bytes) {
      row.emplace_back(format_bytes(bytes));
      row.emplace_back(format_count(bytes));
    };
    add(at.payload_bytes);
    add(at.allocated_bytes);
    if (at.payload_bytes_total) add(*at.payload_bytes_total);
    if (at.allocated_bytes_total) add(*at.allocated_bytes_total);
    table.add_row(std::move(row));
  }
  return table.to_text();
}

// One line for each stage, the one that bounds the answer first.
std::string ranks_table(const CapacityPlan& plan) {
  Table table({{"rank"},
               {"layers", Align::kRight},
               {"bytes per token", Align::kRight},
               {"weights", Align::kRight},
               {"pool", Align::kRight},
               {"tokens", Align::kRight},
               {"at once", Align::kRight},
               {"FLOP per byte", Align::kRight}});
  for (const RankCapacity& rank : plan.ranks) {
    const auto size = [](const std::optional<std::uint64_t>& bytes) {
      return bytes ? format_bytes(*bytes) : std::string("-");
    };
    table.add_row({rank.name,
                   fmt::format("{}..{}", rank.stage.first_layer,
                               rank.stage.first_layer + rank.stage.layers - 1),
                   exact_in_words(rank.growing_bytes_per_token), size(rank.weight_bytes),
                   size(rank.pool_bytes), rank.pool ? format_count(rank.tokens) : "-",
                   rank.pool ? format_count(rank.concurrency) : "-",
                   fmt::format("{:.1f}", rank.flop_per_byte.approximate())});
  }
  return table.to_text();
}

std::string pool_lines(const PlanAnswer& answer) {
  const RankCapacity& rank = answer.plan.ranks.front();
  const PoolPlan& pool = *rank.pool;
  std::string text;
  if (!answer.deployment.pool_bytes) {
    text += fmt::format(
        "pool: {} of {}, less weights{} {}{}\n", answer.deployment.memory_share.exact(),
        format_bytes(*answer.deployment.hardware->memory_bytes),
        answer.plan.are_weights_estimated ? " (estimated)" : "", format_bytes(*rank.weight_bytes),
        answer.deployment.reserve_bytes > 0
            ? " and reserve " + format_bytes(answer.deployment.reserve_bytes)
            : "");
  }
  text += fmt::format("pool {}: {} tokens; {} sequence{} of {} tokens at once\n",
                      size_in_words(*rank.pool_bytes), format_count(rank.tokens),
                      format_count(rank.concurrency), rank.concurrency == 1 ? "" : "s",
                      tokens_in_words(answer.plan.context_tokens));
  if (pool.arena_bytes > 0) {
    text += fmt::format("arena {} for {} slots and the step in flight\n",
                        size_in_words(pool.arena_bytes), format_count(pool.arena_slots));
  }
  const PoolPlanOptions& options = *rank.pool_options;
  text += fmt::format(
      "engine options: sequence_tokens {}, max_sequences {}, step_tokens {}, snapshot_bytes {}\n",
      options.sequence_tokens, options.max_sequences, options.step_tokens, options.snapshot_bytes);
  return text;
}

// "fewer KV heads than query heads save 9,395,240,960 parameters of W_K and W_V, 17.50 GiB ..."
std::string saving_line(const CapacityPlan& plan) {
  if (!plan.key_value_weights || plan.key_value_weights->saved() == 0) return {};
  const std::uint64_t saved = plan.key_value_weights->saved();
  const auto bytes = checked_mul(saved, 2);
  return fmt::format("grouped heads save {} parameters of W_K and W_V{}\n", format_count(saved),
                     bytes ? fmt::format(", {} in bf16", format_bytes(*bytes)) : "");
}

// "one decode step over 131,072 rows: 241.8 FLOP per byte; h100: ridge 295.3, bound by ..."
std::string roofline_line(const PlanAnswer& answer) {
  const RankCapacity& rank = answer.plan.ranks.front();
  if (rank.step.bytes == 0) return {};
  std::string line = fmt::format(
      "attention of a decode step over {} rows: {:.4g} GFLOP, {} read, {:.1f} FLOP per byte",
      tokens_in_words(rank.step.context_tokens), static_cast<double>(rank.step.flop) / 1e9,
      format_bytes(rank.step.bytes), rank.flop_per_byte.approximate());
  if (!rank.roofline) return line + "\n";
  return line +
         fmt::format("\n{}: ridge {:.1f} FLOP per byte, so bound by {}; at least {:.1f} us\n",
                     clean_text(answer.deployment.hardware->name),
                     rank.roofline->ridge.approximate(), to_string(rank.roofline->bound),
                     rank.roofline->least_seconds.approximate() * 1e6);
}

std::string explanations(const PlanAnswer& answer) {
  std::string text;
  std::string rank = "-";
  for (const ExplainedFigure& figure : explain(answer.plan, answer.deployment)) {
    if (figure.rank != rank) {
      rank = figure.rank;
      text += rank.empty() ? "all GPUs\n" : rank + "\n";
    }
    text += fmt::format("  {} = {}\n      {}\n", figure.figure, figure.value,
                        clean_text(figure.formula));
  }
  return text;
}

std::string layers_table(const CapacityPlan& plan) {
  Table table({{"layer", Align::kRight},
               {"kind"},
               {"window", Align::kRight},
               {"bytes per token", Align::kRight},
               {"entry bytes of its streams"}});
  for (const LayerCapacity& layer : plan.layers) {
    table.add_row({fmt::format("{}", layer.index), layer.kind + (layer.is_draft ? " draft" : ""),
                   layer.window_tokens ? format_count(*layer.window_tokens) : "-",
                   exact_in_words(layer.growing_bytes_per_token), streams_in_words(layer)});
  }
  return table.to_text();
}

}  // namespace

std::string plan_headline(const PlanAnswer& answer) {
  const CapacityPlan& plan = answer.plan;
  const RankCapacity& rank = plan.ranks.front();
  if (!plan.concurrency_total) return fmt::format("{}: {}", plan.attention, bytes_in_words(rank));
  return fmt::format("{}: {}", plan.attention, capacity_in_words(plan, answer.deployment));
}

std::string plan_text(const PlanAnswer& answer, const PlanView& view) {
  const CapacityPlan& plan = answer.plan;
  const RankCapacity& rank = plan.ranks.front();
  std::string text = plan_headline(answer) + "\n";
  if (plan.concurrency_total) text += bytes_in_words(rank) + "\n";
  text += setting_line(plan, answer.deployment) + "\n";
  text += lengths_table(rank, answer.deployment.sequences) + "\n" +
          (rank.groups.empty() ? "no paged blocks\n" : groups_table(rank).to_text());
  if (rank.arena_slot_bytes > 0) {
    text += fmt::format("arena slot of each sequence: {}\n", size_in_words(rank.arena_slot_bytes));
  }
  if (answer.deployment.parallel.ranks() > 1) text += "\n" + ranks_table(plan);
  if (rank.pool) text += "\n" + pool_lines(answer);
  if (const std::string line = roofline_line(answer); !line.empty()) text += "\n" + line;
  text += saving_line(plan);
  if (!answer.sweep.empty()) text += "\n" + sweep_text(answer);
  if (view.explain) text += "\n" + explanations(answer);
  if (view.per_layer) text += "\n" + layers_table(plan);
  if (!plan.notes.empty()) text += "\n";
  for (const std::string& note : plan.notes) text += fmt::format("note: {}\n", clean_text(note));
  return text;
}

}  // namespace emblema
