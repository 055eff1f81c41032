// What `emblema plan` says: for people, and as JSON (docs/command-line.md has the keys).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/json_output.h"
#include "emblema/plan/capacity_plan.h"

namespace emblema {

struct SweepRow {
  RankCapacity rank;  // the one that bounds the answer; `at` has the row's length alone
  std::optional<std::uint64_t> concurrency_total;
};

// One model's part of the answer.
struct PlanAnswer {
  ModelConfig model;
  Deployment deployment;
  CapacityPlan plan;
  std::vector<SweepRow> sweep;
};

struct PlanView {
  bool per_layer = false;  // people only: JSON always lists the layers
  bool explain = false;
};

// "61 x MLA: 611,136 tokens per rank; 4 requests of 128k at once, bound by ..."
std::string plan_headline(const PlanAnswer& answer);

std::string plan_text(const PlanAnswer& answer, const PlanView& view);

void write_plan(const PlanAnswer& answer, const PlanView& view, JsonOutput* json);

}  // namespace emblema
