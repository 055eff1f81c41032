// One rank's part of a capacity plan.
#pragma once

#include <cstdint>

#include "emblema/contract/result.h"
#include "emblema/layout/block_layout.h"
#include "emblema/plan/capacity_plan.h"

namespace emblema {

struct PlannedRank {
  ModelGeometry geometry;
  ModelLayout layout;
  RankCapacity capacity;
};

// Geometry, layout and what a sequence takes; no pool yet.
Result<PlannedRank> measure_rank(const ModelConfig& model, const Deployment& deployment,
                                 const Stage& stage);

// The longest sequence, in tokens over all dcp ranks, that the rank's pool holds alone; at most the
// model's positions. REQUIRES: pool_bytes is there.
Result<std::uint64_t> longest_alone(const PlannedRank& rank, const Deployment& deployment);

// Divides capacity.pool_bytes for sequences of `context_tokens`.
Status divide_pool(std::uint64_t context_tokens, const Deployment& deployment, PlannedRank* rank);

}  // namespace emblema
