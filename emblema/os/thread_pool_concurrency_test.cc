#include <atomic>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/os/thread_pool.h"

namespace emblema {
namespace {

TEST(ThreadPool, EveryPartOnceByAWorkerOfThePool) {
  for (const std::uint32_t threads : {1U, 2U, 5U}) {
    const auto pool = ThreadPool::open(threads).value();
    EXPECT_EQ(pool->threads(), threads);
    for (const std::uint64_t parts : {0ULL, 1ULL, 2ULL, 100ULL}) {
      std::vector<int> done(parts, 0);
      std::vector<std::atomic<std::uint64_t>> by(threads);
      pool->run(parts, [&](std::uint32_t worker, std::uint64_t part) {
        ++done[part];  // no other worker has this part: TSan would see it
        ++by[worker];
      });
      EXPECT_EQ(done, std::vector<int>(parts, 1));
      std::uint64_t all = 0;
      for (const auto& count : by) all += count;
      EXPECT_EQ(all, parts);
    }
  }
}

TEST(ThreadPool, HelpersWorkWhileTheCallerIsBusy) {
  const auto pool = ThreadPool::open(2).value();
  std::atomic<std::uint32_t> waiting{0};
  // Ends only if two workers are inside at once.
  pool->run(2, [&](std::uint32_t, std::uint64_t) {
    ++waiting;
    while (waiting < 2) std::this_thread::yield();
  });
  EXPECT_EQ(waiting, 2U);
}

TEST(ThreadPool, CallersTakeTurns) {
  const auto pool = ThreadPool::open(3).value();
  std::vector<std::uint64_t> sums(4, 0);
  std::vector<std::thread> callers;
  for (std::uint64_t& sum : sums) {
    callers.emplace_back([&pool, &sum] {
      for (int round = 0; round < 50; ++round) {
        std::vector<std::uint64_t> values(20, 0);
        pool->run(20, [&](std::uint32_t, std::uint64_t part) { values[part] = part; });
        sum += std::accumulate(values.begin(), values.end(), std::uint64_t{0});
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sums, std::vector<std::uint64_t>(4, 50 * 190));
}

TEST(ThreadPool, RefusesNoneAndTooManyByName) {
  for (const std::uint32_t threads : {0U, ThreadPool::kThreadsMax + 1}) {
    const auto refused = ThreadPool::open(threads);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::Invalid);
    EXPECT_NE(refused.error().describe().find("threads is"), std::string::npos);
  }
}

TEST(ThreadPool, WithoutAPoolPartsRunInOrder) {
  std::vector<std::uint64_t> order;
  run_parts(nullptr, 3, [&](std::uint32_t worker, std::uint64_t part) {
    EXPECT_EQ(worker, 0U);
    order.push_back(part);
  });
  EXPECT_EQ(order, (std::vector<std::uint64_t>{0, 1, 2}));
}

}  // namespace
}  // namespace emblema
