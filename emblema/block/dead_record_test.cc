#include "emblema/block/dead_record.h"

#include <deque>
#include <random>

#include <gtest/gtest.h>

namespace emblema {
namespace {

Digest key_of(std::uint64_t number) {
  Digest key;
  for (std::size_t i = 0; i < 8; ++i) key.bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return key;
}

TEST(DeadRecord, AnswersTheLastTimeOfAKeyInItsGroup) {
  DeadRecord record;
  EXPECT_FALSE(record.find(0, key_of(1)));
  record.add(0, key_of(1), {EvictionReason::kMemoryWanted, 10});
  record.add(1, key_of(1), {EvictionReason::kAsked, 20});
  record.add(0, key_of(1), {EvictionReason::kAsked, 30});
  EXPECT_EQ(record.find(0, key_of(1))->tick, 30u);
  EXPECT_EQ(record.find(1, key_of(1))->tick, 20u);
  EXPECT_FALSE(record.find(2, key_of(1)));
  EXPECT_EQ(record.size(), 3u);
  EXPECT_EQ(record.forgotten(), 0u);
}

TEST(DeadRecord, HoldsSixtyFourKibikeysAndForgetsTheOldest) {
  DeadRecord record;
  constexpr std::uint64_t kKeys = 65'536;
  for (std::uint64_t i = 0; i < kKeys + 3; ++i) record.add(0, key_of(i), {.tick = i});
  EXPECT_EQ(record.size(), kKeys);
  EXPECT_EQ(record.forgotten(), 3u);
  for (std::uint64_t i = 0; i < kKeys + 3; ++i) {
    const auto death = record.find(0, key_of(i));
    ASSERT_EQ(death.has_value(), i >= 3) << i;
    ASSERT_EQ(death.value_or(DeadRecord::Death{.tick = i}).tick, i);
  }
}

// Against a list of what went, searched from its end. Few keys, so that buckets and repeats meet.
TEST(DeadRecord, AgreesWithAPlainListOverRandomSteps) {
  for (const std::uint32_t capacity : {1u, 2u, 7u, 64u}) {
    std::mt19937 random(capacity);
    DeadRecord record(capacity);
    struct Gone {
      std::uint32_t group;
      std::uint64_t key;
      std::uint64_t tick;
    };
    std::deque<Gone> list;
    for (std::uint64_t step = 0; step < 5000; ++step) {
      const auto group = static_cast<std::uint32_t>(random() % 2);
      const std::uint64_t key = random() % (2 * capacity);
      record.add(group, key_of(key), {.tick = step});
      list.push_back({group, key, step});
      if (list.size() > capacity) list.pop_front();
      const std::uint64_t asked = random() % (2 * capacity);
      std::optional<std::uint64_t> expected;
      for (const Gone& gone : list) {
        if (gone.group == group && gone.key == asked) expected = gone.tick;
      }
      const auto found = record.find(group, key_of(asked));
      ASSERT_EQ(found.has_value(), expected.has_value()) << step;
      ASSERT_EQ(found ? found->tick : 0, expected.value_or(0)) << step;
    }
    EXPECT_EQ(record.size() + record.forgotten(), 5000u);
  }
}

}  // namespace
}  // namespace emblema
