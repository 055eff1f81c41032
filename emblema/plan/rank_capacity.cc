#include "emblema/plan/rank_capacity.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"

namespace emblema {
namespace {

std::uint64_t tokens_of_rank(std::uint64_t tokens, const Parallelism& parallel) {
  return local_tokens(tokens, 0, parallel.decode_context, parallel.interleave);
}

// The longest sequence of which the first rank, which holds most, has at most `rows` tokens.
std::uint64_t tokens_over_ranks(std::uint64_t rows, const Parallelism& parallel) {
  const std::uint64_t ranks = parallel.decode_context;
  if (ranks == 1) return rows;
  const std::uint64_t run = parallel.interleave;
  const auto rounds = checked_mul(rows / run, ranks * run);
  return checked_add(rounds.value_or(UINT64_MAX), rows % run).value_or(UINT64_MAX);
}

Result<LengthBytes> bytes_at(const PlannedRank& rank, std::uint64_t tokens,
                             const Deployment& deployment) {
  LengthBytes at;
  at.tokens = tokens;
  const std::uint64_t local = tokens_of_rank(tokens, deployment.parallel);
  const auto payload = rank.geometry.bytes_per_sequence(local);
  if (!payload) return propagate(payload);
  const auto allocated = rank.layout.allocated_bytes_per_sequence(local);
  if (!allocated) return propagate(allocated);
  const auto growing = rank.geometry.growing_bytes_per_sequence(local);
  if (!growing) return propagate(growing);
  at.payload_bytes = *payload;
  at.growing_bytes = *growing;
  at.allocated_bytes = *allocated;
  const std::uint64_t sequences = deployment.sequences;
  if (sequences == 0) return at;
  const std::string what = fmt::format("bytes of {} sequences of {} tokens", sequences, tokens);
  const auto payload_total = mul_bytes(*payload, sequences, what);
  if (!payload_total) return propagate(payload_total);
  const auto allocated_total = mul_bytes(*allocated, sequences, what);
  if (!allocated_total) return propagate(allocated_total);
  at.payload_bytes_total = *payload_total;
  at.allocated_bytes_total = *allocated_total;
  return at;
}

std::vector<PageCapacity> page_sizes_of(const BlockLayout& group) {
  std::vector<PageCapacity> sizes;
  std::map<std::uint64_t, std::size_t> known;
  for (const StreamPage& page : group.pages) {
    const auto [size, is_new] = known.emplace(page.page_bytes, sizes.size());
    if (is_new) sizes.push_back({page.page_bytes, 0});
    ++sizes[size->second].pages;
  }
  return sizes;
}

void describe_layout(const ModelLayout& layout, RankCapacity* rank) {
  rank->arena_slot_bytes = layout.arena.slot_bytes;
  for (const BlockLayout& group : layout.groups) {
    rank->groups.push_back({group.group_name, group.retention, group.window_tokens,
                            group.block_tokens, group.block_bytes, group.pages.size(),
                            page_sizes_of(group)});
  }
}

std::string range_of(std::uint32_t ranks) {
  return ranks == 1 ? std::string("tp0") : fmt::format("tp0..{}", ranks - 1);
}

Status measure_sequence(const Deployment& deployment, PlannedRank* rank) {
  const auto growing = rank->geometry.growing_bytes_per_token();
  if (!growing) return propagate(growing);
  const auto fixed = rank->geometry.fixed_bytes_per_sequence();
  if (!fixed) return propagate(fixed);
  const auto state = rank->geometry.state_bytes_per_sequence();
  if (!state) return propagate(state);
  rank->capacity.growing_bytes_per_token = *growing;
  rank->capacity.fixed_bytes_per_sequence = *fixed;
  rank->capacity.state_bytes_per_sequence = *state;
  for (const std::uint64_t tokens : deployment.at_tokens) {
    auto at = bytes_at(*rank, tokens, deployment);
    if (!at) return propagate(at);
    rank->capacity.at.push_back(*at);
  }
  return {};
}

PoolPlanOptions options_of(const PlannedRank& rank, const Deployment& deployment) {
  PoolPlanOptions options;
  options.max_positions = rank.geometry.model().max_positions;
  options.step_tokens = deployment.step_tokens;
  options.snapshot_bytes = deployment.snapshot_bytes.value_or(
      default_snapshot_bytes(rank.layout, *rank.capacity.pool_bytes));
  if (deployment.sequences > 0) options.max_sequences = deployment.sequences;
  return options;
}

// With an arena, slots and blocks compete for the pool: the largest number of sequences whose slots
// leave blocks for as many. Without one, plan_pool's own count, which the engine is then told.
Result<PoolPlan> most_sequences(const ModelLayout& layout, std::uint64_t pool_bytes,
                                PoolPlanOptions* options) {
  if (layout.arena.slot_bytes == 0) {
    options->max_sequences = 1;
    const auto plan = plan_pool(layout, pool_bytes, *options);
    if (!plan) return plan;
    options->max_sequences = std::max<std::uint64_t>(1, plan->sequences);
    return plan_pool(layout, pool_bytes, *options);
  }
  std::uint64_t low = 1;
  std::uint64_t high = std::max<std::uint64_t>(1, pool_bytes / layout.arena.slot_bytes);
  while (low < high) {
    const std::uint64_t middle = low + (high - low + 1) / 2;
    options->max_sequences = middle;
    const auto plan = plan_pool(layout, pool_bytes, *options);
    if (!plan) return plan;
    if (plan->sequences >= middle) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  options->max_sequences = low;
  return plan_pool(layout, pool_bytes, *options);
}

// What the next sequence would lack.
std::string bound_of(const ModelLayout& layout, const PoolPlan& pool) {
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    const BlockLayout& group = layout.groups[i];
    if (group.retention != Retention::kGrowing) continue;
    const std::uint64_t need = group.blocks_at(pool.sequence_tokens);
    if (need > 0 && pool.groups[i].blocks / need <= pool.sequences) {
      return fmt::format("blocks of group {}", group.group_name);
    }
  }
  if (pool.arena_slots > 0 && pool.sequences == pool.arena_slots) return "arena slots";
  for (const BlockLayout& group : layout.groups) {
    if (group.retention != Retention::kGrowing) {
      return fmt::format("blocks of group {}", group.group_name);
    }
  }
  return "nothing";
}

}  // namespace

Result<ModelGeometry> rank_geometry(const ModelConfig& model, const Deployment& deployment,
                                    const Stage& stage) {
  GeometryOptions options;
  options.kv_dtype = deployment.kv_dtype;
  options.indexer_dtype = deployment.indexer_dtype;
  options.speculative_mtp = deployment.speculative_mtp && stage.is_last;
  options.block_tokens = deployment.block_tokens;
  options.first_layer = stage.first_layer;
  options.layers = stage.layers;
  options.state_dtype = deployment.state_dtype;
  options.encoder_tokens = deployment.encoder_tokens;
  options.tensor_parallel = deployment.parallel.attention_tensor();
  return ModelGeometry::from(model, options);
}

Result<PlannedRank> measure_rank(const ModelConfig& model, const Deployment& deployment,
                                 const Stage& stage) {
  auto geometry = rank_geometry(model, deployment, stage);
  if (!geometry) return propagate(geometry);
  auto layout = ModelLayout::with_profile(*geometry, deployment.profile);
  if (!layout) return propagate(layout);
  PlannedRank rank{std::move(*geometry), std::move(*layout), {}};
  rank.capacity.stage = stage;
  rank.capacity.ranks = static_cast<std::uint32_t>(deployment.parallel.stage_ranks());
  rank.capacity.name = range_of(deployment.parallel.tensor);
  describe_layout(rank.layout, &rank.capacity);
  if (const auto ok = measure_sequence(deployment, &rank); !ok) return propagate(ok);
  return rank;
}

Result<std::uint64_t> longest_alone(const PlannedRank& rank, const Deployment& deployment) {
  // Decided once, with one slot, before slots are multiplied.
  PoolPlanOptions alone = options_of(rank, deployment);
  alone.max_sequences = 1;
  alone.max_positions = tokens_of_rank(alone.max_positions, deployment.parallel);
  const auto plan = plan_pool(rank.layout, *rank.capacity.pool_bytes, alone);
  if (!plan) return propagate(plan);
  const std::uint64_t longest = tokens_over_ranks(plan->sequence_tokens, deployment.parallel);
  const std::uint64_t positions = rank.geometry.model().max_positions;
  return positions == 0 ? longest : std::min(longest, positions);
}

Status divide_pool(std::uint64_t context_tokens, const Deployment& deployment, PlannedRank* rank) {
  PoolPlanOptions options = options_of(*rank, deployment);
  options.sequence_tokens = tokens_of_rank(context_tokens, deployment.parallel);
  const std::uint64_t pool_bytes = *rank->capacity.pool_bytes;
  const auto plan = deployment.sequences > 0 ? plan_pool(rank->layout, pool_bytes, options)
                                             : most_sequences(rank->layout, pool_bytes, &options);
  if (!plan) return propagate(plan);
  rank->capacity.pool = *plan;
  rank->capacity.pool_options = options;
  // Where every layer has a window one sequence is no measure: it may be as long as it likes.
  rank->capacity.tokens =
      std::max(tokens_over_ranks(plan->tokens, deployment.parallel),
               checked_mul(plan->sequences, context_tokens).value_or(UINT64_MAX));
  rank->capacity.concurrency = plan->sequences;
  rank->capacity.capacity_bound_by = bound_of(rank->layout, *plan);
  return {};
}

}  // namespace emblema
