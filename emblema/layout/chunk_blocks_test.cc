// Blocks of a group whose layers attend in chunks, against a walk over every row.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "emblema/layout/block_layout.h"
#include "emblema/layout/pool_plan.h"

namespace emblema {
namespace {

BlockLayout chunk_blocks(std::uint64_t chunk_tokens, std::uint64_t block_tokens) {
  BlockLayout layout;
  layout.retention = Retention::kChunk;
  layout.window_tokens = chunk_tokens;
  layout.block_tokens = block_tokens;
  return layout;
}

// Blocks with a row of the chunk that the next token belongs to, or of a step of `step` tokens.
std::uint64_t live_blocks(const BlockLayout& layout, std::uint64_t committed, std::uint64_t step) {
  std::set<std::uint64_t> blocks;
  for (std::uint64_t row = 0; row < committed + step; ++row) {
    const bool is_over = (row / layout.window_tokens + 1) * layout.window_tokens <= committed;
    if (!is_over) blocks.insert(row / layout.block_tokens);
  }
  return blocks.size();
}

RC_GTEST_PROP(ChunkBlocks, ReleasedAreThoseOfWholeChunks, ()) {
  const BlockLayout layout = chunk_blocks(*rc::gen::inRange<std::uint64_t>(1, 40),
                                          *rc::gen::inRange<std::uint64_t>(1, 20));
  const auto tokens = *rc::gen::inRange<std::uint64_t>(0, 200);
  std::uint64_t released = 0;
  const std::uint64_t over = tokens / layout.window_tokens * layout.window_tokens;
  while ((released + 1) * layout.block_tokens <= over) ++released;
  RC_ASSERT(layout.released_at(tokens) == released);
}

RC_GTEST_PROP(ChunkBlocks, WhatIsPlannedHoldsEveryStep, ()) {
  const BlockLayout layout = chunk_blocks(*rc::gen::inRange<std::uint64_t>(1, 30),
                                          *rc::gen::inRange<std::uint64_t>(1, 12));
  const auto tokens = *rc::gen::inRange<std::uint64_t>(0, 90);
  const auto step = *rc::gen::inRange<std::uint64_t>(1, 50);
  std::uint64_t worst = 0;
  std::uint64_t worst_committed = 0;
  for (std::uint64_t committed = 0; committed <= tokens; ++committed) {
    worst_committed = std::max(worst_committed, live_blocks(layout, committed, 0));
    worst = std::max(worst, live_blocks(layout, committed, std::min(step, tokens - committed)));
  }
  RC_ASSERT(layout.blocks_at(tokens) >= worst_committed);
  RC_ASSERT(layout.blocks_peak(tokens, step) >= worst);
  // Never more than one block beyond, nor than the whole sequence takes.
  RC_ASSERT(layout.blocks_peak(tokens, step) <=
            (tokens + layout.block_tokens - 1) / layout.block_tokens);
}

TEST(ChunkBlocks, ChunksOfWholeBlocksTakeAChunk) {
  const BlockLayout layout = chunk_blocks(8192, 16);
  EXPECT_EQ(layout.blocks_at(0), 0u);
  EXPECT_EQ(layout.blocks_at(8191), 512u);
  EXPECT_EQ(layout.blocks_at(1'000'000), 512u);
  EXPECT_EQ(layout.released_at(8191), 0u);
  EXPECT_EQ(layout.released_at(8192), 512u);
  EXPECT_EQ(layout.blocks_peak(1'000'000, 1), 512u);
  EXPECT_EQ(layout.blocks_peak(1'000'000, 2048), (8191u + 2048 + 15) / 16);
  EXPECT_EQ(layout.blocks_at(UINT64_MAX), 512u);
  EXPECT_EQ(layout.blocks_peak(UINT64_MAX, 1), 512u);
}

}  // namespace
}  // namespace emblema
