#include "bench/rounds.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>

#include <gtest/gtest.h>

#include "bench/machine.h"

namespace emblema::bench {
namespace {

TEST(Median, IsTheMiddleValueOrTheMeanOfTheTwoInTheMiddle) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1}), 5);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 100, 2}), 3);
}

TEST(Rounds, TakeTheSubjectsInTurnAfterOneUntimedRound) {
  std::string order;
  double seconds = 0;
  const std::vector<Subject> subjects = {
      {"a", [&]() -> Result<double> { return order += 'a', seconds += 1; }},
      {"b", [&]() -> Result<double> { return order += 'b', seconds += 1; }}};
  std::vector<double> done;
  const auto measured = run_rounds(subjects, 2, [&](std::string_view name, double part) {
    done.push_back(part);
    EXPECT_EQ(name, done.size() % 2 == 1 ? "a" : "b");
  });
  ASSERT_TRUE(measured);
  EXPECT_EQ(order, "ababab");
  EXPECT_EQ(*measured, (std::vector<std::vector<double>>{{3, 5}, {4, 6}}));
  ASSERT_EQ(done.size(), 6u);
  EXPECT_EQ(done.front(), 0);
  EXPECT_DOUBLE_EQ(done.back(), 5.0 / 6);
}

TEST(Rounds, EndWithTheFirstFailure) {
  int ran = 0;
  const std::vector<Subject> subjects = {{"a", [&]() -> Result<double> {
                                            if (++ran == 2) return fail(ErrorCode::Io, "broken");
                                            return 1;
                                          }}};
  const auto measured = run_rounds(subjects, 5, {});
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().message, "broken");
  EXPECT_EQ(ran, 2);
}

TEST(Threads, EachRunsOnceAndAllAreWaitedFor) {
  for (const std::uint32_t threads : {1u, 2u, 5u}) {
    std::array<std::atomic<int>, 5> ran{};
    EXPECT_GE(run_threads(threads, [&](std::uint32_t i) { ++ran[i]; }), 0);
    for (std::uint32_t i = 0; i < ran.size(); ++i) EXPECT_EQ(ran[i].load(), i < threads ? 1 : 0);
  }
}

TEST(Clocks, AThreadHasNoMoreTimeThanThereIs) {
  const double wall = now_seconds();
  const double own = thread_seconds();
  while (thread_seconds() - own < 1e-3) continue;
  const double had = thread_seconds() - own;
  EXPECT_GE(had, 1e-3);
  EXPECT_GE(now_seconds() - wall, had - 1e-4);
}

TEST(ReadAll, DependsOnEveryByteAtEveryLength) {
  for (std::size_t size = 0; size < 200; ++size) {
    std::vector<std::byte> bytes(size);
    const std::uint64_t none = read_all(bytes);
    EXPECT_EQ(none, 0u);
    for (std::byte& one : bytes) {
      one = std::byte{1};
      EXPECT_NE(read_all(bytes), 0u);
      one = std::byte{0};
    }
  }
}

}  // namespace
}  // namespace emblema::bench
