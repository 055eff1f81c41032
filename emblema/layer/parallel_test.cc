#include "emblema/layer/parallel.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace emblema {
namespace {

TEST(RunParts, EveryPartOnceWhateverTheThreads) {
  for (const std::uint32_t threads : {1U, 2U, 3U, 8U}) {
    for (const std::uint64_t parts : {0U, 1U, 2U, 7U, 64U}) {
      std::vector<std::atomic<int>> calls(parts);
      run_parts(threads, parts, [&](std::uint64_t part) { ++calls[part]; });
      for (const std::atomic<int>& count : calls) ASSERT_EQ(count, 1);
    }
  }
}

TEST(RunParts, OneThreadIsTheCallers) {
  std::set<std::thread::id> seen;
  run_parts(1, 5, [&](std::uint64_t) { seen.insert(std::this_thread::get_id()); });
  EXPECT_EQ(seen, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST(RunParts, NoMoreWorkersThanAskedFor) {
  std::vector<std::thread::id> by_part(9);
  run_parts(3, 9, [&](std::uint64_t part) { by_part[part] = std::this_thread::get_id(); });
  EXPECT_EQ(by_part[0], std::this_thread::get_id());
  EXPECT_LE(std::set<std::thread::id>(by_part.begin(), by_part.end()).size(), 3u);
}

}  // namespace
}  // namespace emblema
