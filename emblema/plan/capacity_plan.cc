#include "emblema/plan/capacity_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/layout/block_layout.h"

namespace emblema {
namespace {

constexpr std::uint64_t kSequencesMax = std::uint64_t{1} << 32;
constexpr std::uint64_t kSnapshotShare = 8;  // one part in so many of the pool

Status check_count(std::string_view field, std::uint64_t value, std::uint64_t low,
                   std::uint64_t high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("{} is {}; allowed: {} to {}", field, value, low, high));
}

Status check_deployment(const Deployment& deployment) {
  for (const std::uint64_t tokens : deployment.at_tokens) {
    if (const auto ok = check_count("at", tokens, 1, kSequenceTokensMax); !ok) return ok;
  }
  if (const auto ok = check_count("context", deployment.context_tokens, 0, kSequenceTokensMax);
      !ok) {
    return ok;
  }
  if (const auto ok = check_count("step_tokens", deployment.step_tokens, 1, kSequenceTokensMax);
      !ok) {
    return ok;
  }
  if (const auto ok =
          check_count("encoder_tokens", deployment.encoder_tokens, 0, kSequenceTokensMax);
      !ok) {
    return ok;
  }
  return check_count("sequences", deployment.sequences, 0, kSequencesMax);
}

Result<LengthBytes> bytes_at(const ModelGeometry& geometry, const ModelLayout& layout,
                             std::uint64_t tokens, std::uint64_t sequences) {
  LengthBytes at;
  at.tokens = tokens;
  const auto payload = geometry.bytes_per_sequence(tokens);
  if (!payload) return propagate(payload);
  const auto allocated = layout.allocated_bytes_per_sequence(tokens);
  if (!allocated) return propagate(allocated);
  const auto growing = geometry.growing_bytes_per_sequence(tokens);
  if (!growing) return propagate(growing);
  at.payload_bytes = *payload;
  at.growing_bytes = *growing;
  at.allocated_bytes = *allocated;
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

// With an arena, slots and blocks compete for the pool: the largest number of sequences whose slots
// leave blocks for as many. Without one, plan_pool's own count.
Result<PoolPlan> most_sequences(const ModelLayout& layout, std::uint64_t pool_bytes,
                                PoolPlanOptions* options) {
  auto best = plan_pool(layout, pool_bytes, *options);
  if (!best || layout.arena.slot_bytes == 0) return best;
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

Status plan_rank_pool(const ModelGeometry& geometry, const ModelLayout& layout,
                      const Deployment& deployment, RankCapacity* rank) {
  const std::uint64_t pool_bytes = *deployment.pool_bytes;
  PoolPlanOptions options;
  options.max_positions = geometry.model().max_positions;
  options.step_tokens = deployment.step_tokens;
  options.snapshot_bytes =
      deployment.snapshot_bytes.value_or(geometry.has_state() ? pool_bytes / kSnapshotShare : 0);
  options.sequence_tokens = deployment.context_tokens;
  if (deployment.sequences > 0) options.max_sequences = deployment.sequences;
  if (options.sequence_tokens == 0) {
    // The longest that fits alone: decided once, with one slot, before slots are multiplied.
    PoolPlanOptions alone = options;
    alone.max_sequences = 1;
    const auto plan = plan_pool(layout, pool_bytes, alone);
    if (!plan) return propagate(plan);
    options.sequence_tokens = plan->sequence_tokens;
  }
  const auto plan = deployment.sequences > 0 ? plan_pool(layout, pool_bytes, options)
                                             : most_sequences(layout, pool_bytes, &options);
  if (!plan) return propagate(plan);
  rank->pool_bytes = pool_bytes;
  rank->pool = *plan;
  rank->pool_options = options;
  return {};
}

Result<RankCapacity> plan_rank(const ModelGeometry& geometry, const ModelLayout& layout,
                               const Deployment& deployment) {
  RankCapacity rank;
  rank.name = "tp0";
  const auto growing = geometry.growing_bytes_per_token();
  if (!growing) return propagate(growing);
  const auto fixed = geometry.fixed_bytes_per_sequence();
  if (!fixed) return propagate(fixed);
  const auto state = geometry.state_bytes_per_sequence();
  if (!state) return propagate(state);
  rank.growing_bytes_per_token = *growing;
  rank.fixed_bytes_per_sequence = *fixed;
  rank.state_bytes_per_sequence = *state;
  for (const std::uint64_t tokens : deployment.at_tokens) {
    auto at = bytes_at(geometry, layout, tokens, deployment.sequences);
    if (!at) return propagate(at);
    rank.at.push_back(*at);
  }
  if (deployment.pool_bytes) {
    const auto ok = plan_rank_pool(geometry, layout, deployment, &rank);
    if (!ok) return propagate(ok);
  }
  return rank;
}

Result<LayerCapacity> layer_capacity(const LayerGeometry& layer) {
  LayerCapacity capacity;
  capacity.index = layer.index;
  capacity.kind = layer.kind;
  capacity.is_draft = layer.is_draft;
  if (layer.window_tokens > 0) capacity.window_tokens = layer.window_tokens;
  if (layer.chunk_tokens > 0) capacity.window_tokens = layer.chunk_tokens;
  if (layer.shares_with) capacity.shares_with = *layer.shares_with;
  for (const Stream& stream : layer.streams) {
    const auto sum = add(capacity.growing_bytes_per_token, stream.growing_bytes_per_token(),
                         "growing bytes per token of a layer");
    if (!sum) return propagate(sum);
    capacity.growing_bytes_per_token = *sum;
    capacity.streams.push_back({stream.role, stream.entry_bytes, stream.stride_tokens,
                                stream.retention, stream.retention_tokens, stream.sharding,
                                stream.placement});
  }
  return capacity;
}

// What was asked beyond what the model is made for, and what the pool's division assumed without
// being told.
void note_assumptions(const Deployment& deployment, const RankCapacity& rank,
                      std::uint64_t max_positions, CapacityPlan* plan) {
  const auto longest = std::max_element(deployment.at_tokens.begin(), deployment.at_tokens.end());
  if (max_positions > 0 && longest != deployment.at_tokens.end() && *longest > max_positions) {
    plan->notes.push_back(
        fmt::format("a sequence of {} tokens is longer than the model's {} positions", *longest,
                    max_positions));
  }
  if (!rank.pool) return;
  if (deployment.context_tokens == 0) {
    plan->notes.push_back(
        fmt::format("concurrency is for sequences of {} tokens, the longest that fits alone (at "
                    "most the model's max positions)",
                    rank.pool->sequence_tokens));
  }
  if (!deployment.snapshot_bytes && rank.pool->snapshot_bytes > 0) {
    plan->notes.push_back(fmt::format("{} bytes, 1/{} of the pool, are set aside for snapshots",
                                      rank.pool->snapshot_bytes, kSnapshotShare));
  }
}

bool has_index_keys(const ModelGeometry& geometry) {
  for (const LayerGeometry& layer : geometry.layers()) {
    for (const Stream& stream : layer.streams) {
      if (stream.role == StreamRole::kIndexer) return true;
    }
  }
  return false;
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

void describe_layout(const ModelLayout& layout, CapacityPlan* plan) {
  plan->profile = to_string(layout.profile);
  plan->arena_slot_bytes = layout.arena.slot_bytes;
  for (const BlockLayout& group : layout.groups) {
    plan->groups.push_back({group.group_name, group.retention, group.window_tokens,
                            group.block_tokens, group.block_bytes, group.pages.size(),
                            page_sizes_of(group)});
  }
  if (!layout.groups.empty()) plan->block_tokens = layout.groups.front().block_tokens;
}

}  // namespace

Result<CapacityPlan> plan_capacity(const ModelConfig& model, const Deployment& deployment) {
  if (const auto ok = check_deployment(deployment); !ok) return propagate(ok);
  GeometryOptions options;
  options.kv_dtype = deployment.kv_dtype;
  options.indexer_dtype = deployment.indexer_dtype;
  options.speculative_mtp = deployment.speculative_mtp;
  options.block_tokens = deployment.block_tokens;
  options.layers = deployment.layers;
  options.state_dtype = deployment.state_dtype;
  options.encoder_tokens = deployment.encoder_tokens;
  const auto geometry = ModelGeometry::from(model, options);
  if (!geometry) return propagate(geometry);
  const auto layout = ModelLayout::with_profile(*geometry, deployment.profile);
  if (!layout) return propagate(layout);

  CapacityPlan plan;
  plan.model = model.name;
  plan.attention = geometry->attention_in_words();
  plan.kv_dtype = deployment.kv_dtype;
  plan.notes = model.notes;
  if (has_index_keys(*geometry)) {
    plan.indexer_dtype = deployment.indexer_dtype.value_or(
        default_indexer_dtype(deployment.kv_dtype, model.family == AttentionFamily::kCompressed));
  }
  describe_layout(*layout, &plan);
  auto rank = plan_rank(*geometry, *layout, deployment);
  if (!rank) return propagate(rank);
  note_assumptions(deployment, *rank, model.max_positions, &plan);
  plan.ranks.push_back(std::move(*rank));
  for (const LayerGeometry& layer : geometry->layers()) {
    auto capacity = layer_capacity(layer);
    if (!capacity) return propagate(capacity);
    plan.layers.push_back(std::move(*capacity));
  }
  return plan;
}

}  // namespace emblema
