// One way of running the workload on an engine of its own. Internal to apps/agents.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/agents/agents.h"
#include "apps/agents/outputs.h"
#include "apps/agents/stack.h"
#include "apps/agents/workload.h"
#include "emblema/session/engine.h"

namespace emblema::agents {

// What all ways share.
struct Job {
  const ModelGeometry* geometry = nullptr;
  const Stack* stack = nullptr;
  const Workload* workload = nullptr;
  EngineOptions engine;
  std::function<void(const std::string& step, std::uint64_t tokens)> advance;  // never empty

  std::uint64_t answers() const { return workload->agents.size() * kBranches; }
  std::uint64_t decode_tokens() const { return workload->agents.front().answers.front().size(); }
  Outputs empty_outputs() const {
    return {answers(), decode_tokens(), stack->layers().size(), stack->hidden()};
  }
};

struct WayRun {
  WayReport report;
  Outputs outputs;
};

Result<WayRun> run_unshared(const Job& job);
Result<WayRun> run_prefix(const Job& job);
Result<WayRun> run_segment(const Job& job);

// The same answers recomputed without sharing, each by another road than the ways take:
// the first answer of one agent per preamble, whole sequence in one prefill, expanded
Result<Outputs> recompute_in_one_go(const Job& job);
// every answer under segment semantics: the document encoded in isolation with keys freshly rotated
// at the position where it is attached, in private rows of every agent
Result<Outputs> recompute_isolated(const Job& job);

}  // namespace emblema::agents
