#include <string>

#include <fmt/format.h>

#include "apps/cli/plan_output.h"
#include "apps/cli/plan_peers.h"
#include "emblema/plan/explain.h"

namespace emblema {
namespace {

using Break = JsonOutput::Break;

template <class BytesOf>
void write_by_length(std::string_view name, const RankCapacity& rank, BytesOf bytes_of,
                     JsonOutput* json) {
  json->key(name).begin_object(Break::kNone);
  for (const LengthBytes& at : rank.at) json->field(fmt::format("{}", at.tokens), bytes_of(at));
  json->end_object();
}

void write_pool(const RankCapacity& rank, const PoolPlan& pool, JsonOutput* json) {
  json->field("pool_bytes", *rank.pool_bytes);
  json->field("used_bytes", pool.used_bytes);
  json->field("blocks", pool.groups.empty() ? std::uint64_t{0} : pool.groups.front().blocks);
  json->field("tokens", rank.tokens);
  json->field("concurrency", rank.concurrency);
  json->field("capacity_bound_by", rank.capacity_bound_by);
  json->field("context_tokens", pool.sequence_tokens);
  json->field("arena_slots", pool.arena_slots);
  json->field("arena_bytes", pool.arena_bytes);
  json->field("snapshot_bytes", pool.snapshot_bytes);
  json->key("pool_groups").begin_array();
  for (std::size_t i = 0; i < pool.groups.size(); ++i) {
    json->begin_object(Break::kNone);
    json->field("name", rank.groups[i].name);
    json->field("blocks", pool.groups[i].blocks);
    json->field("block_tokens", pool.groups[i].block_tokens);
    json->field("block_bytes", pool.groups[i].block_bytes);
    json->end_object();
  }
  json->end_array();
  const PoolPlanOptions& options = *rank.pool_options;
  json->key("engine_options").begin_object(Break::kNone);
  json->field("pool_bytes", *rank.pool_bytes);
  json->field("sequence_tokens", options.sequence_tokens);
  json->field("max_sequences", options.max_sequences);
  json->field("step_tokens", options.step_tokens);
  json->field("snapshot_bytes", options.snapshot_bytes);
  json->end_object();
}

void write_groups(const RankCapacity& rank, JsonOutput* json) {
  json->key("groups").begin_array();
  for (const GroupCapacity& group : rank.groups) {
    json->begin_object(Break::kNone);
    json->field("name", group.name);
    json->field("retention", to_string(group.retention));
    json->field("window_tokens", group.window_tokens > 0
                                     ? std::optional<std::uint64_t>(group.window_tokens)
                                     : std::nullopt);
    json->field("block_tokens", group.block_tokens);
    json->field("block_bytes", group.block_bytes);
    json->field("pages", group.pages);
    json->end_object();
  }
  json->end_array();
}

void write_step(const RankCapacity& rank, JsonOutput* json) {
  json->field("step_flop", rank.step.flop);
  json->field("step_read_bytes", rank.step.bytes);
  json->field("flop_per_byte", rank.flop_per_byte.approximate());
  if (!rank.roofline) {
    json->key("bound_by").null();
    return;
  }
  json->field("bound_by", to_string(rank.roofline->bound));
  json->field("ridge_flop_per_byte", rank.roofline->ridge.approximate());
  json->field("attainable_flop_per_second", rank.roofline->attainable_flops);
  json->field("least_step_seconds", rank.roofline->least_seconds.approximate());
}

void write_rank(const RankCapacity& rank, const Deployment& deployment, JsonOutput* json) {
  json->begin_object();
  json->field("name", rank.name);
  json->field("ranks", rank.ranks);
  json->field("first_layer", rank.stage.first_layer);
  json->field("layers", rank.stage.layers);
  json->field("growing_bytes_per_token", rank.growing_bytes_per_token);
  json->field("fixed_bytes_per_sequence", rank.fixed_bytes_per_sequence);
  json->field("state_bytes_per_sequence", rank.state_bytes_per_sequence);
  write_by_length(
      "bytes_per_sequence", rank, [](const LengthBytes& at) { return at.payload_bytes; }, json);
  write_by_length(
      "growing_bytes_per_sequence", rank, [](const LengthBytes& at) { return at.growing_bytes; },
      json);
  write_by_length(
      "allocated_bytes_per_sequence", rank,
      [](const LengthBytes& at) { return at.allocated_bytes; }, json);
  if (deployment.sequences > 0) {
    json->field("sequences", deployment.sequences);
    write_by_length(
        "bytes_of_sequences", rank, [](const LengthBytes& at) { return at.payload_bytes_total; },
        json);
    write_by_length(
        "allocated_bytes_of_sequences", rank,
        [](const LengthBytes& at) { return at.allocated_bytes_total; }, json);
  }
  json->field("weights_bytes", rank.weight_bytes);
  json->field("arena_slot_bytes", rank.arena_slot_bytes);
  write_groups(rank, json);
  if (rank.pool) write_pool(rank, *rank.pool, json);
  write_step(rank, json);
  json->end_object();
}

void write_layer(const LayerCapacity& layer, JsonOutput* json) {
  json->begin_object(Break::kNone);
  json->field("index", layer.index);
  json->field("kind", layer.kind);
  json->field("draft", layer.is_draft);
  json->field("growing_bytes_per_token", layer.growing_bytes_per_token);
  json->field("window_tokens", layer.window_tokens);
  json->field("shares_with", layer.shares_with);
  json->key("streams").begin_array(Break::kNone);
  for (const StreamCapacity& stream : layer.streams) {
    json->begin_object(Break::kNone);
    json->field("role", to_string(stream.role));
    json->field("entry_bytes", stream.entry_bytes);
    json->field("stride_tokens", stream.stride_tokens);
    json->field("retention", to_string(stream.retention));
    if (stream.retention != Retention::kGrowing) {
      json->field("retention_tokens", stream.retention_tokens);
    }
    json->field("sharding", to_string(stream.sharding));
    json->field("placement", to_string(stream.placement));
    json->end_object();
  }
  json->end_array();
  json->end_object();
}

void write_sweep_row(const SweepRow& row, std::string_view axis, JsonOutput* json) {
  json->begin_object(Break::kNone);
  json->field(axis, row.value);
  if (row.plan) {
    const RankCapacity& rank = row.plan->ranks.front();
    json->field("growing_bytes_per_token", rank.growing_bytes_per_token);
    json->field("bytes_per_sequence", rank.at.front().payload_bytes);
    json->field("allocated_bytes_per_sequence", rank.at.front().allocated_bytes);
    json->field("flop_per_byte", rank.flop_per_byte.approximate());
    if (rank.roofline) json->field("bound_by", to_string(rank.roofline->bound));
    if (rank.pool) {
      json->field("tokens", rank.tokens);
      json->field("concurrency", rank.concurrency);
      json->field("concurrency_total", row.plan->concurrency_total);
    }
  } else {
    json->field("refusal", row.refusal);
  }
  json->end_object();
}

void write_sweep(const PlanAnswer& answer, JsonOutput* json) {
  if (answer.sweep.empty()) return;
  json->key("sweep").begin_array();
  const std::string_view axis =
      answer.axis == SweepAxis::kTensor ? "tensor_parallel" : "context_tokens";
  for (const SweepRow& row : answer.sweep) write_sweep_row(row, axis, json);
  json->end_array();
}

void write_hardware(const Hardware& hardware, JsonOutput* json) {
  json->key("hardware").begin_object(Break::kNone);
  json->field("name", hardware.name);
  json->field("memory_bytes", hardware.memory_bytes);
  json->field("bytes_per_second", hardware.bandwidth_bytes_per_second);
  json->field("bf16_flop_per_second", hardware.bf16_flops);
  json->field("source", hardware.source);
  json->end_object();
}

void write_explanations(const PlanAnswer& answer, JsonOutput* json) {
  json->key("explanations").begin_array();
  for (const ExplainedFigure& figure : explain(answer.plan, answer.deployment)) {
    json->begin_object(Break::kNone);
    json->field("rank", figure.rank);
    json->field("figure", figure.figure);
    json->field("value", figure.value);
    json->field("formula", figure.formula);
    json->end_object();
  }
  json->end_array();
}

void write_crossovers(const CapacityPlan& plan, std::span<const PlannedCrossover> crossovers,
                      JsonOutput* json) {
  if (plan.key_value_weights) {
    json->field("kv_projection_parameters", plan.key_value_weights->parameters);
    json->field("kv_projection_parameters_saved", plan.key_value_weights->saved());
  }
  json->key("crossovers").begin_array();
  for (const PlannedCrossover& one : crossovers) {
    if (one.grouped != plan.model) continue;
    json->begin_object(Break::kNone);
    json->field("with", one.latent);
    json->field("real_tensor_parallel", one.crossover.real_degree.approximate());
    json->field("first_tensor_parallel",
                one.crossover.first_degree
                    ? std::optional<std::uint64_t>(*one.crossover.first_degree)
                    : std::nullopt);
    json->end_object();
  }
  json->end_array();
}

void write_totals(const CapacityPlan& plan, JsonOutput* json) {
  if (plan.concurrency_total) {
    json->field("context_tokens", plan.context_tokens);
    json->field("concurrency_total", plan.concurrency_total);
  }
  json->field("copies", plan.copies);
  json->field("step_context_tokens", plan.step_context_tokens);
  json->field("weights_bytes", plan.weight_bytes);
  json->field("weights_estimated", plan.are_weights_estimated);
  json->field("weights_formula", plan.weights_formula);
}

}  // namespace

void write_plan(const PlanAnswer& answer, const PlanView& view,
                std::span<const PlannedCrossover> crossovers, JsonOutput* json) {
  const CapacityPlan& plan = answer.plan;
  const Deployment& deployment = answer.deployment;
  json->begin_object();
  json->field("schema", std::uint64_t{1});
  json->field("model", plan.model);
  json->field("attention", plan.attention);
  json->field("kv_dtype", to_string(plan.kv_dtype));
  if (plan.indexer_dtype) json->field("indexer_dtype", to_string(*plan.indexer_dtype));
  json->field("profile", plan.profile);
  json->field("block_tokens", plan.block_tokens);
  json->field("arena_slot_bytes", plan.ranks[0].arena_slot_bytes);
  write_groups(plan.ranks[0], json);
  json->key("ranks").begin_array();
  for (const RankCapacity& rank : plan.ranks) write_rank(rank, deployment, json);
  json->end_array();
  write_totals(plan, json);
  if (deployment.hardware) write_hardware(*deployment.hardware, json);
  write_crossovers(plan, crossovers, json);
  write_sweep(answer, json);
  write_peers(answer.peers, json);
  if (view.explain) write_explanations(answer, json);
  json->key("layers").begin_array();
  for (const LayerCapacity& layer : plan.layers) write_layer(layer, json);
  json->end_array();
  json->key("notes").begin_array();
  for (const std::string& note : plan.notes) json->value(note);
  json->end_array();
  json->end_object();
}

}  // namespace emblema
