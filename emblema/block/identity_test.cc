// Each field of what decides a cache, changed alone, gives no hit: prompts, segments, and what
// stands behind a segment.
#include <gtest/gtest.h>

#include "emblema/block/block_testing.h"

namespace emblema {
namespace {

using namespace block_testing;

// All that a request is compared by.
struct Asked {
  CacheIdentity identity;
  std::vector<TokenId> tokens = tokens_from(0, 8);
  std::vector<ExtraId> extras;
};

Asked base() {
  Asked asked;
  asked.identity.tenant = "t";
  asked.identity.salt = "s";
  asked.identity.geometry.bytes[0] = 1;
  asked.identity.weights.bytes[0] = 1;
  asked.identity.adapter.bytes[0] = 1;
  asked.extras = {{1, {}}, {2, {}}};
  asked.extras[0].digest.bytes[0] = 1;
  return asked;
}

struct Change {
  const char* field;
  void (*apply)(Asked&);
};

constexpr Change kChanges[] = {
    {"geometry", [](Asked& one) { one.identity.geometry.bytes[31] = 1; }},
    {"weights", [](Asked& one) { one.identity.weights.bytes[31] = 1; }},
    {"no weights", [](Asked& one) { one.identity.weights = {}; }},
    {"adapter", [](Asked& one) { one.identity.adapter.bytes[31] = 1; }},
    {"no adapter", [](Asked& one) { one.identity.adapter = {}; }},
    {"tenant", [](Asked& one) { one.identity.tenant = "u"; }},
    {"tenant longer", [](Asked& one) { one.identity.tenant += '\0'; }},
    {"no tenant", [](Asked& one) { one.identity.tenant = ""; }},
    {"salt", [](Asked& one) { one.identity.salt = "t"; }},
    {"no salt", [](Asked& one) { one.identity.salt = ""; }},
    {"tenant and salt swapped",
     [](Asked& one) { std::swap(one.identity.tenant, one.identity.salt); }},
    {"first token", [](Asked& one) { one.tokens[0] = 99; }},
    {"extra id's digest", [](Asked& one) { one.extras[0].digest.bytes[31] = 1; }},
    {"extra id's offset", [](Asked& one) { one.extras[0].offset = 0; }},
    {"an extra id less", [](Asked& one) { one.extras.pop_back(); }},
    {"an extra id more",
     [](Asked& one) {
       one.extras.push_back({3, {}});
     }},
    {"no extra ids", [](Asked& one) { one.extras.clear(); }},
};

// Stores the blocks of 4 that `match` did not find.
void fill_up(BlockManager& manager, ChainMatch& match, const Asked& asked,
             std::uint32_t content = 1) {
  for (std::uint64_t first = match.tokens; first + 4 <= asked.tokens.size(); first += 4) {
    OpenBlock open = take_one(manager, 0, asked.identity.tenant);
    fill(open, content + static_cast<std::uint32_t>(first), 4);
    auto published = manager.publish(manager.seal(std::move(open), 4), match.groups[0].tip,
                                     std::span<const TokenId>(asked.tokens).subspan(first, 4),
                                     first == 0 ? asked.extras : std::vector<ExtraId>());
    match.groups[0].tip = std::move(published.tip);
    match.groups[0].blocks.push_back(std::move(published.block));
  }
}

std::uint64_t prefix_hit(BlockManager& manager, const Asked& asked) {
  return manager.match(asked.identity, asked.tokens, asked.extras, 8).tokens;
}

std::shared_ptr<const SegmentContent> content_of(const Asked& asked) {
  return std::make_shared<const SegmentContent>(
      SegmentContent{asked.identity, asked.tokens, asked.extras});
}

class IdentityMatrix : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<BlockManager> manager_ = one_group(4, 16, {.digest_bits_for_test = GetParam()});
};

// With no bit of any digest left, only the comparison of the fields tells them apart.
INSTANTIATE_TEST_SUITE_P(DigestBits, IdentityMatrix, testing::Values(255u, 8u, 0u));

TEST_P(IdentityMatrix, APromptIsHitByItsOwnIdentityOnly) {
  ChainMatch match = manager_->match(base().identity, base().tokens, base().extras, 8);
  fill_up(*manager_, match, base());
  for (const Change& change : kChanges) {
    Asked other = base();
    change.apply(other);
    EXPECT_EQ(prefix_hit(*manager_, other), 0u) << change.field;
  }
  EXPECT_EQ(prefix_hit(*manager_, base()), 8u);
}

TEST_P(IdentityMatrix, ASegmentIsHitByItsOwnIdentityOnly) {
  ChainMatch match = manager_->match_segment(content_of(base()));
  fill_up(*manager_, match, base());
  for (const Change& change : kChanges) {
    Asked other = base();
    change.apply(other);
    EXPECT_EQ(manager_->match_segment(content_of(other)).tokens, 0u) << change.field;
  }
  EXPECT_EQ(manager_->match_segment(content_of(base())).tokens, 8u);
  EXPECT_EQ(prefix_hit(*manager_, base()), 0u) << "a segment is no prompt";
}

// What stands behind a segment is found behind that very segment, at that place and in that chain.
TEST_P(IdentityMatrix, WhatStandsBehindASegmentIsFoundBehindThatSegmentOnly) {
  const Asked asked = base();
  const std::vector<TokenId> tail = {70, 71};
  std::vector<ExtraId> tail_extras = {{1, {}}};
  Asked behind = base();
  behind.extras.clear();
  const auto link = [&](const Asked& segment, const std::vector<TokenId>& before,
                        const std::vector<ExtraId>& extras, std::int64_t delta) {
    const ChainMatch root = manager_->match(asked.identity, {}, {}, 0);
    std::vector<Tip> from;
    from.push_back(root.groups[0].tip.share());
    return manager_->link(from, {.segment = content_of(segment),
                                 .delta = delta,
                                 .tail = {before},
                                 .tail_extras = {extras}});
  };
  const auto hit_behind = [&](const std::vector<Tip>& from) {
    return manager_->match_behind(from, behind.tokens, {}, 8).tokens;
  };
  const std::vector<Tip> stored = link(asked, tail, tail_extras, 2);
  ChainMatch match = manager_->match_behind(stored, behind.tokens, {}, 8);
  fill_up(*manager_, match, behind);
  for (const Change& change : kChanges) {
    Asked other = base();
    change.apply(other);
    EXPECT_EQ(hit_behind(link(other, tail, tail_extras, 2)), 0u) << change.field;
  }
  EXPECT_EQ(hit_behind(link(asked, {70}, tail_extras, 2)), 0u);
  EXPECT_EQ(hit_behind(link(asked, {70, 72}, tail_extras, 2)), 0u);
  EXPECT_EQ(hit_behind(link(asked, tail, {}, 2)), 0u);
  EXPECT_EQ(hit_behind(link(asked, tail, tail_extras, 3)), 0u);
  EXPECT_EQ(hit_behind(link(asked, tail, tail_extras, 2)), 8u);
}

}  // namespace
}  // namespace emblema
