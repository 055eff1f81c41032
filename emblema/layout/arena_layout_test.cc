// Units of the arena and what a snapshot holds. Figures: DeepSeek-V4's, from its reference code's
// buffers (window of 128 rows; CSA 8 rows of 2 x 1024 and 2 x 256 numbers in fp32; HCA 128 rows of
// 2 x 512).
#include "emblema/layout/arena_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/layout/layout_testing.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

constexpr std::uint64_t kCsaTail = 8 * (2 * 1024 + 2 * 256) * 4;
constexpr std::uint64_t kHcaTail = 128 * 2 * 512 * 4;
constexpr std::uint64_t kWindowRow = 512 * 2;

TEST(ArenaLayout, UnitsOfDeepseekV4Pro) {
  const ArenaLayout arena = layout_of(samples::deepseek_v4_pro()).arena;
  EXPECT_EQ(arena.unit(ArenaClass::kWindow).bytes, 61 * 128 * kWindowRow);
  EXPECT_EQ(arena.unit(ArenaClass::kWindow).rows, 128u);
  EXPECT_EQ(arena.unit(ArenaClass::kTail).bytes, 30 * kCsaTail + 31 * kHcaTail);
  EXPECT_EQ(arena.unit(ArenaClass::kState).bytes, 0u);
  EXPECT_EQ(arena.slot_bytes, 61 * 128 * kWindowRow + 30 * kCsaTail + 31 * kHcaTail);
  EXPECT_EQ(arena.window_row_bytes, 61 * kWindowRow);
}

TEST(ArenaLayout, DraftsMakeRingsLongerAndKeepMoreVersionsOfState) {
  const ArenaLayout v4 = layout_of(samples::deepseek_v4_pro()).arena.with_drafts(3).value();
  EXPECT_EQ(v4.unit(ArenaClass::kWindow).bytes, 61 * 131 * kWindowRow);
  EXPECT_EQ(v4.unit(ArenaClass::kTail).bytes,
            30 * (kCsaTail / 8 * 11) + 31 * (kHcaTail / 128 * 131));
  EXPECT_EQ(v4.step_windows(131), 1u);
  EXPECT_EQ(v4.step_windows(132), 2u);
  EXPECT_EQ(v4.step_bytes(132),
            2 * v4.unit(ArenaClass::kWindow).bytes + v4.unit(ArenaClass::kTail).bytes);

  ModelConfig model = samples::grouped("hybrid", 2, 4, 2, 16);
  model.layers[1] = {};
  model.layers[1].cache = LayerCache::kNone;
  model.layers[1].has_rope = false;
  model.layers[1].recurrent = {.mixer = RecurrentMixer::kMamba2,
                               .conv_channels = 64,
                               .conv_columns = 3,
                               .state_heads = 2,
                               .state_rows = 16,
                               .state_columns = 32};
  const ArenaLayout plain = layout_of(model).arena;
  const std::uint64_t state = 2 * 16 * 32 * 4 + 64 * 3 * 2;  // fp32 state, bf16 columns
  EXPECT_EQ(plain.unit(ArenaClass::kState).bytes, state);
  EXPECT_EQ(plain.slot_bytes, state);
  const ArenaLayout drafts = plain.with_drafts(3).value();
  EXPECT_EQ(drafts.versions, 4u);
  EXPECT_EQ(drafts.slot_bytes, 4 * state);
  EXPECT_EQ(drafts.step_bytes(2048), 4 * state);
  EXPECT_THAT(plain.with_drafts(1025).error().message,
              testing::HasSubstr("draft_tokens_max is 1025; allowed: up to 1024"));
}

TEST(ArenaLayout, ASnapshotHoldsWhatTheNextTokenReads) {
  const ModelLayout layout = layout_of(samples::deepseek_v4_pro());
  ASSERT_TRUE(layout.snapshot);
  EXPECT_EQ(layout.snapshot->block_tokens, 128u);
  EXPECT_EQ(layout.snapshot->block_bytes, 61 * 127 * kWindowRow + 30 * kCsaTail + 31 * kHcaTail);
  for (const StreamPage& page : layout.snapshot->pages) EXPECT_EQ(page.offset_bytes % 64, 0u);
  EXPECT_FALSE(layout_of(samples::deepseek_v3()).snapshot);
}

TEST(ArenaLayout, BoundariesOfAModelWithoutBlocks) {
  ModelConfig model = samples::grouped("rwkv", 1, 4, 2, 16);
  model.layers[0] = {};
  model.layers[0].cache = LayerCache::kNone;
  model.layers[0].has_rope = false;
  model.layers[0].recurrent = {
      .mixer = RecurrentMixer::kMamba1, .state_heads = 1, .state_rows = 8, .state_columns = 8};
  EXPECT_EQ(layout_of(model).snapshot->block_tokens, kStateBoundaryTokens);
}

}  // namespace
}  // namespace emblema
