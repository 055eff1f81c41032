// The structures under a manager against plain ones: the table of entries, the order of eviction.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/block/eviction_policy.h"
#include "emblema/block/prefix_index.h"

namespace emblema {
namespace {

std::vector<EntryId> in_order(const EvictionPolicy& policy) {
  std::vector<EntryId> order;
  policy.visit([&](EntryId entry, std::uint64_t) {
    order.push_back(entry);
    return true;
  });
  return order;
}

TEST(LruOrder, IsThatOfLastUseWhateverTheOrderOfArrival) {
  const auto policy = make_lru_policy();
  std::map<EntryId, std::uint64_t> model;
  std::mt19937_64 random(7);
  for (int step = 0; step < 3000; ++step) {
    const auto entry = static_cast<EntryId>(random() % 200);
    if (const auto found = model.find(entry); found != model.end()) {
      policy->remove(entry, found->second);
      model.erase(found);
    } else {
      // Uses that no other has, near the newest and far behind it.
      const std::uint64_t use = random() % 2 == 0 ? static_cast<std::uint64_t>(step) * 256 + entry
                                                  : (random() % 500) * 256 + entry;
      policy->add(entry, use);
      model[entry] = use;
    }
    std::set<std::pair<std::uint64_t, EntryId>> sorted;
    for (const auto& [one, use] : model) sorted.emplace(use, one);
    std::vector<EntryId> expected;
    for (const auto& [use, one] : sorted) expected.push_back(one);
    ASSERT_EQ(in_order(*policy), expected) << "step " << step;
    ASSERT_EQ(policy->size(), model.size());
  }
}

TEST(LruOrder, EqualUsesGoAsTheyCame) {
  const auto policy = make_lru_policy();
  for (const EntryId entry : {5u, 2u, 9u}) policy->add(entry, 100);
  policy->add(1, 99);
  policy->remove(2, 100);
  policy->add(2, 100);
  EXPECT_EQ(in_order(*policy), (std::vector<EntryId>{1, 5, 9, 2}));
}

Digest key_of(std::uint8_t low, std::uint8_t high) {
  Digest key;
  key.bytes[0] = low;
  key.bytes[20] = high;
  return key;
}

// Few hashes for many entries, so that every probe runs over others and every erasure moves some.
TEST(EntryTable, FindsWhatIsThereAndNothingElse) {
  PrefixIndex index(2, 4);
  std::map<std::vector<TokenId>, EntryId> model;
  std::mt19937_64 random(11);
  for (int step = 0; step < 4000; ++step) {
    const std::vector<TokenId> tokens = {static_cast<TokenId>(random() % 60), 1};
    const Digest key =
        key_of(static_cast<std::uint8_t>(tokens[0] % 5), static_cast<std::uint8_t>(tokens[0] % 30));
    const EntryProof proof{.kind = EntryKind::kBlock, .tokens = tokens};
    std::uint64_t collisions = 0;
    const EntryId found = index.find(key, proof, &collisions);
    EXPECT_LE(collisions, 1u) << "two of sixty share a key";
    if (const auto known = model.find(tokens); known == model.end()) {
      ASSERT_EQ(found, kNoEntry);
      model[tokens] = index.insert(key, proof);
    } else {
      ASSERT_EQ(found, known->second);
      ASSERT_TRUE(std::ranges::equal(index.tokens_of(found), tokens));
      EXPECT_EQ(index.erase(found), kNoEntry);
      model.erase(known);
    }
    ASSERT_EQ(index.live_count(), model.size());
  }
}

TEST(EntryTable, KeepsContentThatOnlyFewEntriesHave) {
  PrefixIndex index(2, 4);
  const std::vector<TokenId> longer = {1, 2, 3, 4, 5};
  const std::vector<ExtraId> extras = {{1, key_of(3, 3)}};
  const EntryProof proof{.kind = EntryKind::kLink, .tokens = longer, .extras = extras, .delta = -4};
  const EntryId id = index.insert({}, proof);
  EXPECT_TRUE(std::ranges::equal(index.tokens_of(id), longer));
  std::uint64_t collisions = 0;
  EXPECT_EQ(index.find({}, proof, &collisions), id);
  EntryProof other = proof;
  other.delta = 4;
  EXPECT_EQ(index.find({}, other, &collisions), kNoEntry);
  other = proof;
  other.extras = {};
  EXPECT_EQ(index.find({}, other, &collisions), kNoEntry);
  other = proof;
  other.tokens = other.tokens.first(4);
  EXPECT_EQ(index.find({}, other, &collisions), kNoEntry);
  EXPECT_EQ(collisions, 3u);
}

}  // namespace
}  // namespace emblema
