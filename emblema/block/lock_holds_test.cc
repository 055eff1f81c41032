#include "emblema/block/lock_holds.h"

#include <mutex>

#include <gtest/gtest.h>

namespace emblema {
namespace {

TEST(LockHoldsHistogram, IsExactToAnEighth) {
  for (const std::uint64_t held : {0ull, 1ull, 7ull, 8ull, 9ull, 15ull, 16ull, 100ull, 50'000ull,
                                   1'000'000'007ull, 1ull << 62}) {
    LockHolds holds;
    holds.record(held);
    const std::uint64_t read = holds.nanoseconds_at(0.5);
    EXPECT_GE(read, held);
    EXPECT_LE(read, held + held / 8);
  }
}

TEST(LockHoldsHistogram, ReadsPercentilesOfAllHolds) {
  LockHolds holds;
  EXPECT_EQ(holds.nanoseconds_at(0.99), 0u);
  for (int i = 0; i < 99; ++i) holds.record(3);
  holds.record(1000);
  EXPECT_EQ(holds.count(), 100u);
  EXPECT_EQ(holds.nanoseconds_at(0.5), 3u);
  EXPECT_EQ(holds.nanoseconds_at(0.99), 3u);
  EXPECT_GE(holds.nanoseconds_at(1), 1000u);
  holds.clear();
  EXPECT_EQ(holds.count(), 0u);
}

TEST(ObservedLock, CountsHoldsWhileItIsAskedTo) {
  LockHolds holds;
  ObservedMutex mutex;
  mutex.observe(&holds);
  { const std::lock_guard lock(mutex); }
  EXPECT_EQ(holds.count(), 0u);
  holds.start();
  { const std::lock_guard lock(mutex); }
  { const std::lock_guard lock(mutex); }
  holds.stop();
  { const std::lock_guard lock(mutex); }
  EXPECT_EQ(holds.count(), 2u);
}

}  // namespace
}  // namespace emblema
