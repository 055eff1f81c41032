#include "emblema/session/snapshot_schedule.h"

#include <set>

#include <gtest/gtest.h>

namespace emblema {
namespace {

// What the words of each policy say, position by position.
std::set<std::uint64_t> wanted_by_definition(const SnapshotSchedule& schedule, std::uint64_t end) {
  std::set<std::uint64_t> wanted;
  const std::uint64_t step = schedule.boundary_tokens;
  for (std::uint64_t at = step; at <= end; at += step) {
    std::uint64_t last = 0;  // the last whole boundary that a hit on the prompt can end at
    for (std::uint64_t b = 0; b + 1 <= schedule.prompt_tokens; b += step) last = b;
    const bool boundaries = at == last || at + step == last || at >= schedule.prompt_tokens;
    switch (schedule.policy) {
      case SnapshotPolicy::kBoundaries:
        if (boundaries) wanted.insert(at);
        break;
      case SnapshotPolicy::kFull:
        wanted.insert(at);
        break;
      case SnapshotPolicy::kPeriodic:
        if (at % schedule.period_tokens == 0) wanted.insert(at);
        break;
      case SnapshotPolicy::kZero:
        break;
    }
  }
  return wanted;
}

TEST(SnapshotSchedule, WantsWhatItsPolicySaysAndNextFindsEveryOne) {
  for (const SnapshotPolicy policy : {SnapshotPolicy::kBoundaries, SnapshotPolicy::kFull,
                                      SnapshotPolicy::kPeriodic, SnapshotPolicy::kZero}) {
    for (std::uint64_t prompt = 0; prompt <= 40; ++prompt) {
      const SnapshotSchedule schedule{
          .policy = policy, .boundary_tokens = 4, .period_tokens = 12, .prompt_tokens = prompt};
      const auto wanted = wanted_by_definition(schedule, 80);
      for (std::uint64_t at = 0; at <= 80; at += 4) {
        EXPECT_EQ(schedule.wants(at), wanted.contains(at)) << to_string(policy) << " " << at;
      }
      for (std::uint64_t tokens = 0; tokens < 60; ++tokens) {
        const auto after = wanted.upper_bound(tokens);
        const auto next = schedule.next(tokens);
        ASSERT_EQ(next.has_value(), after != wanted.end());
        if (next) {
          EXPECT_EQ(*next, *after)
              << to_string(policy) << " prompt " << prompt << " behind " << tokens;
        }
      }
    }
  }
}

TEST(SnapshotSchedule, OnlyWhatWasGeneratedIsReplaced) {
  const SnapshotSchedule schedule{.boundary_tokens = 4, .prompt_tokens = 9};
  EXPECT_FALSE(schedule.is_rolling(4));
  EXPECT_FALSE(schedule.is_rolling(8));
  EXPECT_TRUE(schedule.is_rolling(12));
  EXPECT_FALSE(
      (SnapshotSchedule{.policy = SnapshotPolicy::kFull, .boundary_tokens = 4}).is_rolling(12));
}

}  // namespace
}  // namespace emblema
