// Many threads over one manager: no wrong byte, no lost block, nothing for ThreadSanitizer to find.
#include <atomic>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "emblema/block/block_testing.h"

namespace emblema {
namespace {

using namespace block_testing;

// Contents are a function of the first token of a block, so that every reader can check every byte.
bool holds_what_was_stored(const SealedBlock& block, TokenId first_token) {
  const ConstByteSpan bytes = block.bytes();
  for (std::uint64_t i = 0; i < 4 * kRowBytes; ++i) {
    if (bytes[i] != static_cast<std::byte>((first_token * 131u + i * 7u) & 0xffu)) return false;
  }
  return true;
}

struct Work {
  BlockManager* manager;
  std::atomic<int>* wrong_bytes;
  std::atomic<int>* hits;
};

void store_and_read(const Work& work, unsigned seed, int steps) {
  std::mt19937 random(seed);
  BlockManager& manager = *work.manager;
  for (int step = 0; step < steps; ++step) {
    const auto first = static_cast<TokenId>(random() % 6 * 100);
    const std::vector<TokenId> prompt = tokens_from(first, 4 + random() % 13);
    ChainMatch match = manager.match(tenant("t"), prompt, {}, prompt.size());
    auto& group = match.groups[0];
    for (std::size_t i = 0; i < group.blocks.size(); ++i) {
      if (!holds_what_was_stored(group.blocks[i], prompt[4 * i])) ++*work.wrong_bytes;
      ++*work.hits;
    }
    for (std::uint64_t at = match.tokens; at + 4 <= prompt.size(); at += 4) {
      const std::uint64_t one[] = {1};
      auto taken = manager.take(one, "t");
      if (!taken) break;  // the pool is small on purpose
      OpenBlock open = std::move((*taken)[0].front());
      fill(open, prompt[at], 4);
      auto published = manager.publish(manager.seal(std::move(open), 4), group.tip,
                                       std::span<const TokenId>(prompt).subspan(at, 4), {});
      if (!holds_what_was_stored(published.block, prompt[at])) ++*work.wrong_bytes;
      group.blocks.push_back(std::move(published.block));
      group.tip = std::move(published.tip);
    }
    if (random() % 3 == 0) manager.seal_pending(2);
    for (SealedBlock& block : group.blocks) manager.refresh(block);
  }
}

class ManyThreads : public testing::TestWithParam<SealMode> {};

TEST_P(ManyThreads, ReadOnlyWhatWasStoredAndGiveEverythingBack) {
  auto manager = one_group(4, 20, {.seal = GetParam()});
  std::atomic<int> wrong_bytes = 0;
  std::atomic<int> hits = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 0; seed < 4; ++seed) {
      threads.emplace_back(store_and_read, Work{manager.get(), &wrong_bytes, &hits}, seed, 250);
    }
  }
  EXPECT_EQ(wrong_bytes, 0);
  EXPECT_GT(hits, 0);
  manager->seal_pending(UINT64_MAX);
  expect_sound(*manager);
  manager->evict_all();
  EXPECT_EQ(manager->counts(0).free, 20u);
  EXPECT_EQ(manager->counts(0).entries, 0u);
}

// A sink is called by whoever caused events, several at once, and calls back.
TEST_P(ManyThreads, TellASinkEverythingOnce) {
  std::atomic<std::uint64_t> stored = 0;
  std::atomic<std::uint64_t> evicted = 0;
  std::atomic<std::uint64_t> numbers = 0;
  std::atomic<std::uint64_t> events = 0;
  std::atomic<BlockManager*> called = nullptr;
  const auto sink = [&](const CacheEvent& event) {
    stored += event.kind == CacheEvent::Kind::kStored ? 1 : 0;
    evicted += event.kind == CacheEvent::Kind::kEvicted ? 1 : 0;
    numbers += event.number;
    ++events;
    if (BlockManager* one = called) (void)one->counts(0);
  };
  auto manager = one_group(4, 20, {.seal = GetParam(), .event_sink = sink});
  called = manager.get();
  std::atomic<int> wrong_bytes = 0;
  std::atomic<int> hits = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 0; seed < 4; ++seed) {
      threads.emplace_back(store_and_read, Work{manager.get(), &wrong_bytes, &hits}, seed, 100);
    }
    threads.emplace_back([&] {
      for (TokenId i = 0; i < 100; ++i) (void)manager->why(tenant("t"), tokens_from(i, 17), {}, 16);
    });
  }
  EXPECT_EQ(wrong_bytes, 0);
  manager->evict_all();
  EXPECT_EQ(stored, manager->stats().stored_blocks);
  EXPECT_EQ(evicted, manager->stats().evicted_entries);
  EXPECT_EQ(numbers, events * (events + 1) / 2) << "each number once";
  EXPECT_GT(events, 0u);
}

INSTANTIATE_TEST_SUITE_P(Modes, ManyThreads,
                         testing::Values(SealMode::kInline, SealMode::kDeferred));

}  // namespace
}  // namespace emblema
