// Chains and requests that take the lock piece by piece: longer than 64 blocks, and ragged.
#include "emblema/block/block_testing.h"

namespace emblema::block_testing {
namespace {

TEST(LongChain, IsFoundToItsLastBlockAndToAnyLimit) {
  for (const std::uint64_t blocks : {63u, 64u, 65u, 128u, 200u}) {
    const auto manager = one_group(4, 200);
    const std::vector<TokenId> prompt = tokens_from(1, blocks * 4);
    store(*manager, tenant("a"), prompt);
    for (const std::uint64_t limit : {blocks * 4, blocks * 4 - 1, std::uint64_t{63} * 4}) {
      const ChainMatch found = manager->match(tenant("a"), prompt, {}, limit);
      ASSERT_EQ(found.tokens, limit / 4 * 4);
      ASSERT_EQ(found.groups[0].blocks.size(), limit / 4);
      // store() writes into each block what its first token decides.
      for (std::uint64_t i = 0; i < limit / 4; ++i) {
        const auto expected = static_cast<std::byte>(((1 + i * 4) * 131) & 0xff);
        ASSERT_EQ(found.groups[0].blocks[i].bytes()[0], expected) << "block " << i;
      }
    }
    expect_sound(*manager);
  }
}

TEST(LongChain, ThatPartsBehindThePieceIsFoundUpToThere) {
  const auto manager = one_group(4, 200);
  std::vector<TokenId> prompt = tokens_from(1, 100 * 4);
  store(*manager, tenant("a"), prompt);
  prompt[70 * 4 + 3] = 99999;
  EXPECT_EQ(hit(*manager, tenant("a"), prompt), 70u * 4);
  prompt[2] = 99999;
  EXPECT_EQ(hit(*manager, tenant("a"), prompt), 0u);
  expect_sound(*manager);
}

TEST(LongChain, AWindowBehindItNeedsItsLastBlocksOnly) {
  const auto manager =
      manager_of({group_layout("growing", 4), group_layout("window", 4, 8)}, {150, 150});
  const std::vector<TokenId> prompt = tokens_from(1, 100 * 4);
  store(*manager, tenant("a"), prompt);
  const ChainMatch found = manager->match(tenant("a"), prompt, {}, prompt.size());
  EXPECT_EQ(found.tokens, prompt.size());
  EXPECT_EQ(found.groups[0].blocks.size(), 100u);
  // The window's 8 tokens end with the prompt's: the next token sees 7 of them, in two blocks.
  EXPECT_EQ(found.groups[1].first_block, 98u);
  EXPECT_EQ(found.groups[1].blocks.size(), 2u);
  expect_sound(*manager);
}

// Evicting in a window group takes the oldest blocks and leaves ghosts: only boundaries whose last
// blocks are there are left.
TEST(LongChain, AWindowWithHolesIsCutWhereItIsWhole) {
  const auto manager =
      manager_of({group_layout("growing", 4), group_layout("window", 4, 8)}, {300, 100});
  const std::vector<TokenId> prompt = tokens_from(1, 100 * 4);
  store(*manager, tenant("a"), prompt);
  const ChainMatch part = manager->match(tenant("a"), prompt, {}, 80 * 4);  // keeps two of them
  EXPECT_EQ(part.tokens, 80u * 4);
  auto taken = manager->take(std::vector<std::uint64_t>{0, 98}, "a");
  ASSERT_TRUE(taken) << taken.error().message;
  const ChainMatch found = manager->match(tenant("a"), prompt, {}, prompt.size());
  EXPECT_EQ(found.tokens, 80u * 4);
  EXPECT_EQ(found.cut_by, "window");
  expect_sound(*manager);
}

TEST(LargeTake, EvictsPieceByPieceAndGivesAllOrNothing) {
  const auto manager = one_group(4, 200, {.share_content = false});
  store(*manager, tenant("a"), tokens_from(1, 150 * 4));
  const ChainMatch held = manager->match(tenant("a"), tokens_from(1, 40), {}, 40);
  EXPECT_EQ(held.tokens, 40u);
  const auto refused = manager->take(std::vector<std::uint64_t>{191}, "a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfBlocks);
  EXPECT_EQ(manager->stats().evicted_entries, 0u);
  EXPECT_EQ(manager->counts(0).free, 50u);
  const auto taken = manager->take(std::vector<std::uint64_t>{190}, "a");
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(taken->front().size(), 190u);
  EXPECT_EQ(manager->stats().evicted_blocks, 140u);
  EXPECT_EQ(manager->counts(0).free, 0u);
  expect_sound(*manager);
}

}  // namespace
}  // namespace emblema::block_testing
