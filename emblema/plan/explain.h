// How each figure of a capacity plan comes about: its formula with the numbers filled in, as text.
// Formulas are built from the plan's own parts, so that they cannot tell of another computation.
#pragma once

#include <string>
#include <vector>

#include "emblema/plan/capacity_plan.h"

namespace emblema {

struct ExplainedFigure {
  std::string rank;     // "tp0..7"; "" of the whole deployment
  std::string figure;   // the JSON key: "growing_bytes_per_token", "concurrency"
  std::string value;    // "70272", exact
  std::string formula;  // "61 x (512 c_kv bf16 + 64 k_rope bf16 = 1152)"
};

// In the order of the plan: each rank's figures, then the deployment's. `deployment` is the one
// that the plan was made for. Any thread.
std::vector<ExplainedFigure> explain(const CapacityPlan& plan, const Deployment& deployment);

}  // namespace emblema
