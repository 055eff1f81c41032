// The memory that is left for the cache: given, or what a GPU has beside the weights.
#pragma once

#include <vector>

#include "emblema/contract/result.h"
#include "emblema/plan/rank_capacity.h"

namespace emblema {

// Fills each rank's weight_bytes and pool_bytes, and the plan's weights.
//   pool = floor(memory x memory_share) - weights - reserve
// Invalid: weights and reserve that leave nothing. Unsupported: weights are needed, not given and
// cannot be estimated from this config (names what it lacks).
Status budget_pools(const ModelConfig& model, const Deployment& deployment,
                    std::vector<PlannedRank>* ranks, CapacityPlan* plan);

}  // namespace emblema
