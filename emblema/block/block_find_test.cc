// Finding and keeping: prefix hits, pins, eviction order, identity.
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/block/block_testing.h"

namespace emblema {
namespace {

using namespace block_testing;

Digest digest_of(const std::string& text) {
  return sha256(std::as_bytes(std::span(text)));
}

TEST(PrefixHit, APromptEndingInsideABlockNeverMatchesTheWholeBlock) {
  auto manager = one_group(64, 4);
  store(*manager, tenant("a"), tokens_from(0, 64));
  EXPECT_EQ(hit(*manager, tenant("a"), tokens_from(0, 63)), 0u);
  manager->evict_all();
  EXPECT_EQ(manager->counts(0).free, 4u);
  EXPECT_EQ(manager->counts(0).entries, 0u) << "no empty node stays behind";
  // Whatever the prompt's length: whole blocks, and at most all but one token.
  store(*manager, tenant("a"), tokens_from(0, 192));
  for (std::size_t length = 0; length <= 192; ++length) {
    const std::uint64_t expected = length == 0 ? 0 : (length - 1) / 64 * 64;
    EXPECT_EQ(hit(*manager, tenant("a"), tokens_from(0, length)), expected) << length;
  }
}

TEST(PrefixHit, StopsAtTheFirstTokenThatDiffers) {
  auto manager = one_group(4, 8);
  store(*manager, tenant("a"), tokens_from(0, 16));
  for (std::size_t at = 0; at < 16; ++at) {
    std::vector<TokenId> prompt = tokens_from(0, 17);
    prompt[at] += 1000;
    EXPECT_EQ(hit(*manager, tenant("a"), prompt), at / 4 * 4) << at;
  }
}

TEST(PrefixHit, ExtraIdsAreComparedLikeTokens) {
  auto manager = one_group(4, 8);
  const std::vector<TokenId> prompt = tokens_from(0, 9);
  Digest cat;
  cat.bytes[0] = 1;
  Digest dog;
  dog.bytes[0] = 2;
  const std::vector<ExtraId> with_cat = {{5, cat}};
  const std::vector<ExtraId> with_dog = {{5, dog}};
  ChainMatch match = manager->match(tenant("a"), prompt, with_cat, 8);
  for (std::uint64_t first = 0; first < 8; first += 4) {
    const std::vector<ExtraId> extras =
        first == 4 ? std::vector<ExtraId>{{1, cat}} : std::vector<ExtraId>{};
    auto published = manager->publish(manager->seal(take_one(*manager), 4), match.groups[0].tip,
                                      std::span<const TokenId>(prompt).subspan(first, 4), extras);
    match.groups[0].tip = std::move(published.tip);
    match.groups[0].blocks.push_back(std::move(published.block));
  }
  EXPECT_EQ(manager->match(tenant("a"), prompt, with_cat, 8).tokens, 8u);
  EXPECT_EQ(manager->match(tenant("a"), prompt, with_dog, 8).tokens, 4u);
  EXPECT_EQ(manager->match(tenant("a"), prompt, {}, 8).tokens, 4u);
}

// One adapter's cache served to another, or the same adapter name with new weights.
TEST(PrefixHit, AnotherAdapterNeverHits) {
  auto manager = one_group(8, 32);
  std::vector<CacheIdentity> identities(4, tenant("t"));
  identities[1].adapter = digest_of("a v1");
  identities[2].adapter = digest_of("b");
  identities[3].adapter = digest_of("a v2");
  const std::vector<TokenId> prompt = tokens_from(0, 17);
  for (std::size_t stored = 0; stored < 4; ++stored) {
    store(*manager, identities[stored], prompt);
    for (std::size_t asked = 0; asked < 4; ++asked) {
      EXPECT_EQ(hit(*manager, identities[asked], prompt), asked == stored ? 16u : 0u)
          << stored << " asked by " << asked;
    }
    manager->evict_all();
  }
  for (const CacheIdentity& identity : identities) store(*manager, identity, prompt);
  for (const CacheIdentity& identity : identities) EXPECT_EQ(hit(*manager, identity, prompt), 16u);
}

TEST(PrefixHit, EveryFieldOfTheIdentityKeepsCallersApart) {
  auto manager = one_group(4, 16);
  const std::vector<TokenId> prompt = tokens_from(0, 5);
  const CacheIdentity base = tenant("a");
  store(*manager, base, prompt);
  std::vector<CacheIdentity> others(5, base);
  others[0].geometry.bytes[3] = 1;
  others[1].weights.bytes[3] = 1;
  others[2].adapter.bytes[3] = 1;
  others[3].tenant = "b";
  others[4].salt = "pepper";
  for (const CacheIdentity& other : others) EXPECT_EQ(hit(*manager, other, prompt), 0u);
  EXPECT_EQ(hit(*manager, base, prompt), 4u);
}

// Locking a matched path skipped the matched node itself, so that it was evicted in use.
TEST(PinnedPath, TheMatchedNodeItselfStays) {
  auto manager = one_group(4, 6);
  const std::vector<TokenId> a = tokens_from(0, 8);
  const std::vector<TokenId> ab = tokens_from(0, 16);
  store(*manager, tenant("t"), a);
  store(*manager, tenant("t"), ab);
  ASSERT_EQ(manager->counts(0).idle, 4u);
  {
    const Pin pin = manager->pin(tenant("t"), ab, {});
    EXPECT_EQ(pin.tokens(), 16u);
    const std::uint64_t whole_pool[] = {6};
    EXPECT_FALSE(manager->take(whole_pool, "t"));
    const std::uint64_t rest[] = {2};
    EXPECT_TRUE(manager->take(rest, "t"));
    EXPECT_EQ(hit(*manager, tenant("t"), joined(ab, {99})), 16u);
    EXPECT_EQ(manager->evict_all(), 0u);
    expect_sound(*manager);
  }
  EXPECT_EQ(manager->evict_all(), 4u) << "after the pin all can go";
  EXPECT_EQ(manager->counts(0).entries, 0u);
}

TEST(PinnedPath, APinOnNothingHoldsNothing) {
  auto manager = one_group(4, 2);
  const Pin pin = manager->pin(tenant("a"), tokens_from(0, 9), {});
  EXPECT_EQ(pin.tokens(), 0u);
  EXPECT_EQ(manager->counts(0).entries, 0u);
}

// Eviction took a front or middle block of a chain, leaving tails that nobody can match.
TEST(Eviction, TakesTheEndOfAChainFirst) {
  for (int seed = 0; seed < 200; ++seed) {
    auto manager = one_group(4, 3);
    const std::vector<TokenId> chain = tokens_from(static_cast<TokenId>(seed * 100), 12);
    store(*manager, tenant("a"), chain, static_cast<std::uint32_t>(seed));
    const OpenBlock fresh = take_one(*manager);
    EXPECT_EQ(hit(*manager, tenant("a"), joined(chain, {7})), 8u);
    expect_sound(*manager);
  }
}

TEST(Eviction, TakesTheLeastRecentlyUsedChainFirst) {
  auto manager = one_group(4, 4);
  const auto a = tokens_from(0, 8);
  const auto b = tokens_from(100, 8);
  store(*manager, tenant("t"), a);
  store(*manager, tenant("t"), b, 50);
  EXPECT_EQ(hit(*manager, tenant("t"), joined(a, {1})), 8u);  // a is used again
  const std::uint64_t two[] = {2};
  const auto taken = manager->take(two, "t");
  ASSERT_TRUE(taken);
  EXPECT_EQ(hit(*manager, tenant("t"), joined(b, {1})), 0u);
  EXPECT_EQ(hit(*manager, tenant("t"), joined(a, {1})), 8u);
}

TEST(Eviction, WhatARunningSequenceHoldsStays) {
  auto manager = one_group(4, 4);
  const ChainMatch running = store(*manager, tenant("t"), tokens_from(0, 12));
  EXPECT_EQ(manager->evict_all(), 0u);
  const std::uint64_t two[] = {2};
  EXPECT_FALSE(manager->take(two, "t"));
  EXPECT_EQ(manager->counts(0).referenced, 3u);
}

// Used, free and evictable counts stopped adding up when two prompts shared a block.
TEST(Counts, AddUpAtEveryStepWhateverIsShared) {
  auto manager = one_group(64, 10);
  const auto check = [&](std::uint64_t live, std::uint64_t idle) {
    const BlockCounts counts = manager->counts(0);
    EXPECT_EQ(counts.free + counts.idle + counts.referenced + counts.open, 10u);
    EXPECT_EQ(counts.referenced, live);
    EXPECT_EQ(counts.idle, idle);
    expect_sound(*manager);
  };
  const auto first = tokens_from(0, 64);
  store(*manager, tenant("t"), joined(first, tokens_from(1000, 36)), 1);
  check(0, 1);
  store(*manager, tenant("t"), joined(first, tokens_from(2000, 100)), 1000);
  check(0, 2);
  store(*manager, tenant("t"), joined(first, tokens_from(3000, 196)), 2000);
  check(0, 5);
  {
    const Pin pin = manager->pin(tenant("t"), joined(first, tokens_from(2000, 100)), {});
    check(0, 5);
    EXPECT_EQ(manager->evict_all(), 3u);
    check(0, 2);
  }
  EXPECT_EQ(manager->evict_all(), 2u);
  check(0, 0);
}

TEST(TwoGroups, AHitIsWholeInEveryGroup) {
  auto manager = manager_of({group_layout("growing", 4), group_layout("window 8", 2, 8)}, {16, 16});
  store(*manager, tenant("a"), tokens_from(0, 16));
  {
    const ChainMatch found = manager->match(tenant("a"), tokens_from(0, 20), {}, 19);
    EXPECT_EQ(found.tokens, 16u);
    EXPECT_EQ(found.groups[0].blocks.size(), 4u);
    // The next query, at position 16, sees keys from 16 - 8 + 1 = 9: blocks of 2 from 4 on.
    EXPECT_EQ(found.groups[1].first_block, 4u);
    EXPECT_EQ(found.groups[1].blocks.size(), 4u);
  }
  // A window group loses its oldest entries, whatever stands on them; the hit needs the last ones.
  for (int gone = 1; gone <= 8; ++gone) {
    std::vector<OpenBlock> held;
    const std::uint64_t counts[] = {0, static_cast<std::uint64_t>(8 + gone)};
    auto taken = manager->take(counts, "a");
    ASSERT_TRUE(taken);
    const ChainMatch found = manager->match(tenant("a"), tokens_from(0, 20), {}, 19);
    EXPECT_EQ(found.tokens, gone <= 4 ? 16u : 0u) << gone;
    if (gone > 4) {
      EXPECT_EQ(found.cut_by, "window 8");
    }
    expect_sound(*manager);
  }
}

// A window group had lost some blocks: the boundary must be the longest whose window is whole.
// Window 4, blocks of 2: at boundary b the block before b and the one before that are needed, and
// at 2 the only one. All 16 ways in which four blocks can be there.
TEST(TwoGroups, TheBoundaryIsTheLongestWhoseWindowIsWhole) {
  for (unsigned mask = 0; mask < 16; ++mask) {
    auto manager = manager_of({group_layout("growing", 2), group_layout("window 4", 2, 4)}, {4, 4});
    const std::vector<TokenId> prompt = tokens_from(0, 8);
    ChainMatch stored = store(*manager, tenant("a"), prompt);
    // What is let go can be taken; what stays is held meanwhile.
    std::vector<SealedBlock> kept;
    for (unsigned block = 0; block < 4; ++block) {
      if ((mask >> block & 1) != 0) kept.push_back(std::move(stored.groups[1].blocks[block]));
    }
    stored.groups[1].blocks.clear();
    manager->evict_all();
    std::uint64_t expected = 0;
    for (std::uint64_t b = 2; b <= 8; b += 2) {
      bool whole = true;
      for (std::uint64_t token = b < 4 ? 0 : b - 3; token < b; ++token) {
        whole = whole && (mask >> (token / 2) & 1) != 0;
      }
      if (whole) expected = b;
    }
    EXPECT_EQ(hit(*manager, tenant("a"), joined(prompt, {9})), expected) << "mask " << mask;
    expect_sound(*manager);
    // What is missing is stored again into the nodes that stayed behind.
    kept.clear();
    stored = ChainMatch();
    store(*manager, tenant("a"), prompt);
    EXPECT_EQ(hit(*manager, tenant("a"), joined(prompt, {9})), 8u) << "mask " << mask;
    expect_sound(*manager);
  }
}

TEST(TwoGroups, ABoundaryIsACommonMultipleOfTheBlockTokens) {
  auto manager = manager_of({group_layout("growing", 6), group_layout("window 8", 4, 8)}, {8, 8});
  store(*manager, tenant("a"), tokens_from(0, 12));
  EXPECT_EQ(hit(*manager, tenant("a"), tokens_from(0, 12)), 0u);
  EXPECT_EQ(hit(*manager, tenant("a"), tokens_from(0, 13)), 12u);
}

// Random stores, look-ups, pins and takes; after each the whole pool is counted again.
TEST(Counts, AddUpOverRandomSteps) {
  std::mt19937 random(7);
  auto manager = one_group(4, 24);
  std::vector<ChainMatch> running;
  std::vector<Pin> pins;
  for (int step = 0; step < 3000; ++step) {
    const auto prompt = joined(tokens_from(static_cast<TokenId>(random() % 3) * 50, random() % 20),
                               tokens_from(static_cast<TokenId>(random() % 4) * 500, random() % 9));
    switch (random() % 5) {
      case 0: {
        const BlockCounts counts = manager->counts(0);
        if (counts.free + counts.idle < 10) break;  // store() itself must not be refused
        if (pins.empty()) running.push_back(store(*manager, tenant("a"), prompt, 1));
        break;
      }
      case 1:
        (void)hit(*manager, tenant("a"), prompt);
        break;
      case 2:
        if (pins.size() < 3) pins.push_back(manager->pin(tenant("a"), prompt, {}));
        break;
      case 3:
        if (!pins.empty()) pins.pop_back();
        break;
      default:
        if (!running.empty()) running.erase(running.begin());
        break;
    }
    const BlockCounts counts = manager->counts(0);
    ASSERT_EQ(counts.free + counts.open + counts.referenced + counts.idle, 24u);
    const Status ok = manager->check_invariants();
    ASSERT_TRUE(ok) << ok.error().message;
  }
}

}  // namespace
}  // namespace emblema
