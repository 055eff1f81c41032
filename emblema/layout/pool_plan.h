// The one function that divides memory: Engine::open and the planner both call it, so a capacity
// answer is the allocator's.
#pragma once

#include <cstdint>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/layout/block_layout.h"

namespace emblema {

struct PoolPlanOptions {
  std::uint64_t sequence_tokens = 0;   // length that the division is made for; 0: the longest that
                                       // fits alone, at most max_positions
  std::uint64_t max_positions = 0;     // 0: no limit
  std::uint64_t max_sequences = 16;    // arena slots, fewer where the pool cannot hold them; and
                                       // sequences that windows are meant for
  std::uint64_t step_tokens = 2048;    // largest reserve
  std::uint64_t steps_max = 1;         // steps at once, with arena streams: a step buffer each
  std::uint64_t draft_tokens_max = 0;  // committed tokens that may be taken back exactly
  std::uint64_t snapshot_bytes = 0;
};

struct PoolPlan {
  struct Group {
    std::uint64_t blocks = 0;
    std::uint64_t block_bytes = 0;
    std::uint64_t block_tokens = 0;
  };
  std::vector<Group> groups;      // as ModelLayout::groups
  std::uint64_t arena_slots = 0;  // 0: the model has no arena streams
  std::uint64_t arena_bytes = 0;  // slots and step buffers
  std::uint64_t snapshot_bytes = 0;
  std::uint64_t snapshots = 0;        // whole ones in snapshot_bytes
  std::uint64_t used_bytes = 0;       // sum of the above, <= pool_bytes
  std::uint64_t sequence_tokens = 0;  // the length that was used

  // Tokens that fit as one long sequence: what the scarcest group holds. Where no group bounds it
  // (every layer has a window): max_positions, or kSequenceTokensMax if that is not given.
  std::uint64_t tokens = 0;
  // Sequences of `sequence_tokens` that fit at once: those that run there from their first token
  // in steps of `step_tokens`, `steps_max` at a time, and stay. At most arena_slots where the model
  // has an arena. Exact: an engine with these options refuses the next one. (Only where all groups
  // are chunks and the length ends one, so that nothing stays: as if each added a token.)
  std::uint64_t sequences = 0;
};

// What an engine sets aside for snapshots unless told otherwise: an eighth of the pool where a
// stream's state must be kept for a hit, else nothing.
std::uint64_t default_snapshot_bytes(const ModelLayout& layout, std::uint64_t pool_bytes);

// The longest sequence that is ever planned for.
inline constexpr std::uint64_t kSequenceTokensMax = std::uint64_t{1} << 40;

// As many whole sequences of `sequence_tokens` as fit, `steps_max` of them in a step and the others
// adding a token: windows and chunks are capped, and only those in a step need room for it. Of what
// is left, windows for further, shorter sequences up to `max_sequences`, then growing blocks.
// Where not one whole sequence fits: in proportion to its need, at least one block for each group;
// what is left over goes, a block at a time, to the group that is scarcest. One group:
// floor(pool / block).
// OutOfBlocks: less than one block per group (and one slot, the step buffers and snapshot_bytes);
// names the bytes needed. Invalid: an option out of range, or sizes past 64 bits.
Result<PoolPlan> plan_pool(const ModelLayout& layout, std::uint64_t pool_bytes,
                           const PoolPlanOptions& options);

}  // namespace emblema
