// The one function that divides memory: Engine::open and the planner both call it, so a capacity
// answer is the allocator's.
#pragma once

#include <cstdint>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/layout/block_layout.h"

namespace emblema {

struct PoolPlanOptions {
  std::uint64_t sequence_tokens = 0;  // length that the division is made for; 0: the longest that
                                      // fits alone, at most max_positions
  std::uint64_t max_positions = 0;    // 0: no limit
  std::uint64_t max_sequences = 16;   // arena slots
  std::uint64_t step_tokens = 2048;   // largest reserve
  std::uint64_t steps_max = 1;        // steps at once, with arena streams
  std::uint64_t snapshot_bytes = 0;
};

struct PoolPlan {
  struct Group {
    std::uint64_t blocks = 0;
    std::uint64_t block_bytes = 0;
    std::uint64_t block_tokens = 0;
  };
  std::vector<Group> groups;  // as ModelLayout::groups
  std::uint64_t arena_bytes = 0;
  std::uint64_t snapshot_bytes = 0;
  std::uint64_t used_bytes = 0;       // sum of the above, <= pool_bytes
  std::uint64_t sequence_tokens = 0;  // the length that was used

  // Tokens that fit as one long sequence: what the scarcest group holds.
  std::uint64_t tokens = 0;
  // Sequences of `sequence_tokens` that fit at once.
  std::uint64_t sequences = 0;
};

// Memory goes to groups in proportion to what one sequence of `sequence_tokens` needs at its peak
// (windows capped), in whole blocks; what is left over goes, a block at a time, to the group that
// is scarcest. One group: floor(pool / block).
// OutOfBlocks: less than one block per group (and one slot); names the bytes needed.
Result<PoolPlan> plan_pool(const ModelLayout& layout, std::uint64_t pool_bytes,
                           const PoolPlanOptions& options);

}  // namespace emblema
