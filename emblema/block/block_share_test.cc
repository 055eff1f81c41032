// Equal bytes become one block after memcmp; unequal ones never do, whatever their digests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/block/block_testing.h"

namespace emblema {
namespace {

using namespace block_testing;

TEST(ContentShare, EqualBytesUnderDifferentKeysBecomeOneBlock) {
  auto manager = one_group(4, 8);
  const ChainMatch a = store(*manager, tenant("t"), tokens_from(0, 4), 1);
  const ChainMatch b = store(*manager, tenant("t"), tokens_from(100, 4), 1);
  EXPECT_EQ(a.groups[0].blocks[0].id(), b.groups[0].blocks[0].id());
  EXPECT_EQ(manager->stats().content_shared_blocks, 1u);
  EXPECT_EQ(manager->stats().content_collisions, 0u) << "equal bytes are no collision";
  EXPECT_EQ(manager->counts(0).referenced, 1u);
  EXPECT_EQ(manager->counts(0).holds, 2u);
  expect_sound(*manager);
}

TEST(ContentShare, StaysWithinATenantUnlessAskedFor) {
  for (const bool across : {false, true}) {
    auto manager = one_group(4, 8, {.share_content_across_tenants = across});
    const ChainMatch a = store(*manager, tenant("a"), tokens_from(0, 4), 1);
    const ChainMatch b = store(*manager, tenant("b"), tokens_from(0, 4), 1);
    EXPECT_EQ(a.groups[0].blocks[0].id() == b.groups[0].blocks[0].id(), across);
    EXPECT_EQ(hit(*manager, tenant("c"), tokens_from(0, 5)), 0u) << "memory is shared, hits never";
    expect_sound(*manager);
  }
}

TEST(ContentShare, CanBeSwitchedOff) {
  auto manager = one_group(4, 8, {.share_content = false});
  const ChainMatch a = store(*manager, tenant("t"), tokens_from(0, 4), 1);
  const ChainMatch b = store(*manager, tenant("t"), tokens_from(100, 4), 1);
  EXPECT_NE(a.groups[0].blocks[0].id(), b.groups[0].blocks[0].id());
}

TEST(ContentShare, AnEntrysBlockLivesAsLongAsOneOfItsEntries) {
  auto manager = one_group(4, 8);
  store(*manager, tenant("t"), tokens_from(0, 4), 1);
  store(*manager, tenant("t"), tokens_from(100, 4), 1);
  ASSERT_EQ(manager->counts(0).idle, 1u);
  // Eight blocks are wanted: both entries must go before their one block does.
  const std::uint64_t all[] = {8};
  const auto taken = manager->take(all, "t");
  ASSERT_TRUE(taken);
  EXPECT_EQ(manager->stats().evicted_entries, 2u);
  EXPECT_EQ(manager->stats().evicted_blocks, 1u);
}

// Two requests computed the same prompt at the same time: the second to publish finds the key
// taken.
TEST(DuplicateKey, EqualBytesAreMerged) {
  auto manager = one_group(4, 8);
  const auto prompt = tokens_from(0, 4);
  ChainMatch first = manager->match(tenant("t"), prompt, {}, 3);
  ChainMatch second = manager->match(tenant("t"), prompt, {}, 3);
  OpenBlock open_a = take_one(*manager, 0, "t");
  OpenBlock open_b = take_one(*manager, 0, "t");
  fill(open_a, 9, 4);
  fill(open_b, 9, 4);
  auto a = manager->publish(manager->seal(std::move(open_a), 4), first.groups[0].tip, prompt, {});
  auto b = manager->publish(manager->seal(std::move(open_b), 4), second.groups[0].tip, prompt, {});
  EXPECT_EQ(a.block.id(), b.block.id());
  EXPECT_EQ(manager->stats().content_shared_blocks, 1u);
  EXPECT_EQ(manager->stats().duplicate_unequal, 0u);
  EXPECT_EQ(manager->counts(0).referenced, 1u);
}

TEST(DuplicateKey, OtherBytesStayPrivateAndTheirChildrenGoUnderTheFirst) {
  auto manager = one_group(4, 8);
  const auto prompt = tokens_from(0, 8);
  const std::span<const TokenId> all(prompt);
  ChainMatch first = manager->match(tenant("t"), prompt, {}, 7);
  ChainMatch second = manager->match(tenant("t"), prompt, {}, 7);
  OpenBlock open_a = take_one(*manager, 0, "t");
  OpenBlock open_b = take_one(*manager, 0, "t");
  fill(open_a, 1, 4);
  fill(open_b, 2, 4);  // the last bits differ: another chunking
  const BlockId id_b = open_b.id();
  auto a =
      manager->publish(manager->seal(std::move(open_a), 4), first.groups[0].tip, all.first(4), {});
  auto b =
      manager->publish(manager->seal(std::move(open_b), 4), second.groups[0].tip, all.first(4), {});
  EXPECT_EQ(b.block.id(), id_b) << "the newcomer reads its own bytes";
  EXPECT_EQ(manager->stats().duplicate_unequal, 1u);
  if (digest_bits_under_test() == 256) {
    EXPECT_EQ(manager->stats().content_collisions, 0u) << "other bytes under one key collide not";
  }
  OpenBlock open_c = take_one(*manager, 0, "t");
  fill(open_c, 3, 4);
  auto c = manager->publish(manager->seal(std::move(open_c), 4), b.tip, all.subspan(4), {});
  const ChainMatch found = manager->match(tenant("t"), joined(prompt, {1}), {}, 8);
  ASSERT_EQ(found.tokens, 8u);
  EXPECT_EQ(found.groups[0].blocks[0].id(), a.block.id());
  EXPECT_EQ(found.groups[0].blocks[1].id(), c.block.id());
  expect_sound(*manager);
}

// With no bits left of any digest everything collides, and still nothing wrong is shared or hit.
TEST(CutDigest, EveryDigestCollidesAndNoWrongByteIsServed) {
  for (const unsigned bits : {0u, 1u, 8u}) {
    auto manager = one_group(4, 16, {.digest_bits_for_test = bits});
    std::vector<ChainMatch> stored;
    for (std::uint32_t i = 0; i < 4; ++i) {
      stored.push_back(store(*manager, tenant("t"), tokens_from(i * 100, 8), i * 1000));
    }
    for (std::uint32_t i = 0; i < 4; ++i) {
      const ChainMatch found = manager->match(tenant("t"), tokens_from(i * 100, 9), {}, 8);
      ASSERT_EQ(found.tokens, 8u);
      for (std::size_t block = 0; block < 2; ++block) {
        EXPECT_EQ(found.groups[0].blocks[block].id(), stored[i].groups[0].blocks[block].id());
      }
      EXPECT_EQ(hit(*manager, tenant("u"), tokens_from(i * 100, 9)), 0u);
    }
    if (bits == 0) {
      // Eight different blocks: the i-th is compared with the i-1 before it.
      EXPECT_EQ(manager->stats().content_collisions, 28u);
      EXPECT_GT(manager->stats().key_collisions, 0u);
    }
    EXPECT_EQ(manager->stats().content_shared_blocks, 0u);
    expect_sound(*manager);
  }
}

TEST(DeferredSeal, TheEntryIsThereAtOnceAndSharingComesLater) {
  auto manager = one_group(4, 8, {.seal = SealMode::kDeferred});
  ChainMatch a = store(*manager, tenant("t"), tokens_from(0, 4), 1);
  ChainMatch b = store(*manager, tenant("t"), tokens_from(100, 4), 1);
  EXPECT_EQ(hit(*manager, tenant("t"), tokens_from(100, 5)), 4u);
  EXPECT_EQ(manager->counts(0).referenced, 2u);
  EXPECT_EQ(manager->seal_pending(1), 1u);
  EXPECT_EQ(manager->counts(0).referenced, 2u);
  EXPECT_EQ(manager->seal_pending(10), 1u);
  EXPECT_EQ(manager->stats().content_shared_blocks, 1u);
  EXPECT_EQ(manager->forward_epoch(), 1u);
  // The holder still reads its old block, equal in every byte, until it follows.
  SealedBlock& held = b.groups[0].blocks[0];
  EXPECT_NE(held.id(), a.groups[0].blocks[0].id());
  EXPECT_TRUE(manager->refresh(held));
  EXPECT_EQ(held.id(), a.groups[0].blocks[0].id());
  EXPECT_EQ(manager->counts(0).referenced, 1u);
  EXPECT_FALSE(manager->refresh(held));
  expect_sound(*manager);
}

TEST(DeferredSeal, ABlockWhoseHoldersAreGoneIsSkipped) {
  auto manager = one_group(4, 2, {.seal = SealMode::kDeferred});
  store(*manager, tenant("t"), tokens_from(0, 8), 1);
  manager->evict_all();
  EXPECT_EQ(manager->counts(0).free, 2u);
  EXPECT_EQ(manager->seal_pending(10), 2u);
  EXPECT_EQ(manager->counts(0).free, 2u);
  expect_sound(*manager);
}

// Two private blocks of equal bytes: the second was replaced by the first, and its holder has not
// followed yet. The first must not be opened again in place, or the follower reads what is being
// written.
TEST(DeferredSeal, ABlockThatOthersMayStillBeLedToIsNeverWritten) {
  auto manager = one_group(4, 8, {.seal = SealMode::kDeferred});
  const std::vector<TokenId> tokens = tokens_from(0, 4);
  store(*manager, tenant("t"), tokens, 1);
  const auto publish_other_bytes = [&] {
    const ChainMatch root = manager->match(tenant("t"), tokens, {}, 0);
    OpenBlock open = take_one(*manager, 0, "t");
    fill(open, 2, 4);
    return manager->publish(manager->seal(std::move(open), 4), root.groups[0].tip, tokens, {})
        .block;
  };
  SealedBlock first = publish_other_bytes();
  SealedBlock second = publish_other_bytes();
  ASSERT_EQ(manager->stats().duplicate_unequal, 2u) << "both stay private";
  manager->seal_pending(UINT64_MAX);
  ASSERT_EQ(manager->stats().content_shared_blocks, 1u);
  const std::vector<std::byte> before(second.bytes().begin(), second.bytes().end());
  EXPECT_TRUE(manager->needs_copy(first));
  auto opened = manager->reopen(std::move(first), "t");
  ASSERT_TRUE(opened);
  std::memset(opened->bytes().data(), 0xee, opened->bytes().size());
  manager->refresh(second);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), second.bytes().begin()));
  expect_sound(*manager);
}

// The queue of deferred sharing grew for ever where nobody worked it off.
TEST(DeferredSeal, TheQueueNeverOutgrowsThePool) {
  auto manager = one_group(4, 4, {.seal = SealMode::kDeferred});
  for (TokenId round = 0; round < 1000; ++round) {
    store(*manager, tenant("t"), tokens_from(round * 10, 4), round);
  }
  EXPECT_LE(manager->seal_pending(UINT64_MAX), 8u);
  EXPECT_EQ(manager->seal_pending(1), 0u);
}

TEST(SegmentEntries, AreFoundAgainWholeAndNeverByAPrompt) {
  auto manager = one_group(4, 8);
  const auto content =
      std::make_shared<const SegmentContent>(SegmentContent{tenant("t"), tokens_from(0, 6), {}});
  {
    ChainMatch match = manager->match_segment(content);
    EXPECT_EQ(match.tokens, 0u);
    const std::span<const TokenId> all(content->tokens);
    for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{0, 4}, {4, 2}}) {
      OpenBlock open = take_one(*manager, 0, "t");
      fill(open, static_cast<std::uint32_t>(first), count);
      auto published = manager->publish(manager->seal(std::move(open), count), match.groups[0].tip,
                                        all.subspan(first, count), {});
      match.groups[0].tip = std::move(published.tip);
    }
  }
  EXPECT_EQ(manager->match_segment(content).tokens, 6u);
  EXPECT_EQ(manager->stats().segment_hit_tokens, 6u);
  EXPECT_EQ(hit(*manager, tenant("t"), tokens_from(0, 7)), 0u);
  const auto longer =
      std::make_shared<const SegmentContent>(SegmentContent{tenant("t"), tokens_from(0, 7), {}});
  EXPECT_EQ(manager->match_segment(longer).tokens, 0u) << "a segment is its whole content";
  const auto other =
      std::make_shared<const SegmentContent>(SegmentContent{tenant("u"), tokens_from(0, 6), {}});
  EXPECT_EQ(manager->match_segment(other).tokens, 0u);
  manager->evict_all();
  EXPECT_EQ(manager->counts(0).entries, 0u);
}

}  // namespace
}  // namespace emblema
