#include "emblema/pool/free_lists.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace emblema {
namespace {

TEST(FreeLists, GiveADomainItsOwnBlocksThenCleanOnesThenTheOldestOfOthers) {
  FreeLists lists(6);
  for (std::uint32_t block = 0; block < 4; ++block) EXPECT_EQ(lists.take(1), block);
  lists.put(0, 1);
  lists.put(2, 2);
  lists.put(1, 1);
  lists.put(3, 2);
  EXPECT_EQ(lists.take(1), 1u) << "what it gave back last";
  EXPECT_EQ(lists.take(1), 0u);
  EXPECT_EQ(lists.take(1), 4u) << "clean, though others' are there";
  EXPECT_EQ(lists.take(3), 5u);
  EXPECT_EQ(lists.take(3), 2u) << "given back before 3";
  EXPECT_EQ(lists.domain_of(2), 2u);
  EXPECT_EQ(lists.count(), 1u);
  EXPECT_EQ(lists.take(1), 3u);
  EXPECT_EQ(lists.take(1), std::nullopt);
  EXPECT_EQ(FreeLists().take(0), std::nullopt);
}

// Against a plain list in the order of giving back.
TEST(FreeLists, AgreeWithAPlainListOverRandomSteps) {
  struct Free {
    std::uint32_t block;
    std::uint32_t domain;
  };
  for (const std::uint32_t blocks : {1u, 2u, 5u, 33u}) {
    std::mt19937 random(blocks);
    FreeLists lists(blocks);
    std::vector<Free> free;  // oldest first
    for (std::uint32_t block = blocks; block > 0; --block) free.push_back({block - 1, 0});
    std::vector<std::uint32_t> taken;
    for (int step = 0; step < 20'000; ++step) {
      const auto domain = static_cast<std::uint32_t>(random() % 5);
      if (random() % 2 == 0 && !taken.empty()) {
        const std::size_t at = random() % taken.size();
        lists.put(taken[at], domain);
        free.push_back({taken[at], domain});
        taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        const auto newest = [&](std::uint32_t wanted) {
          return std::find_if(free.rbegin(), free.rend(),
                              [&](const Free& one) { return one.domain == wanted; });
        };
        auto found = newest(domain);
        if (found == free.rend()) found = newest(0);
        if (found == free.rend() && !free.empty()) found = std::prev(free.rend());
        const auto given = lists.take(domain);
        ASSERT_EQ(given.has_value(), found != free.rend()) << step;
        if (!given) continue;
        ASSERT_EQ(*given, found->block) << step;
        ASSERT_EQ(lists.domain_of(*given), found->domain) << step;
        taken.push_back(*given);
        free.erase(std::next(found).base());
      }
      ASSERT_EQ(lists.count(), free.size());
    }
  }
}

}  // namespace
}  // namespace emblema
