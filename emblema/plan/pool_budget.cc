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

// Quantisation, towers and drafts explain a factor of a few between a total and the estimate. Past
// these factors it is a total of other shapes, or of another file.
bool is_far_from(std::uint64_t bytes, std::uint64_t estimate) {
  constexpr std::uint64_t kFewerTimes = 16;
  constexpr std::uint64_t kMoreTimes = 64;
  return bytes < ceil_div(estimate, kFewerTimes) || ceil_div(bytes, kMoreTimes) > estimate;
}

class Budget {
 public:
  Budget(const ModelConfig& model, const Deployment& deployment, Ranks* ranks, CapacityPlan* plan)
      : model_(model), deployment_(deployment), ranks_(*ranks), plan_(*plan) {}

  Status run() {
    if (deployment_.weight_bytes == std::uint64_t{0}) {
      return fail(ErrorCode::Invalid, "weight_bytes is 0; allowed: at least 1, or none");
    }
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
    note_source(*estimate);
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

  // What a reader of the total should know: it stands in for another, or looks like another
  // model's.
  void note_source(const WeightsEstimate& estimate) {
    const std::string& source = deployment_.weights_source;
    if (!deployment_.weight_bytes && !source.empty()) {
      plan_.notes.push_back(fmt::format(
          "{} gives no metadata.total_size: the weights are an estimate from the config", source));
    }
    if (!deployment_.weight_bytes) return;
    // The total is of all layers, whichever are asked for.
    std::uint64_t all_bytes = estimate.bytes;
    if (const auto all = estimate_weights(model_, {}); all) all_bytes = all->bytes;
    if (!is_far_from(*deployment_.weight_bytes, all_bytes)) return;
    plan_.notes.push_back(fmt::format(
        "the checkpoint's {} B{} differ from the {} B that the config's shapes give",
        *deployment_.weight_bytes, source.empty() ? "" : fmt::format(" ({})", source), all_bytes));
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
      plan_.notes.push_back(fmt::format("weights are taken to divide evenly among {} GPUs: {}",
                                        ranks, why.substr(0, why.rfind("; give --weights"))));
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
