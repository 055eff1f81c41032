#include "emblema/plan/pool_budget.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/plan/weights.h"

namespace emblema {
namespace {

using Ranks = std::vector<PlannedRank>;

// Groups of requests side by side repeat the attention weights; all else is still shared out among
// all tensor ranks.
Result<std::uint64_t> estimated_bytes(const ModelConfig& model, const Parallelism& parallel,
                                      WeightSplit split) {
  split.tensor = parallel.tensor;
  const auto shared = estimate_weights(model, split);
  if (!shared) return propagate(shared);
  if (parallel.attention_tensor() == parallel.tensor) return shared->bytes;
  split.tensor = parallel.attention_tensor();
  const auto repeated = estimate_weights(model, split);
  if (!repeated) return propagate(repeated);
  const auto attention_of = [](const WeightsEstimate& weights) {
    std::uint64_t bytes = 0;
    for (const WeightPart& part : weights.parts) bytes += part.name == "attention" ? part.bytes : 0;
    return bytes;
  };
  return add_bytes(shared->bytes - attention_of(*shared), attention_of(*repeated),
                   "bytes of weights");
}

WeightSplit split_of(const Stage& stage, bool has_drafts) {
  return {.first_layer = stage.first_layer,
          .layers = stage.layers,
          .has_embedding = stage.first_layer == 0,
          .has_head = stage.is_last,
          .has_drafts = has_drafts && stage.is_last};
}

class Budget {
 public:
  Budget(const ModelConfig& model, const Deployment& deployment, Ranks* ranks, CapacityPlan* plan)
      : model_(model), deployment_(deployment), ranks_(*ranks), plan_(*plan) {}

  Status run() {
    if (const auto ok = weigh(); !ok) return ok;
    if (deployment_.pool_bytes) {
      for (PlannedRank& rank : ranks_) rank.capacity.pool_bytes = deployment_.pool_bytes;
      return {};
    }
    if (!deployment_.hardware || !deployment_.hardware->memory_bytes) return {};
    if (!plan_.weight_bytes) {
      plan_.notes.push_back(
          fmt::format("no pool, and so no blocks and no concurrency: {}", why_unknown_));
      return {};
    }
    return subtract();
  }

 private:
  // Fills weight_bytes of the plan and of each rank, where they can be known.
  Status weigh() {
    const WeightSplit whole{.layers = deployment_.layers,
                            .has_drafts = deployment_.speculative_mtp};
    const auto estimate = estimate_weights(model_, whole);
    if (!estimate && !deployment_.weight_bytes) {
      why_unknown_ = estimate.error().message;
      return {};
    }
    if (!estimate) return divide_evenly(estimate.error().message);
    plan_.are_weights_estimated = !deployment_.weight_bytes;
    if (!deployment_.weight_bytes) {
      plan_.notes.insert(plan_.notes.end(), estimate->notes.begin(), estimate->notes.end());
    }
    plan_.weight_bytes = deployment_.weight_bytes.value_or(estimate->bytes);
    plan_.weights_formula =
        deployment_.weight_bytes ? deployment_.weights_source : estimate->formula;
    for (PlannedRank& rank : ranks_) {
      const auto bytes = estimated_bytes(
          model_, deployment_.parallel, split_of(rank.capacity.stage, deployment_.speculative_mtp));
      if (!bytes) return propagate(bytes);
      if (!deployment_.weight_bytes) {
        rank.capacity.weight_bytes = *bytes;
        continue;
      }
      const auto share = share_of_total(*deployment_.weight_bytes, estimate->bytes,
                                        std::min(*bytes, estimate->bytes));
      if (!share) return propagate(share);
      rank.capacity.weight_bytes = *share;
    }
    return {};
  }

  // A total, and no shapes to divide it by.
  Status divide_evenly(const std::string& why) {
    plan_.weight_bytes = deployment_.weight_bytes;
    plan_.weights_formula = deployment_.weights_source;
    const std::uint64_t ranks =
        std::uint64_t{deployment_.parallel.tensor} * deployment_.parallel.pipeline;
    for (PlannedRank& rank : ranks_) {
      rank.capacity.weight_bytes = ceil_div(*deployment_.weight_bytes, ranks);
    }
    if (ranks > 1) {
      plan_.notes.push_back(
          fmt::format("weights are taken to divide evenly among {} GPUs: {}", ranks, why));
    }
    return {};
  }

  Status subtract() {
    const std::uint64_t memory = *deployment_.hardware->memory_bytes;
    const auto used = multiply(Rational(memory), deployment_.memory_share, "used GPU memory");
    if (!used) return propagate(used);
    for (PlannedRank& rank : ranks_) {
      const std::uint64_t weights = *rank.capacity.weight_bytes;
      const auto taken = add_bytes(weights, deployment_.reserve_bytes, "weights and reserve");
      if (!taken) return propagate(taken);
      if (*taken >= used->floor()) {
        return fail(
            ErrorCode::Invalid,
            fmt::format("{}: weights are {} and the reserve is {}; allowed: together less "
                        "than {}, {} of a GPU's {}; more GPUs or smaller weights fit",
                        rank.capacity.name, format_bytes(weights),
                        format_bytes(deployment_.reserve_bytes), format_bytes(used->floor()),
                        deployment_.memory_share.exact(), format_bytes(memory)));
      }
      rank.capacity.pool_bytes = used->floor() - *taken;
    }
    return {};
  }

  const ModelConfig& model_;
  const Deployment& deployment_;
  Ranks& ranks_;
  CapacityPlan& plan_;
  std::string why_unknown_;
};

}  // namespace

Status budget_pools(const ModelConfig& model, const Deployment& deployment,
                    std::vector<PlannedRank>* ranks, CapacityPlan* plan) {
  return Budget(model, deployment, ranks, plan).run();
}

}  // namespace emblema
