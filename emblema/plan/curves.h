// What a plan is drawn from: bytes against context by kind of layer, capacity against the number of
// tensor ranks. The same arithmetic as plan_capacity, at many points.
//
// Plain values; any thread may read them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/model/model_config.h"
#include "emblema/plan/deployment.h"

namespace emblema {

// Lengths to draw a curve of: every power of two from 16 on and two lengths between each and the
// next (5/4 and 3/2 of it), so that equal ratios lie equally far apart and windows, which are
// powers of two, get their knee; last the longest itself. Increasing. 0: 131,072, where a model
// fixes no positions. At most 16: every length from 1 on.
std::vector<std::uint64_t> lengths_for_curves(std::uint64_t max_positions);

// What layers of one kind keep: "MLA", "GQA window 128", "index keys", "window 128" (DeepSeek-V4's
// rows beside compressed ones), "encoder rows", and last "state", which plan_capacity's payload
// leaves out.
struct KindCurve {
  std::string kind;
  std::uint32_t layers = 0;                  // that keep it
  std::vector<std::uint64_t> payload_bytes;  // of one sequence, at each length
};

// One sequence on one rank, at each of `tokens`.
struct ByteCurves {
  std::vector<std::uint64_t> tokens;           // of the sequence, wherever its tokens lie
  std::vector<KindCurve> kinds;                // in order of first appearance; "state" last
  std::vector<std::uint64_t> payload_bytes;    // all kinds but "state", as LengthBytes has it
  std::vector<std::uint64_t> allocated_bytes;  // whole blocks, padding and the arena slot: shared
                                               // by kinds, so not theirs to split
};

// `stage`: whose rank; RankCapacity::stage of a plan's ranks[0] for the one that bounds it. Errors
// as of plan_capacity.
Result<ByteCurves> bytes_by_kind(const ModelConfig& model, const Deployment& deployment,
                                 const Stage& stage, std::span<const std::uint64_t> tokens);

// The answer for one number of tensor ranks.
struct TensorPoint {
  std::uint32_t tensor = 1;
  std::string refused{};  // why not; then nothing else is set
  Rational growing_bytes_per_token{};
  std::uint64_t fixed_bytes_per_sequence = 0;
  std::uint64_t state_bytes_per_sequence = 0;
  std::optional<std::uint64_t> pool_bytes{};   // of each rank; with the rest present where known
  std::optional<std::uint64_t> tokens{};       // of one sequence as long as fits
  std::optional<std::uint64_t> concurrency{};  // sequences of the deployment's context at once, of
                                               // one copy of the model
};

// At 1, 2, 4, ... 64 tensor ranks and at the deployment's own number, increasing. A pool that was
// given is each rank's, however many there are; one that weights leave grows with them. Give
// context_tokens, or each point is for its own longest sequence. Errors as of plan_capacity where
// every number of ranks is refused: that of the deployment's own.
Result<std::vector<TensorPoint>> capacity_by_tensor(const ModelConfig& model,
                                                    const Deployment& deployment);

}  // namespace emblema
