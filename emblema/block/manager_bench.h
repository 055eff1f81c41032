// `emblema bench manager`: what the bookkeeping of blocks costs, without any bytes.
//
// A pool that is full of finished prompts takes new ones. For each prompt of kPromptBlocks blocks:
// look up an older prompt that is still there, take blocks for the new one (which evicts the
// oldest), seal and publish each, give everything back. Every block so goes once through look-up,
// take, commit, release and evict, which count as five operations.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/figure.h"
#include "bench/rounds.h"
#include "emblema/contract/result.h"

namespace emblema::bench {

struct ManagerBenchOptions {
  std::vector<std::uint64_t> blocks;  // one pool each, smallest first
  std::uint32_t rounds = 5;
  std::uint32_t threads = 1;  // that use one manager at once
  Progress progress;
};

// A pool holds at least so many blocks for each thread: less, and prompts that are looked up would
// be gone. At most so many entries does a group count.
std::uint64_t manager_bench_blocks_min(std::uint32_t threads);
inline constexpr std::uint64_t kManagerBenchBlocksMax = 100'000'000;

// For each pool: the life of a block ("block life"), and where 8,192 blocks fit, the look-up of a
// prompt of 2,048 blocks of 64 tokens ("look-up of 128k tokens"). `seconds` is of one block, and of
// one look-up. OutOfBlocks, Invalid: as the manager says.
Result<std::vector<Figure>> bench_manager(const ManagerBenchOptions& options);

}  // namespace emblema::bench
