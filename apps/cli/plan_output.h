// What `emblema plan` says: for people, and as JSON (docs/command-line.md has the keys).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/cli/json_output.h"
#include "apps/cli/plan_arguments.h"
#include "emblema/peers/peer.h"
#include "emblema/plan/capacity_plan.h"

namespace emblema {

struct SweepRow {
  std::uint64_t value = 0;           // tokens, or tensor ranks
  std::optional<CapacityPlan> plan;  // `at` of its ranks has the context's length alone
  std::string refusal;               // why there is none: ranks that do not divide the heads
};

// Another engine's answer.
struct PeerAnswer {
  PeerEngine engine = PeerEngine::kVllm;
  std::optional<PeerPlan> plan;
  std::string refusal;  // why there is none, in the engine's words
};

// One model's part of the answer.
struct PlanAnswer {
  ModelConfig model;
  Deployment deployment;
  CapacityPlan plan;
  SweepAxis axis = SweepAxis::kNone;
  std::vector<SweepRow> sweep;
  std::vector<PeerAnswer> peers;  // with --engine its one first, then those of --compare
};

struct PlanView {
  bool per_layer = false;  // people only: JSON always lists the layers
  bool explain = false;
  std::string engine = "emblema";  // whose plan people read first
};

// "61 x MLA: 611,136 tokens per rank; 4 requests of 128k at once, bound by ..."
std::string plan_headline(const PlanAnswer& answer);

std::string plan_text(const PlanAnswer& answer, const PlanView& view);

// REQUIRES: a sweep.
std::string sweep_text(const PlanAnswer& answer);

// From which tensor degree on a model with grouped heads holds more tokens than one with latents.
struct PlannedCrossover {
  std::string grouped;
  std::string latent;
  TensorCrossover crossover;
  std::uint64_t pool_bytes = 0;  // per GPU, the same for both
};

// For each pair of such models that were planned with a pool.
Result<std::vector<PlannedCrossover>> crossovers_of(std::span<const PlanAnswer> answers);

std::string crossovers_text(std::span<const PlannedCrossover> crossovers);

// `crossovers` are those of all answers; the model's own are written.
void write_plan(const PlanAnswer& answer, const PlanView& view,
                std::span<const PlannedCrossover> crossovers, JsonOutput* json);

}  // namespace emblema
