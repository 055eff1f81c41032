// `emblema run --json`: schema 1. Keys may be added, a meaning never changes.
#pragma once

#include <string>

#include "apps/agents/agents.h"

namespace emblema {

std::string run_json(const agents::AgentsReport& report);

}  // namespace emblema
