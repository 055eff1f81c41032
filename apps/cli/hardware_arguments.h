// The options that say what a GPU is and what of it is left for the cache.
#pragma once

#include <string>

#include "apps/cli/plan_arguments.h"
#include "emblema/plan/deployment.h"

namespace emblema {

// "a100|h100|...": what --help shows and completion offers.
std::string gpu_names();

// --gpu, --hbm, --bandwidth, --flops, --weights, --utilisation, --reserve. `auto` weights are left
// to the plan. Invalid: names the option.
Status read_hardware(const PlanArguments& arguments, Deployment* deployment);

}  // namespace emblema
