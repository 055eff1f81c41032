// What holds of every plan, for every preset and for models that nobody made.
#include <algorithm>
#include <array>
#include <utility>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "emblema/contract/bytes.h"
#include "emblema/plan/capacity_plan.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

using namespace literals;

constexpr std::uint64_t kLongest = 1 << 20;

const std::vector<ModelConfig>& preset_models() {
  static const std::vector<ModelConfig> kModels = [] {
    std::vector<ModelConfig> models;
    for (const Preset& preset : presets()) {
      models.push_back(parse_model_config(preset.json, preset.name).value());
    }
    return models;
  }();
  return kModels;
}

std::uint32_t any_of(std::initializer_list<std::uint32_t> values) {
  return *rc::gen::elementOf(std::vector<std::uint32_t>(values));
}

// Some layers see everything, some a window.
ModelConfig random_grouped() {
  const std::uint32_t kv_heads = any_of({1, 2, 3, 4, 8, 16});
  ModelConfig model =
      samples::grouped("random grouped", *rc::gen::inRange<std::uint32_t>(1, 13),
                       kv_heads * any_of({1, 2, 4, 8}), kv_heads, any_of({64, 80, 96, 128, 256}));
  const std::uint32_t window = any_of({16, 100, 128, 4096});
  for (LayerFacts& layer : model.layers) {
    if (*rc::gen::arbitrary<bool>()) samples::set_window(&layer, window);
  }
  return model;
}

ModelConfig random_latent() {
  ModelConfig model = samples::latent("random latent", *rc::gen::inRange<std::uint32_t>(1, 13),
                                      any_of({8, 16, 40, 128}));
  model.kv_lora_rank = any_of({64, 128, 256, 512});
  return model;
}

ModelConfig any_model() {
  const auto kind = *rc::gen::inRange(0, 4);
  if (kind == 0) return random_grouped();
  if (kind == 1) return random_latent();
  return *rc::gen::elementOf(preset_models());
}

// Half of all lengths are short.
std::uint64_t any_length() {
  return *rc::gen::arbitrary<bool>() ? *rc::gen::inRange<std::uint64_t>(1, 300)
                                     : *rc::gen::inRange<std::uint64_t>(1, kLongest);
}

std::pair<std::uint64_t, std::uint64_t> two_lengths() {
  return std::minmax({any_length(), any_length()});
}

bool has_window(const RankCapacity& rank) {
  return std::any_of(rank.groups.begin(), rank.groups.end(), [](const GroupCapacity& group) {
    return group.retention == Retention::kWindow;
  });
}

CapacityPlan planned(const ModelConfig& model, const Deployment& deployment) {
  auto plan = plan_capacity(model, deployment);
  if (!plan) RC_FAIL(model.name + ": " + plan.error().describe());
  return std::move(*plan);
}

RC_GTEST_PROP(PlanProperty, ALongerSequenceNeverTakesLess, ()) {
  const auto [shorter, longer] = two_lengths();
  const CapacityPlan plan = planned(any_model(), {.at_tokens = {shorter, longer}});
  const RankCapacity& rank = plan.ranks.front();
  RC_ASSERT(rank.at[0].payload_bytes <= rank.at[1].payload_bytes);
  RC_ASSERT(rank.at[0].growing_bytes <= rank.at[1].growing_bytes);
  // A window that ends with a block takes less than one that straddles two.
  if (!has_window(rank)) RC_ASSERT(rank.at[0].allocated_bytes <= rank.at[1].allocated_bytes);
}

RC_GTEST_PROP(PlanProperty, MoreTensorRanksNeverHoldMoreEachNorTooLittleTogether, ()) {
  const ModelConfig model = any_model();
  const std::uint32_t ranks = any_of({1, 2, 4, 8, 16});
  const std::vector<std::uint64_t> lengths = {any_length(), any_length()};
  const auto fewer = plan_capacity(model, {.at_tokens = lengths, .parallel = {.tensor = ranks}});
  const auto more = plan_capacity(model, {.at_tokens = lengths, .parallel = {.tensor = 2 * ranks}});
  RC_PRE(fewer && more);  // heads that do not divide are refused
  const RankCapacity& one = fewer->ranks.front();
  const RankCapacity& half = more->ranks.front();
  RC_ASSERT(half.state_bytes_per_sequence <= one.state_bytes_per_sequence);
  RC_ASSERT(2 * half.state_bytes_per_sequence >= one.state_bytes_per_sequence);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    RC_ASSERT(half.at[i].payload_bytes <= one.at[i].payload_bytes);
    RC_ASSERT(half.at[i].allocated_bytes <= one.at[i].allocated_bytes);
    RC_ASSERT(2 * half.at[i].payload_bytes >= one.at[i].payload_bytes);
  }
}

RC_GTEST_PROP(PlanProperty, TensorRanksDivideKeysAndValuesExactlyWhileHeadsDivide, ()) {
  const ModelConfig model = random_grouped();
  const std::uint32_t heads = model.layers.front().num_key_value_heads;
  const std::uint32_t ranks = any_of({1, 2, 3, 4, 8, 16});
  RC_PRE(heads % ranks == 0);
  const std::uint64_t tokens = any_length();
  const CapacityPlan whole = planned(model, {.at_tokens = {tokens}});
  const CapacityPlan share = planned(model, {.at_tokens = {tokens}, .parallel = {.tensor = ranks}});
  RC_ASSERT(ranks * share.ranks[0].at[0].payload_bytes == whole.ranks[0].at[0].payload_bytes);
  RC_ASSERT(ranks * share.ranks[0].fixed_bytes_per_sequence ==
            whole.ranks[0].fixed_bytes_per_sequence);
}

RC_GTEST_PROP(PlanProperty, StagesTogetherHoldTheWholeModel, ()) {
  const ModelConfig model = any_model();
  const auto stages = *rc::gen::inRange<std::uint32_t>(1, 9);
  const std::uint64_t tokens = any_length();
  const CapacityPlan whole = planned(model, {.at_tokens = {tokens}});
  const auto parts =
      plan_capacity(model, {.at_tokens = {tokens}, .parallel = {.pipeline = stages}});
  RC_PRE(parts.has_value());  // fewer layers than stages, or a layer that shares across stages
  Rational growing;
  std::array<std::uint64_t, 4> sums{};
  std::uint32_t layers = 0;
  for (const RankCapacity& rank : parts->ranks) {
    growing = add(growing, rank.growing_bytes_per_token, "sum").value();
    sums[0] += rank.fixed_bytes_per_sequence;
    sums[1] += rank.state_bytes_per_sequence;
    sums[2] += rank.at[0].payload_bytes;
    sums[3] += rank.at[0].allocated_bytes;
    layers += rank.stage.layers;
  }
  const RankCapacity& all = whole.ranks.front();
  RC_ASSERT(layers == model.num_hidden_layers);
  RC_ASSERT(growing == all.growing_bytes_per_token);
  RC_ASSERT(sums[0] == all.fixed_bytes_per_sequence);
  RC_ASSERT(sums[1] == all.state_bytes_per_sequence);
  RC_ASSERT(sums[2] == all.at[0].payload_bytes);
  RC_ASSERT(sums[3] == all.at[0].allocated_bytes);
}

Deployment with_pool(std::uint64_t pool_bytes, std::uint64_t context) {
  return {.at_tokens = {context}, .pool_bytes = pool_bytes, .context_tokens = context};
}

std::uint64_t any_pool() {
  return *rc::gen::inRange<std::uint64_t>(256_MiB, 160_GiB);
}

RC_GTEST_PROP(PlanProperty, ALargerPoolNeverHoldsFewer, ()) {
  const ModelConfig model = any_model();
  const std::uint64_t context = any_length();
  const auto [smaller, larger] = std::minmax({any_pool(), any_pool()});
  const auto few = plan_capacity(model, with_pool(smaller, context));
  RC_PRE(few.has_value());
  const CapacityPlan many = planned(model, with_pool(larger, context));
  RC_ASSERT(*few->concurrency_total <= *many.concurrency_total);
}

RC_GTEST_PROP(PlanProperty, LongerContextsNeverRunMoreAtOnce, ()) {
  const ModelConfig model = any_model();
  const auto [shorter, longer] = two_lengths();
  const std::uint64_t pool = any_pool();
  const auto many = plan_capacity(model, with_pool(pool, shorter));
  // Where all is windows, a sequence that ends with a block leaves fewer than a shorter one.
  RC_PRE(many.has_value());  // by itself: the macro reads both sides of a "&&"
  RC_PRE(many->ranks.front().growing_bytes_per_token != Rational(0));
  const CapacityPlan few = planned(model, with_pool(pool, longer));
  RC_ASSERT(*few.concurrency_total <= *many->concurrency_total);
}

RC_GTEST_PROP(PlanProperty, WhatFitsAtOnceIsNotMoreThanThePool, ()) {
  const ModelConfig model = any_model();
  const std::uint64_t pool = any_pool();
  const auto plan = plan_capacity(model, with_pool(pool, any_length()));
  RC_PRE(plan.has_value());
  const RankCapacity& rank = plan->ranks.front();
  RC_ASSERT(rank.pool->used_bytes <= pool);
  if (rank.concurrency == UINT64_MAX) return;  // nothing that grows, and windows that hold nothing
  const auto held =
      checked_mul(rank.concurrency, rank.at[0].growing_bytes + rank.state_bytes_per_sequence);
  RC_ASSERT(held.has_value());
  RC_ASSERT(*held <= pool);
}

RC_GTEST_PROP(PlanProperty, RanksThatTokensAreDealtOutToHoldEachRowOnce, ()) {
  const bool is_latent = *rc::gen::arbitrary<bool>();
  const ModelConfig model = is_latent ? random_latent() : samples::llama_3_70b();
  const std::uint32_t ranks = any_of({2, 4, 8});
  const std::uint64_t interleave = any_of({1, 16, 64});
  const std::uint64_t tokens = any_length();
  const Parallelism parallel{
      .tensor = is_latent ? 8 : 8 * ranks, .decode_context = ranks, .interleave = interleave};
  Deployment deployment{.at_tokens = {tokens}, .parallel = parallel};
  const CapacityPlan plan = planned(model, deployment);
  const auto stages = pipeline_stages(model.num_hidden_layers, parallel);
  const auto geometry = rank_geometry(model, deployment, stages->front());
  RC_ASSERT(geometry.has_value());
  std::uint64_t sum = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t rows = local_tokens(tokens, rank, ranks, interleave);
    const std::uint64_t bytes = geometry->bytes_per_sequence(rows).value();
    RC_ASSERT(bytes <= plan.ranks[0].at[0].payload_bytes);  // the first holds most
    sum += bytes;
  }
  RC_ASSERT(sum == geometry->bytes_per_sequence(tokens).value());
}

}  // namespace
}  // namespace emblema
