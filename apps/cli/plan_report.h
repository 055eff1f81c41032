// `emblema plan --html` and `--svg`: the plan as one page for a phone, a desk or paper, and each of
// its pictures on its own.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/plan_charts.h"
#include "emblema/contract/result.h"

namespace emblema {

struct PlanPage {
  std::vector<PlanPicture> plans;  // one model, or several side by side; not empty
  bool per_layer = false;          // list every layer
  std::string command;             // what repeats it, as typed
};

// One self-contained page. Errors as of the charts: a deployment that plan_capacity refuses.
Result<std::string> plan_html(const PlanPage& page);

// One picture with its own style, for several models a line each. Invalid: a roofline without
// a GPU's speeds.
Result<std::string> plan_svg(const PlanPage& page, PlanChart chart);

}  // namespace emblema
