// Fills an engine that was opened with what a plan printed, until it refuses a sequence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/plan/capacity_plan.h"
#include "emblema/session/engine.h"

namespace emblema::capacity_testing {

// ---- presets as test parameters

inline std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

inline std::string test_name(const testing::TestParamInfo<std::string_view>& info) {
  std::string name;
  for (const char c : info.param) name += c == '-' || c == '.' ? '_' : c;
  return name;
}

// ---- filling

// The plan's printed options are the engine's, word for word.
inline EngineOptions engine_options(const RankCapacity& rank) {
  EngineOptions options;
  options.pool_bytes = *rank.pool_bytes;
  options.sequence_tokens = rank.pool_options->sequence_tokens;
  options.max_sequences = rank.pool_options->max_sequences;
  options.step_tokens = rank.pool_options->step_tokens;
  if (rank.pool_options->snapshot_bytes > 0) {
    options.snapshot_bytes = rank.pool_options->snapshot_bytes;
  }
  options.metadata_only = true;
  return options;
}

// Tokens that no sequence has had before. True if the sequence got to `tokens`.
inline bool run_sequence(Sequence& sequence, std::uint64_t tokens, std::uint64_t step,
                         TokenId* next) {
  std::vector<TokenId> ids;
  for (std::uint64_t done = 0; done < tokens; done += ids.size()) {
    const std::uint64_t count = std::min(step, tokens - done);
    if (!sequence.reserve(count)) return false;
    ids.clear();
    for (std::uint64_t i = 0; i < count; ++i) ids.push_back((*next)++);
    const Status committed = sequence.commit(ids);
    EXPECT_TRUE(committed) << committed.error().describe();
    if (!committed) return false;
  }
  return true;
}

// How many sequences of the plan's length an engine takes before it refuses one.
inline std::uint64_t count_by_filling(const ModelGeometry& geometry, const RankCapacity& rank,
                                      std::uint64_t step) {
  const auto engine = Engine::open(geometry, engine_options(rank));
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().describe());
  if (!engine) return 0;
  std::vector<Sequence> sequences;
  TokenId next = 1;
  while (sequences.size() <= rank.concurrency + 2) {
    auto sequence = Engine(*engine).start({});
    if (!sequence) break;
    if (!run_sequence(*sequence, rank.pool_options->sequence_tokens, step, &next)) break;
    sequences.push_back(std::move(*sequence));
  }
  const Status whole = engine->check_invariants();
  EXPECT_TRUE(whole) << whole.error().describe();
  return sequences.size();
}

// Plans, fills each distinct rank, and compares.
inline void expect_plan_is_what_fits(const ModelConfig& model, const Deployment& deployment) {
  const auto plan = plan_capacity(model, deployment);
  ASSERT_TRUE(plan) << model.name << ": " << plan.error().describe();
  for (const RankCapacity& rank : plan->ranks) {
    const auto geometry = rank_geometry(model, deployment, rank.stage);
    ASSERT_TRUE(geometry) << geometry.error().describe();
    EXPECT_EQ(count_by_filling(*geometry, rank, deployment.step_tokens), rank.concurrency)
        << model.name << " " << rank.name << ": " << *rank.pool_bytes << " bytes, "
        << rank.pool_options->sequence_tokens << " tokens";
  }
}

}  // namespace emblema::capacity_testing
