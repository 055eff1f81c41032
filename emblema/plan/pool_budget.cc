#include "emblema/plan/pool_budget.h"

namespace emblema {

Status budget_pools(const ModelConfig&, const Deployment& deployment,
                    std::vector<PlannedRank>* ranks, CapacityPlan*) {
  for (PlannedRank& rank : *ranks) rank.capacity.pool_bytes = deployment.pool_bytes;
  return {};
}

}  // namespace emblema
