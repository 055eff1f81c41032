#include "emblema/plan/capacity_plan.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/plan/pool_budget.h"
#include "emblema/plan/rank_capacity.h"

namespace emblema {
namespace {

constexpr std::uint64_t kSequencesMax = std::uint64_t{1} << 32;

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

Result<LayerCapacity> layer_capacity(const LayerGeometry& layer, const Stage& stage) {
  LayerCapacity capacity;
  capacity.index = layer.model_layer;
  capacity.kind = layer.kind;
  capacity.is_draft = layer.is_draft;
  if (layer.window_tokens > 0) capacity.window_tokens = layer.window_tokens;
  if (layer.chunk_tokens > 0) capacity.window_tokens = layer.chunk_tokens;
  if (layer.shares_with) capacity.shares_with = stage.first_layer + *layer.shares_with;
  for (const Stream& stream : layer.streams) {
    const auto sum = add(capacity.growing_bytes_per_token, stream.growing_bytes_per_token(),
                         "growing bytes per token of a layer");
    if (!sum) return propagate(sum);
    capacity.growing_bytes_per_token = *sum;
    capacity.streams.push_back({stream.role, stream.entry_bytes, stream.stride_tokens,
                                stream.retention, stream.retention_tokens, stream.sharding,
                                stream.placement, stream.regions});
  }
  return capacity;
}

// A decode step past 64 bits of FLOP is not counted; the bytes are.
void note_step(const CapacityPlan& plan, std::vector<std::string>* notes) {
  const RankCapacity& rank = plan.ranks.front();
  const bool reads = rank.growing_bytes_per_token.numerator() > 0;
  if (!reads || rank.step.context_tokens > 0) return;
  notes->push_back(fmt::format("the FLOP of a decode step over {} tokens do not fit 64 bits",
                               plan.step_context_tokens));
}

// What was said and changed nothing.
void note_unused(const Deployment& deployment, const CapacityPlan& plan,
                 std::vector<std::string>* notes) {
  const bool is_set = deployment.reserve_bytes > 0 ||
                      deployment.memory_share != Deployment().memory_share ||
                      deployment.weight_bytes.has_value();
  const auto& hardware = deployment.hardware;
  if (is_set && deployment.pool_bytes) {
    notes->emplace_back("the pool is given: nothing is taken off it for weights or a reserve");
  } else if (is_set && !plan.ranks.front().pool_bytes) {
    notes->emplace_back(
        "weights, share and reserve matter where a GPU's memory is known: give its name or its "
        "memory");
  }
  if (hardware &&
      hardware->bandwidth_bytes_per_second.has_value() != hardware->bf16_flops.has_value()) {
    notes->emplace_back("a roofline needs both the bandwidth and the FLOP/s of a GPU");
  }
}

// What was asked beyond what the model is made for, and what the pool's division assumed without
// being told.
void note_assumptions(const Deployment& deployment, std::uint64_t max_positions,
                      CapacityPlan* plan) {
  std::uint64_t longest = deployment.context_tokens;
  for (const std::uint64_t tokens : deployment.at_tokens) longest = std::max(longest, tokens);
  if (max_positions > 0 && longest > max_positions) {
    plan->notes.push_back(fmt::format(
        "a sequence of {} tokens is longer than the model's {} positions", longest, max_positions));
  }
  note_step(*plan, &plan->notes);
  note_unused(deployment, *plan, &plan->notes);
  const RankCapacity& rank = plan->ranks.front();
  if (!rank.pool) return;
  if (deployment.context_tokens == 0) {
    plan->notes.push_back(
        fmt::format("concurrency is for sequences of {} tokens, the longest that fits alone (at "
                    "most the model's max positions)",
                    plan->context_tokens));
  }
  if (!deployment.snapshot_bytes && rank.pool->snapshot_bytes > 0) {
    plan->notes.push_back(fmt::format("{} bytes, 1/8 of the pool, are set aside for snapshots",
                                      rank.pool->snapshot_bytes));
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

Result<std::vector<PlannedRank>> measure_ranks(const ModelConfig& model,
                                               const Deployment& deployment) {
  const std::uint32_t layers = deployment.layers == 0 ? model.num_hidden_layers : deployment.layers;
  const auto stages = pipeline_stages(layers, deployment.parallel);
  if (!stages) return propagate(stages);
  std::vector<PlannedRank> ranks;
  for (const Stage& stage : *stages) {
    auto rank = measure_rank(model, deployment, stage);
    if (!rank && stages->size() > 1) {
      return fail(rank.error().code,
                  fmt::format("stage {} of {} (layers {} to {}): {}", ranks.size() + 1,
                              stages->size(), stage.first_layer,
                              stage.first_layer + stage.layers - 1, rank.error().message));
    }
    if (!rank) return propagate(rank);
    if (stages->size() > 1) {
      rank->capacity.name = fmt::format("pp{} {}", ranks.size(), rank->capacity.name);
    }
    ranks.push_back(std::move(*rank));
  }
  return ranks;
}

// All stages serve the same sequences: the length is what the scarcest of them holds.
Result<std::uint64_t> context_of(std::span<const PlannedRank> ranks, const Deployment& deployment) {
  if (deployment.context_tokens > 0) return deployment.context_tokens;
  std::uint64_t shortest = UINT64_MAX;
  for (const PlannedRank& rank : ranks) {
    const auto tokens = longest_alone(rank, deployment);
    if (!tokens) return tokens;
    shortest = std::min(shortest, *tokens);
  }
  return shortest;
}

Status divide_pools(const Deployment& deployment, std::vector<PlannedRank>* ranks,
                    CapacityPlan* plan) {
  if (!ranks->front().capacity.pool_bytes) return {};
  const auto context = context_of(*ranks, deployment);
  if (!context) return propagate(context);
  plan->context_tokens = *context;
  for (PlannedRank& rank : *ranks) {
    const auto ok = divide_pool(*context, deployment, &rank);
    if (ok) continue;
    if (ranks->size() == 1) return ok;
    return fail(ok.error().code, fmt::format("{}: {}", rank.capacity.name, ok.error().message));
  }
  return {};
}

// The scarcest first; without a pool, the one that holds most.
bool bounds_before(const RankCapacity& a, const RankCapacity& b) {
  if (!a.pool || !b.pool) {
    return a.growing_bytes_per_token.approximate() > b.growing_bytes_per_token.approximate();
  }
  if (a.concurrency != b.concurrency) return a.concurrency < b.concurrency;
  return a.tokens < b.tokens;
}

// Tensor ranks times stages must be all GPUs, some whole number of times.
Result<std::uint64_t> copies_of(const Deployment& deployment) {
  const std::uint64_t ranks = deployment.parallel.ranks();
  if (deployment.gpus == 0) return 1;
  if (deployment.gpus % ranks == 0) return deployment.gpus / ranks;
  return fail(ErrorCode::Invalid,
              fmt::format("gpus is {}; allowed: multiples of {}, tensor_parallel ({}) x "
                          "pipeline_parallel ({}) x pcp ({})",
                          deployment.gpus, ranks, deployment.parallel.tensor,
                          deployment.parallel.pipeline, deployment.parallel.prefill_context));
}

Status count_sequences(const Deployment& deployment, CapacityPlan* plan) {
  if (!plan->ranks.front().pool) return {};
  const auto of_a_copy = mul_bytes(plan->ranks.front().concurrency,
                                   deployment.parallel.data_attention, "sequences at once");
  if (!of_a_copy) return propagate(of_a_copy);
  const auto total = mul_bytes(*of_a_copy, plan->copies, "sequences at once");
  if (!total) return propagate(total);
  plan->concurrency_total = *total;
  return {};
}

Status describe_layers(std::span<const PlannedRank> ranks, CapacityPlan* plan) {
  for (const PlannedRank& rank : ranks) {
    for (const LayerGeometry& layer : rank.geometry.layers()) {
      auto capacity = layer_capacity(layer, rank.capacity.stage);
      if (!capacity) return propagate(capacity);
      plan->layers.push_back(std::move(*capacity));
    }
  }
  return {};
}

std::uint64_t step_context(const CapacityPlan& plan, const Deployment& deployment,
                           std::uint64_t max_positions) {
  if (plan.context_tokens > 0) return plan.context_tokens;
  if (deployment.context_tokens > 0) return deployment.context_tokens;
  if (!deployment.at_tokens.empty()) {
    return *std::max_element(deployment.at_tokens.begin(), deployment.at_tokens.end());
  }
  return max_positions > 0 ? max_positions : 8192;
}

// Where tokens are dealt out, a rank attends for the query heads of all dcp ranks: to its own rows.
Result<AttentionStep> dealt_step(AttentionStep step, std::uint32_t dcp_ranks) {
  const std::uint64_t heads_flop = step.flop - step.indexer_flop;
  const auto all_heads = mul_bytes(heads_flop, dcp_ranks, "FLOP of a decode step");
  if (!all_heads) return propagate(all_heads);
  const auto flop = add_bytes(*all_heads, step.indexer_flop, "FLOP of a decode step");
  if (!flop) return propagate(flop);
  step.flop = *flop;
  return step;
}

// One decode step of attention, on each rank.
Status place_steps(const Deployment& deployment, std::uint64_t context, PlannedRank* rank) {
  const std::uint64_t rows = std::max<std::uint64_t>(
      1,
      local_tokens(context, 0, deployment.parallel.decode_context, deployment.parallel.interleave));
  const auto own_heads = attention_step(rank->geometry, rows);
  if (!own_heads) return {};  // past 64 bits: bytes are answered all the same, and a note says so
  const auto step = dealt_step(*own_heads, deployment.parallel.decode_context);
  if (!step) return {};
  const auto intensity = intensity_of(*step);
  if (!intensity) return propagate(intensity);
  rank->capacity.step = *step;
  rank->capacity.flop_per_byte = *intensity;
  const auto& hardware = deployment.hardware;
  if (!hardware || !hardware->bandwidth_bytes_per_second || !hardware->bf16_flops) return {};
  const auto point = place_on_roofline(*step, *hardware);
  if (!point) return propagate(point);
  rank->capacity.roofline = *point;
  return {};
}

// The model before it is divided: what it is called, and whether it can be divided as asked.
Status describe_model(const ModelConfig& model, const Deployment& deployment, CapacityPlan* plan) {
  Deployment undivided = deployment;
  undivided.parallel = {};
  const auto whole = rank_geometry(model, undivided, {0, deployment.layers, true});
  if (!whole) return propagate(whole);
  if (const auto ok = check_parallelism(*whole, deployment.parallel); !ok) return ok;
  const auto copies = copies_of(deployment);
  if (!copies) return propagate(copies);
  plan->copies = *copies;
  plan->model = model.name;
  plan->attention = whole->attention_in_words();
  plan->kv_dtype = deployment.kv_dtype;
  plan->profile = to_string(deployment.profile);
  plan->notes = model.notes;
  if (model.family == AttentionFamily::kGrouped && model.hidden_size > 0) {
    const auto weights = key_value_weights(model);
    if (!weights) return propagate(weights);
    plan->key_value_weights = *weights;
  }
  if (has_index_keys(*whole)) {
    plan->indexer_dtype = deployment.indexer_dtype.value_or(
        default_indexer_dtype(deployment.kv_dtype, model.family == AttentionFamily::kCompressed));
  }
  return {};
}

}  // namespace

Result<CapacityPlan> plan_capacity(const ModelConfig& model, const Deployment& deployment) {
  if (const auto ok = check_deployment(deployment); !ok) return propagate(ok);
  CapacityPlan plan;
  if (const auto ok = describe_model(model, deployment, &plan); !ok) return propagate(ok);
  auto ranks = measure_ranks(model, deployment);
  if (!ranks) return propagate(ranks);
  if (const auto ok = budget_pools(model, deployment, &*ranks, &plan); !ok) return propagate(ok);
  if (const auto ok = divide_pools(deployment, &*ranks, &plan); !ok) return propagate(ok);
  plan.step_context_tokens = step_context(plan, deployment, model.max_positions);
  for (PlannedRank& rank : *ranks) {
    const auto ok = place_steps(deployment, plan.step_context_tokens, &rank);
    if (!ok) return propagate(ok);
  }
  if (const auto ok = describe_layers(*ranks, &plan); !ok) return propagate(ok);
  for (PlannedRank& rank : *ranks) plan.ranks.push_back(std::move(rank.capacity));
  std::stable_sort(plan.ranks.begin(), plan.ranks.end(), bounds_before);
  const auto& groups = plan.ranks.front().groups;
  plan.block_tokens = groups.empty() ? 0 : groups.front().block_tokens;
  if (const auto ok = count_sequences(deployment, &plan); !ok) return propagate(ok);
  note_assumptions(deployment, model.max_positions, &plan);
  return plan;
}

}  // namespace emblema
