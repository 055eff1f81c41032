#include "emblema/session/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/session/session_testing.h"

namespace emblema {
namespace {

using namespace session_testing;
using testing::AllOf;
using testing::HasSubstr;

// Two layers, 16 tokens, a row of 32 bytes.
constexpr std::uint64_t kBlockBytes = 2 * 16 * 32;

TEST(QuotaBook, LimitsATenantByItsOwnQuotaOrTheDefault) {
  QuotaBook book(100, {{"big", 1000}, {"free", 0}});
  EXPECT_EQ(book.usage("anybody").quota_bytes, 100u);
  EXPECT_EQ(book.usage("big").quota_bytes, 1000u);
  EXPECT_EQ(book.usage("free").quota_bytes, 0u);
  Charge first(&book, "t");
  Charge second(&book, "t");
  ASSERT_TRUE(first.grow(60));
  ASSERT_TRUE(second.grow(40));
  const Status refused = second.grow(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfBlocks);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("tenant 't'"), HasSubstr("1 bytes asked for and 100 held"),
                    HasSubstr("quota is 100 bytes")));
  EXPECT_TRUE(second.grow(0));
  first.settle(10);
  EXPECT_EQ(book.usage("t").held_bytes, 50u);
  EXPECT_EQ(book.usage("t").refusals, 1u);
  EXPECT_EQ(book.refusals(), 1u);
  Charge big(&book, "big");
  EXPECT_TRUE(big.grow(1000));
  Charge unlimited(&book, "free");
  EXPECT_TRUE(unlimited.grow(UINT64_MAX));
  EXPECT_FALSE(unlimited.grow(1)) << "no count wraps";
}

TEST(QuotaBook, ARoomIsTakenOverOrGoes) {
  QuotaBook book(100, {});
  Charge charge(&book, "t");
  ASSERT_TRUE(charge.grow(30));
  { ASSERT_TRUE(charge.room(70)); }
  EXPECT_EQ(book.usage("t").held_bytes, 30u);
  auto room = charge.room(50);
  ASSERT_TRUE(room);
  EXPECT_FALSE(charge.room(21));
  charge.absorb(std::move(*room));
  EXPECT_EQ(charge.bytes(), 80u);
  Charge moved(std::move(charge));
  moved.settle(20);
  EXPECT_EQ(book.usage("t").held_bytes, 20u);
}

TEST(TenantQuota, CountsABlockForEverySequenceThatHoldsIt) {
  Engine engine = open_engine(grouped_model(), 32, {.tenant_quota_bytes = 10 * kBlockBytes});
  const std::vector<TokenId> prompt = tokens_from(1, 33);
  Tracked first = start(engine, {.tokens = prompt, .tenant = "a"});
  ASSERT_TRUE(first.extend(prompt));
  EXPECT_EQ(engine.usage("a").held_bytes, 3 * kBlockBytes);
  Tracked second = start(engine, {.tokens = prompt, .tenant = "a"});
  EXPECT_EQ(second->tokens(), 32u);
  EXPECT_EQ(engine.usage("a").held_bytes, 5 * kBlockBytes);
  const Tracked third = first.fork();
  EXPECT_EQ(engine.usage("a").held_bytes, 8 * kBlockBytes);
  ASSERT_TRUE(first.extend(tokens_from(100, 1)));  // copies the tail: no more blocks than before
  EXPECT_EQ(engine.usage("a").held_bytes, 8 * kBlockBytes);
  EXPECT_EQ(engine.usage("b").held_bytes, 0u);
  expect_sound(engine);
}

// A window's blocks behind it count no more.
TEST(TenantQuota, FollowsTheWindow) {
  Engine engine = open_engine(two_group_model(20), 40, {.step_tokens = 16});
  Tracked sequence = start(engine, {.tenant = "a"});
  for (TokenId at = 0; at < 160; at += 16) ASSERT_TRUE(sequence.extend(tokens_from(at, 16)));
  // One layer sees all 160 tokens. Two see 20, so at 160 from token 141 on: two blocks.
  EXPECT_EQ(engine.usage("a").held_bytes, std::uint64_t{10} * 16 * 32 + 2 * 2 * 16 * 32);
}

TEST(TenantQuota, RefusesWhatWouldGoPastAndNobodyElse) {
  Engine engine = open_engine(
      grouped_model(), 64,
      {.tenant_quota_bytes = 4 * kBlockBytes, .tenant_quotas = {{"vip", 8 * kBlockBytes}}});
  const std::vector<TokenId> prompt = tokens_from(1, 49);
  for (const char* tenant : {"a", "vip"}) store(engine, {.tokens = prompt, .tenant = tenant});
  Tracked held = start(engine, {.tokens = prompt, .tenant = "a"});
  EXPECT_TRUE(held->reserve(16));
  EXPECT_THAT(held->reserve(1).error().message,
              AllOf(HasSubstr("tenant 'a'"), HasSubstr("1024 bytes asked for and 4096 held"),
                    HasSubstr("quota is 4096")));
  held.cancel();
  EXPECT_EQ(held->fork().error().code, ErrorCode::OutOfBlocks);
  EXPECT_THAT(engine.start({.tokens = prompt, .tenant = "a"}).error().message,
              HasSubstr("3072 bytes asked for and 3072 held"));
  EXPECT_EQ(engine.usage("a").refusals, 3u);
  EXPECT_EQ(engine.stats().refused_for_quota, 3u);
  const Tracked vip = start(engine, {.tokens = prompt, .tenant = "vip"});
  EXPECT_TRUE(engine.start({.tokens = prompt, .tenant = "vip"}));
  EXPECT_TRUE(engine.start({.tokens = tokens_from(1, 5), .tenant = "a"})) << "holds nothing yet";
}

TEST(TenantQuota, RefusesASegmentThatWouldGoPast) {
  Engine engine = open_engine(grouped_model(), 64, {.tenant_quota_bytes = 4 * kBlockBytes});
  const std::vector<TokenId> document = tokens_from(9000, 40);
  const Segment segment = segment_of(engine, {.tokens = document, .tenant = "a"});
  const std::vector<TokenId> following = tokens_from(500, 17);
  {
    Tracked sequence = start(engine, {.tenant = "a"});
    ASSERT_TRUE(sequence.attach(segment, identity_word({.tenant = "a"}), following));
    ASSERT_TRUE(sequence.extend(std::span(following).first(16)));
  }
  Tracked first = start(engine, {.tenant = "a"});
  EXPECT_EQ(*first->attach(segment, following), 16u) << "three blocks and the one hit behind";
  Tracked second = start(engine, {.tenant = "a"});
  EXPECT_EQ(second->attach(segment, following).error().code, ErrorCode::OutOfBlocks);
  EXPECT_EQ(second->tokens(), 0u);
  EXPECT_EQ(engine.usage("a").held_bytes, 4 * kBlockBytes);
}

TEST(TenantQuota, IsGivenBackByEverySequenceThatEnds) {
  Engine engine = open_engine(two_group_model(), 64, {.tenant_quota_bytes = 1 << 20});
  const std::vector<TokenId> prompt = tokens_from(1, 40);
  for (int round = 0; round < 3; ++round) {
    Tracked sequence = start(engine, {.tokens = prompt, .tenant = "a"});
    ASSERT_TRUE(sequence.extend(std::span(prompt).subspan(sequence->tokens())));
    Tracked child = sequence.fork();
    ASSERT_TRUE(child->reserve(20));
    EXPECT_GT(engine.usage("a").held_bytes, 0u);
    const Tracked moved = std::move(child);
  }
  EXPECT_EQ(engine.usage("a").held_bytes, 0u);
  expect_all_given_back(engine);
}

// What stays in the cache when a sequence ends is not charged: it goes when memory is wanted.
TEST(TenantQuota, DoesNotCountWhatIsOnlyCached) {
  Engine engine = open_engine(grouped_model(), 64, {.tenant_quota_bytes = 4 * kBlockBytes});
  for (TokenId i = 0; i < 10; ++i) {
    store(engine, {.tokens = tokens_from(i * 100, 64), .tenant = "a"});
  }
  EXPECT_EQ(engine.stats().totals.idle, 40u);
  EXPECT_EQ(engine.usage("a").held_bytes, 0u);
}

}  // namespace
}  // namespace emblema
