// The life of a block: taking, sealing, copy on write, giving back.
#include "emblema/block/block_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/block/block_testing.h"

namespace emblema {
namespace {

using namespace block_testing;

TEST(BlockTake, IsAllOrNothingOverGroups) {
  auto manager = manager_of({group_layout("growing", 4), group_layout("window 8", 2, 8)}, {3, 2});
  const std::uint64_t too_many[] = {2, 3};
  const auto refused = manager->take(too_many, "a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfBlocks);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("'window 8': 3 blocks needed, 2 free"));
  EXPECT_EQ(manager->counts(0).free, 3u);
  EXPECT_EQ(manager->counts(1).free, 2u);
  const std::uint64_t enough[] = {3, 2};
  EXPECT_TRUE(manager->take(enough, "a"));
  EXPECT_EQ(manager->counts(0).free, 3u) << "dropped blocks are free again";
}

TEST(BlockTake, ARefusalEvictsNothing) {
  auto manager = one_group(4, 4);
  store(*manager, tenant("a"), tokens_from(0, 8));
  const OpenBlock held = take_one(*manager);
  const std::uint64_t counts[] = {4};
  EXPECT_FALSE(manager->take(counts, "a"));
  EXPECT_EQ(manager->counts(0).idle, 2u);
  EXPECT_EQ(manager->stats().evicted_entries, 0u);
  expect_sound(*manager);
}

TEST(BlockSeal, ZeroesWhatLiesBehindTheFilledRows) {
  auto manager = one_group(4, 2);
  OpenBlock open = take_one(*manager);
  std::memset(open.bytes().data(), 0xee, open.bytes().size());
  const SealedBlock sealed = manager->seal(std::move(open), 3);
  for (std::uint64_t i = 0; i < sealed.bytes().size(); ++i) {
    EXPECT_EQ(sealed.bytes()[i], i < 3 * kRowBytes ? std::byte{0xee} : std::byte{0}) << i;
  }
}

TEST(BlockSealDeathTest, SealingTwiceIsAProgrammersError) {
  auto manager = one_group(4, 2);
  OpenBlock open = take_one(*manager);
  const SealedBlock sealed = manager->seal(std::move(open), 4);
  // NOLINTNEXTLINE(bugprone-use-after-move): the misuse itself
  EXPECT_DEATH((void)manager->seal(std::move(open), 4), "an open block with at most all its rows");
}

TEST(BlockSealDeathTest, MoreRowsThanTheBlockHasIsAProgrammersError) {
  auto manager = one_group(4, 2);
  OpenBlock open = take_one(*manager);
  EXPECT_DEATH((void)manager->seal(std::move(open), 5), "an open block with at most all its rows");
}

TEST(BlockReopen, ASoleHolderKeepsItsMemory) {
  auto manager = one_group(4, 2);
  OpenBlock open = take_one(*manager);
  fill(open, 5, 2);
  const BlockId id = open.id();
  SealedBlock sealed = manager->seal(std::move(open), 2);
  EXPECT_FALSE(manager->needs_copy(sealed));
  const auto again = manager->reopen(std::move(sealed), "a");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->id(), id);
  EXPECT_EQ(manager->stats().copied_blocks, 0u);
}

TEST(BlockReopen, ASharedBlockIsCopiedAndNeverWritten) {
  auto manager = one_group(4, 3);
  OpenBlock open = take_one(*manager);
  fill(open, 5, 2);
  SealedBlock mine = manager->seal(std::move(open), 2);
  const SealedBlock theirs = mine.share();
  const std::vector<std::byte> before(theirs.bytes().begin(), theirs.bytes().end());
  ASSERT_TRUE(manager->needs_copy(mine));
  auto copy = manager->reopen(std::move(mine), "a");
  ASSERT_TRUE(copy);
  EXPECT_NE(copy->id().index, theirs.id().index);
  EXPECT_EQ(std::memcmp(copy->bytes().data(), before.data(), 2 * kRowBytes), 0);
  std::memset(copy->bytes().data(), 0xff, copy->bytes().size());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), theirs.bytes().begin()));
  EXPECT_EQ(manager->stats().copied_blocks, 1u);
}

TEST(BlockReopen, WithoutRoomForACopyTheBlockIsAsItWas) {
  auto manager = one_group(4, 1);
  OpenBlock open = take_one(*manager);
  SealedBlock mine = manager->seal(std::move(open), 2);
  const SealedBlock theirs = mine.share();
  const auto copy = manager->reopen(std::move(mine), "a");
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code, ErrorCode::OutOfBlocks);
  EXPECT_TRUE(mine.holds());  // NOLINT(bugprone-use-after-move): promised by the contract
  expect_sound(*manager);
}

TEST(BlockReopen, AnIndexedBlockIsCopied) {
  auto manager = one_group(4, 3);
  ChainMatch stored = store(*manager, tenant("a"), tokens_from(0, 4));
  ASSERT_TRUE(manager->needs_copy(stored.groups[0].blocks[0]));
  const auto copy = manager->reopen(std::move(stored.groups[0].blocks[0]), "a");
  ASSERT_TRUE(copy);
  EXPECT_EQ(hit(*manager, tenant("a"), tokens_from(0, 5)), 4u) << "the indexed one is still there";
}

TEST(BlockHolds, AbandonedBlocksComeBackAtEveryStage) {
  auto manager = one_group(4, 2);
  { const OpenBlock open = take_one(*manager); }
  EXPECT_EQ(manager->counts(0).free, 2u);
  { const SealedBlock sealed = manager->seal(take_one(*manager), 1); }
  EXPECT_EQ(manager->counts(0).free, 2u);
  {
    const SealedBlock sealed = manager->seal(take_one(*manager), 1);
    const SealedBlock shared = sealed.share();
    EXPECT_EQ(manager->counts(0).holds, 2u);
    EXPECT_EQ(manager->counts(0).logical_bytes, 2 * manager->layout(0).block_bytes);
    EXPECT_EQ(manager->counts(0).physical_bytes, manager->layout(0).block_bytes);
  }
  EXPECT_EQ(manager->counts(0).free, 2u);
  expect_sound(*manager);
}

TEST(BlockHolds, AHandleNamesTheSealedBytes) {
  auto manager = one_group(4, 4);
  const OpenBlock first = take_one(*manager);
  const SealedBlock sealed = manager->seal(take_one(*manager), 4);
  const Handle handle = sealed.handle();
  EXPECT_EQ(manager->region_base(0) + handle.offset_bytes, sealed.bytes().data());
  EXPECT_EQ(handle.length_bytes, sealed.bytes().size());
}

TEST(BlockZeroing, ABlockThatChangesItsTenantHoldsNothingOfTheOldOne) {
  auto manager = one_group(4, 1);
  {
    OpenBlock open = take_one(*manager, 0, "a");
    std::memset(open.bytes().data(), 0x5a, open.bytes().size());
  }
  {
    const OpenBlock same = take_one(*manager, 0, "a");
    EXPECT_EQ(manager->stats().zeroed_blocks, 0u);
  }
  const OpenBlock other = take_one(*manager, 0, "b");
  for (const std::byte byte : other.bytes()) EXPECT_EQ(byte, std::byte{0});
  EXPECT_EQ(manager->stats().zeroed_blocks, 1u);
}

TEST(BlockManagerMetadataOnly, CountsWithoutBytes) {
  auto manager = one_group(4, 8, {.metadata_only = true});
  store(*manager, tenant("a"), tokens_from(0, 8));
  store(*manager, tenant("a"), tokens_from(0, 16));
  EXPECT_EQ(hit(*manager, tenant("a"), tokens_from(0, 16)), 12u);
  EXPECT_EQ(manager->counts(0).idle, 4u);
  EXPECT_EQ(manager->region_base(0), nullptr);
  expect_sound(*manager);
}

// The suite runs again with every digest cut (EMBLEMA_TEST_DIGEST_BITS): it must have met
// collisions, or the cut did not take.
class CutDigests : public testing::Environment {
  void TearDown() override {
    if (digest_bits_under_test() <= 8) {
      EXPECT_GT(collisions_seen(), 0u) << "no digest ever collided";
    }
  }
};
const testing::Environment* const kCutDigests =
    testing::AddGlobalTestEnvironment(new CutDigests);  // gtest owns it

}  // namespace
}  // namespace emblema
