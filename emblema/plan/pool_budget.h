// The memory that is left for the cache: given, or what a GPU has beside the weights.
#pragma once

#include <vector>

#include "emblema/contract/result.h"
#include "emblema/plan/rank_capacity.h"

namespace emblema {

// Fills each rank's weight_bytes and pool_bytes, and the plan's weights.
//   pool = floor(memory x memory_share) - weights - reserve
// Where weights are neither given nor countable there is no pool, and a note says why.
// Invalid: weights and reserve that leave nothing.
Status budget_pools(const ModelConfig& model, const Deployment& deployment,
                    std::vector<PlannedRank>* ranks, CapacityPlan* plan);

}  // namespace emblema
