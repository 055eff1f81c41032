#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/cli/counts.h"
#include "apps/cli/plan_output.h"
#include "emblema/contract/bytes.h"
#include "emblema/report/table.h"
#include "emblema/report/text.h"

namespace emblema {
namespace {

// "8.578 GiB (9,210,691,584 bytes)"
std::string size_in_words(std::uint64_t bytes) {
  if (bytes < kKiB) return format_bytes(bytes);
  return fmt::format("{} ({} bytes)", format_bytes(bytes), format_count(bytes));
}

// "61 x MLA: 70,272 bytes per token; 128k tokens take 8.578 GiB"
std::string answer_line(const CapacityPlan& plan, const RankCapacity& rank) {
  std::string line = fmt::format("{}: {} bytes per token", plan.attention,
                                 exact_in_words(rank.growing_bytes_per_token));
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
  return line + "\n";
}

std::string setting_line(const CapacityPlan& plan, const RankCapacity& rank) {
  std::string line =
      fmt::format("model {}, kv dtype {}", clean_text(plan.model), to_string(plan.kv_dtype));
  if (plan.indexer_dtype) line += fmt::format(", indexer dtype {}", to_string(*plan.indexer_dtype));
  return line + fmt::format(", profile {}, rank {}\n", plan.profile, rank.name);
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

// "61 x 73,728", "21 x 18,432 + 20 x 576"
std::string pages_in_words(const GroupCapacity& group) {
  std::string text;
  for (const PageCapacity& size : group.page_sizes) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : " + ", size.pages,
                        format_count(size.page_bytes));
  }
  return text;
}

std::string groups_table(const CapacityPlan& plan, const RankCapacity& rank) {
  if (plan.ranks[0].groups.empty()) return "no paged blocks\n";
  std::vector<Column> columns = {{"group"},
                                 {"block tokens", Align::kRight},
                                 {"pages x bytes", Align::kRight},
                                 {"block bytes", Align::kRight}};
  if (rank.pool) columns.push_back({"blocks in pool", Align::kRight});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < plan.ranks[0].groups.size(); ++i) {
    const GroupCapacity& group = plan.ranks[0].groups[i];
    std::vector<Cell> row = {group.name, format_count(group.block_tokens), pages_in_words(group),
                             format_count(group.block_bytes)};
    if (rank.pool) row.emplace_back(format_count(rank.pool->groups[i].blocks));
    table.add_row(std::move(row));
  }
  return table.to_text();
}

std::string pool_lines(const RankCapacity& rank) {
  const PoolPlan& pool = *rank.pool;
  std::string text = fmt::format("pool {}: {} tokens; {} sequence{} of {} tokens at once\n",
                                 size_in_words(*rank.pool_bytes), format_count(pool.tokens),
                                 format_count(pool.sequences), pool.sequences == 1 ? "" : "s",
                                 tokens_in_words(pool.sequence_tokens));
  if (pool.arena_bytes > 0) {
    text += fmt::format("arena {} for {} slots and the step in flight\n",
                        size_in_words(pool.arena_bytes), format_count(pool.arena_slots));
  }
  const PoolPlanOptions& options = *rank.pool_options;
  text += fmt::format("engine options: sequence_tokens {}, max_sequences {}, step_tokens {}\n",
                      options.sequence_tokens, options.max_sequences, options.step_tokens);
  return text;
}

// "latent 1,152", "compressed 1,024 / 4 tokens"
std::string stream_in_words(const StreamCapacity& stream) {
  std::string text = fmt::format("{} {}", to_string(stream.role), format_count(stream.entry_bytes));
  if (stream.stride_tokens > 1) text += fmt::format(" / {} tokens", stream.stride_tokens);
  if (stream.retention == Retention::kFixed) {
    text += fmt::format(" x {} rows", format_count(stream.retention_tokens));
  }
  if (stream.placement == Placement::kArena) text += " (arena)";
  return text;
}

std::string layers_table(const CapacityPlan& plan) {
  Table table({{"layer", Align::kRight},
               {"kind"},
               {"window", Align::kRight},
               {"bytes per token", Align::kRight},
               {"entry bytes of its streams"}});
  for (const LayerCapacity& layer : plan.layers) {
    std::string streams;
    for (const StreamCapacity& stream : layer.streams) {
      streams += (streams.empty() ? "" : ", ") + stream_in_words(stream);
    }
    if (layer.shares_with) streams = fmt::format("those of layer {}", *layer.shares_with);
    table.add_row({fmt::format("{}", layer.index), layer.kind + (layer.is_draft ? " draft" : ""),
                   layer.window_tokens ? format_count(*layer.window_tokens) : "-",
                   exact_in_words(layer.growing_bytes_per_token), streams});
  }
  return table.to_text();
}

}  // namespace

std::string plan_text(const CapacityPlan& plan, const PlanQuestion& question) {
  const RankCapacity& rank = plan.ranks.front();
  std::string text = answer_line(plan, rank) + setting_line(plan, rank) + "\n";
  text += lengths_table(rank, question.deployment.sequences) + "\n" + groups_table(plan, rank);
  if (plan.ranks[0].arena_slot_bytes > 0) {
    text += fmt::format("arena slot of each sequence: {}\n",
                        size_in_words(plan.ranks[0].arena_slot_bytes));
  }
  if (rank.pool) text += "\n" + pool_lines(rank);
  if (question.per_layer) text += "\n" + layers_table(plan);
  if (!plan.notes.empty()) text += "\n";
  for (const std::string& note : plan.notes) text += fmt::format("note: {}\n", clean_text(note));
  return text;
}

}  // namespace emblema
