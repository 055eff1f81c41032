// What a sink is told: each thing once, in order, outside the lock.
#include "emblema/block/cache_event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/block/block_testing.h"

namespace emblema {
namespace {

using namespace block_testing;
using testing::ElementsAre;
using Kind = CacheEvent::Kind;

constexpr unsigned kWholeKeys = 255;  // also where the suite runs with cut digests

struct Told {
  std::vector<CacheEvent> events;

  EventSink sink() {
    return [this](const CacheEvent& event) { events.push_back(event); };
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    for (const CacheEvent& event : events) all.push_back(describe(event));
    return all;
  }
  std::uint64_t count(Kind kind) const {
    return static_cast<std::uint64_t>(std::ranges::count(events, kind, &CacheEvent::kind));
  }
};

TEST(CacheEvents, TellEachThingOnceAndInOrder) {
  Told told;
  auto manager = one_group(4, 3, {.event_sink = told.sink(), .digest_bits_for_test = kWholeKeys});
  store(*manager, tenant("a"), tokens_from(0, 8));
  (void)hit(*manager, tenant("a"), tokens_from(0, 13));
  {
    const std::uint64_t two[] = {2};
    ASSERT_TRUE(manager->take(two, "b"));
  }
  (void)hit(*manager, tenant("a"), tokens_from(0, 9));
  manager->evict_all();
  EXPECT_THAT(
      told.lines(),
      ElementsAre("prefix miss of 8 tokens by tenant 'a': never stored",
                  "stored 4 tokens in group 'growing' for tenant 'a'",
                  "stored 4 tokens in group 'growing' for tenant 'a'",
                  "prefix hit of 8 tokens by tenant 'a'",
                  "prefix miss of 4 tokens by tenant 'a': never stored",
                  "evicted 4 tokens of group 'growing', unused for 0 uses: memory was wanted",
                  "prefix hit of 4 tokens by tenant 'a'",
                  "prefix miss of 4 tokens by tenant 'a': evicted",
                  "evicted 4 tokens of group 'growing', unused for 0 uses: asked to evict"));
  for (std::size_t i = 0; i < told.events.size(); ++i) EXPECT_EQ(told.events[i].number, i + 1);
  EXPECT_EQ(told.events[1].key, told.events[8].key) << "the first block goes last";
  EXPECT_EQ(told.events[2].key, told.events[5].key);
  EXPECT_EQ(told.events[5].tenant, "a");
}

TEST(CacheEvents, AgreeWithTheCounters) {
  Told told;
  auto manager = one_group(4, 6, {.event_sink = told.sink()});
  for (TokenId i = 0; i < 40; ++i) {
    store(*manager, tenant(i % 3 == 0 ? "a" : "b"), tokens_from(i % 7 * 100, 4 + i % 5), i);
    if (i % 11 == 0) manager->evict_all();
  }
  const BlockStats stats = manager->stats();
  EXPECT_EQ(told.count(Kind::kStored), stats.stored_blocks);
  EXPECT_EQ(told.count(Kind::kHit), stats.prefix_hits);
  EXPECT_EQ(told.count(Kind::kEvicted), stats.evicted_entries);
  EXPECT_EQ(told.count(Kind::kCollision), stats.key_collisions + stats.content_collisions);
  EXPECT_EQ(stats.evicted_entries,
            stats.evicted_for_memory + stats.evicted_when_asked + stats.evicted_superseded);
  EXPECT_EQ(stats.evicted_entries, stats.dead_keys);
  std::uint64_t missed = 0;
  for (const CacheEvent& event : told.events) {
    if (event.kind == Kind::kMiss) missed += event.tokens;
  }
  EXPECT_EQ(missed, stats.missed_tokens_never_stored + stats.missed_tokens_evicted +
                        stats.missed_tokens_unknown);
  EXPECT_GT(stats.evicted_for_memory, 0u);
  EXPECT_GT(stats.evicted_when_asked, 0u);
}

TEST(CacheEvents, TellCollisions) {
  Told told;
  auto manager = one_group(4, 8, {.event_sink = told.sink(), .digest_bits_for_test = 0});
  const ChainMatch first = store(*manager, tenant("a"), tokens_from(0, 4), 1);
  const ChainMatch second = store(*manager, tenant("a"), tokens_from(100, 4), 50);
  const BlockStats stats = manager->stats();
  EXPECT_EQ(stats.content_collisions, 1u);
  EXPECT_GT(stats.key_collisions, 0u);
  EXPECT_EQ(told.count(Kind::kCollision), stats.key_collisions + stats.content_collisions);
  EXPECT_THAT(told.lines(), testing::Contains(testing::HasSubstr("content collision")));
}

TEST(CacheEvents, ARefusalTellsNothing) {
  Told told;
  auto manager = one_group(4, 4, {.event_sink = told.sink()});
  const ChainMatch held = store(*manager, tenant("a"), tokens_from(0, 8));
  store(*manager, tenant("a"), tokens_from(100, 4));
  const std::size_t before = told.events.size();
  const std::uint64_t three[] = {3};
  EXPECT_FALSE(manager->take(three, "a"));
  EXPECT_EQ(told.events.size(), before);
  EXPECT_EQ(manager->stats().refused_for_blocks, 1u);
}

// A sink that asks the cache something waited for itself.
TEST(CacheEvents, ASinkMayCallTheManager) {
  BlockManager* called = nullptr;
  std::uint64_t answers = 0;
  auto manager = one_group(4, 4, {.event_sink = [&](const CacheEvent& event) {
                             if (event.kind == Kind::kMiss || called == nullptr) return;
                             answers += called->stats().stored_blocks;
                             (void)called->why(tenant("a"), tokens_from(0, 9), {}, 8);
                             if (event.kind == Kind::kStored) {
                               (void)called->match(tenant("a"), tokens_from(900, 5), {}, 4);
                             }
                           }});
  called = manager.get();
  store(*manager, tenant("a"), tokens_from(0, 8));
  EXPECT_GT(answers, 0u);
  expect_sound(*manager);
}

}  // namespace
}  // namespace emblema
