// What `emblema plan` says: for people, and as JSON (docs/command-line.md has the keys).
#pragma once

#include <string>

#include "apps/cli/json_output.h"
#include "emblema/plan/capacity_plan.h"

namespace emblema {

struct PlanQuestion {
  Deployment deployment;
  bool per_layer = false;  // people only: JSON always lists the layers
};

std::string plan_text(const CapacityPlan& plan, const PlanQuestion& question);

void write_plan(const CapacityPlan& plan, const Deployment& deployment, JsonOutput* json);

}  // namespace emblema
