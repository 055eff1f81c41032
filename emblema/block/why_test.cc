// Asking why: every verdict, and that asking changes and discloses nothing.
#include "emblema/block/why.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/block/block_testing.h"
#include "emblema/block/dead_record.h"

namespace emblema {
namespace {

using namespace block_testing;
using testing::ElementsAre;
using testing::HasSubstr;

// The record of the dead knows keys only, so these tests need whole ones, also where the suite runs
// with cut digests.
constexpr unsigned kWholeKeys = 255;

std::unique_ptr<BlockManager> one_group_with_keys(std::uint64_t blocks,
                                                  BlockManagerOptions options = {}) {
  options.digest_bits_for_test = kWholeKeys;
  return one_group(4, blocks, std::move(options));
}

WhyReport ask(const BlockManager& manager, const CacheIdentity& identity,
              const std::vector<TokenId>& prompt, const std::vector<ExtraId>& extras = {}) {
  return manager.why(identity, prompt, extras, prompt.empty() ? 0 : prompt.size() - 1);
}

std::vector<Verdict> verdicts(const WhyReport& report) {
  std::vector<Verdict> all;
  for (const BlockAnswer& answer : report.blocks) all.push_back(answer.verdict);
  return all;
}

std::vector<TokenId> other_end(std::vector<TokenId> tokens, std::size_t from) {
  for (std::size_t i = from; i < tokens.size(); ++i) tokens[i] += 1000;
  return tokens;
}

TEST(Why, NamesHitsWhatWasNeverStoredAndWhatIsNeverServed) {
  auto manager = one_group_with_keys(8);
  store(*manager, tenant("a"), tokens_from(0, 8));
  const WhyReport report = ask(*manager, tenant("a"), other_end(tokens_from(0, 14), 5));
  EXPECT_EQ(report.asked_tokens, 14u);
  EXPECT_EQ(report.hit_tokens, 4u);
  EXPECT_EQ(report.boundary_tokens, 4u);
  EXPECT_EQ(report.segment_tokens, 0u);
  EXPECT_THAT(verdicts(report), ElementsAre(Verdict::kHit, Verdict::kNeverStored,
                                            Verdict::kNeverStored, Verdict::kNotWhole));
  EXPECT_EQ(report.blocks[3].first_token, 12u);
  EXPECT_EQ(report.blocks[3].tokens, 2u);
  EXPECT_THAT(report.describe(),
              ElementsAre(HasSubstr("4 of 14 tokens are served"), HasSubstr("tokens 0 to 3: hit"),
                          HasSubstr("tokens 4 to 11: never stored"),
                          HasSubstr("tokens 12 to 13: computed always")));
  // The last token is computed always, even where its block is stored.
  EXPECT_THAT(verdicts(ask(*manager, tenant("a"), tokens_from(0, 8))),
              ElementsAre(Verdict::kHit, Verdict::kNotWhole));
  EXPECT_TRUE(ask(*manager, tenant("a"), {}).blocks.empty());
}

TEST(Why, SaysWhenAndWhySomethingWasEvicted) {
  auto manager = one_group_with_keys(4);
  const auto prompt = tokens_from(0, 13);
  store(*manager, tenant("a"), prompt);
  std::vector<OpenBlock> taken;
  taken.push_back(take_one(*manager));
  taken.push_back(take_one(*manager));  // the end of the chain goes
  const WhyReport first = ask(*manager, tenant("a"), prompt);
  EXPECT_THAT(verdicts(first),
              ElementsAre(Verdict::kHit, Verdict::kHit, Verdict::kEvicted, Verdict::kNotWhole));
  EXPECT_EQ(first.blocks[2].reason, EvictionReason::kMemoryWanted);
  taken.clear();
  manager->evict_all();
  const WhyReport second = ask(*manager, tenant("a"), prompt);
  EXPECT_THAT(verdicts(second), ElementsAre(Verdict::kEvicted, Verdict::kEvicted, Verdict::kEvicted,
                                            Verdict::kNotWhole));
  EXPECT_EQ(second.blocks[0].reason, EvictionReason::kAsked);
  EXPECT_EQ(second.blocks[2].reason, EvictionReason::kMemoryWanted);
  EXPECT_EQ(second.blocks[2].evicted_tick, first.blocks[2].evicted_tick);
  EXPECT_GT(second.blocks[2].age_uses, second.blocks[0].age_uses);
  EXPECT_THAT(second.describe(),
              ElementsAre(HasSubstr("0 of 13 tokens"), HasSubstr("tokens 0 to 7: evicted 0 uses"),
                          HasSubstr("memory was wanted"), HasSubstr("token 12: computed always")));
  // Stored again it is a hit again, and no longer dead.
  store(*manager, tenant("a"), prompt);
  EXPECT_EQ(ask(*manager, tenant("a"), prompt).hit_tokens, 12u);
}

TEST(Why, BeyondTheRecordItSaysThatItCannotTell) {
  auto manager = one_group_with_keys(4);
  store(*manager, tenant("a"), tokens_from(0, 4));
  manager->evict_all();
  for (TokenId i = 0; i < DeadRecord::kCapacityDefault / 4; ++i) {
    store(*manager, tenant("a"), tokens_from(100 + i * 16, 16));
    manager->evict_all();
  }
  EXPECT_EQ(manager->stats().dead_keys, 65'536u);
  EXPECT_EQ(manager->stats().dead_keys_forgotten, 1u);
  const WhyReport report = ask(*manager, tenant("a"), tokens_from(0, 5));
  EXPECT_EQ(report.blocks[0].verdict, Verdict::kOlderThanRecord);
  EXPECT_THAT(report.describe()[1], HasSubstr("record of the last 65,536 evictions"));
}

TEST(Why, NamesEveryFieldThatDiffersWithinTheTenant) {
  auto manager = one_group_with_keys(8);
  const auto prompt = tokens_from(0, 9);
  CacheIdentity stored = tenant("a");
  stored.salt = "old";
  store(*manager, stored, prompt);
  CacheIdentity asked = tenant("a");
  asked.salt = "new";
  EXPECT_THAT(ask(*manager, asked, prompt).blocks[1].fields, ElementsAre("salt"));
  asked.adapter.bytes[0] = 7;
  const WhyReport report = ask(*manager, asked, prompt);
  EXPECT_THAT(verdicts(report), ElementsAre(Verdict::kIdentityDiffers, Verdict::kIdentityDiffers,
                                            Verdict::kNotWhole));
  EXPECT_THAT(report.blocks[0].fields, ElementsAre("adapter", "salt"));
  EXPECT_THAT(report.describe()[1], HasSubstr("what differs: adapter, salt"));
  asked = stored;
  asked.weights.bytes[0] = 1;
  EXPECT_THAT(ask(*manager, asked, prompt).blocks[0].fields, ElementsAre("weights"));
  asked = stored;
  asked.geometry.bytes[0] = 1;
  EXPECT_THAT(ask(*manager, asked, prompt).blocks[0].fields, ElementsAre("geometry"));
  // Of two that are stored, the one that differs in less is named.
  store(*manager, tenant("a"), prompt, 99);
  asked = tenant("a");
  asked.adapter.bytes[0] = 7;
  EXPECT_THAT(ask(*manager, asked, prompt).blocks[0].fields, ElementsAre("adapter"));
}

TEST(Why, NamesExtraIdsThatDiffer) {
  auto manager = one_group_with_keys(8);
  const auto prompt = tokens_from(0, 13);
  Digest cat;
  cat.bytes[0] = 1;
  Digest dog;
  dog.bytes[0] = 2;
  const std::vector<ExtraId> with_cat = {{1, cat}};  // within the second block
  ChainMatch match = manager->match(tenant("a"), prompt, {}, 12);
  for (std::uint64_t first = 0; first < 12; first += 4) {
    auto published = manager->publish(
        manager->seal(take_one(*manager, 0, "a"), 4), match.groups[0].tip,
        std::span<const TokenId>(prompt).subspan(first, 4),
        first == 4 ? std::span<const ExtraId>(with_cat) : std::span<const ExtraId>());
    match.groups[0].tip = std::move(published.tip);
    match.groups[0].blocks.push_back(std::move(published.block));
  }
  EXPECT_EQ(ask(*manager, tenant("a"), prompt, {{5, cat}}).hit_tokens, 12u);
  const WhyReport report = ask(*manager, tenant("a"), prompt, {{5, dog}});
  EXPECT_THAT(verdicts(report), ElementsAre(Verdict::kHit, Verdict::kIdentityDiffers,
                                            Verdict::kIdentityDiffers, Verdict::kNotWhole));
  EXPECT_THAT(report.blocks[1].fields, ElementsAre("extra ids"));
}

TEST(Why, NamesTheGroupThatLacksItsPart) {
  auto manager = manager_of({group_layout("growing", 4), group_layout("window 8", 2, 8)}, {8, 8},
                            {.digest_bits_for_test = kWholeKeys});
  const auto prompt = tokens_from(0, 17);
  store(*manager, tenant("a"), prompt);
  const std::uint64_t all_of_the_window[] = {0, 8};
  ASSERT_TRUE(manager->take(all_of_the_window, "a"));
  const WhyReport report = ask(*manager, tenant("a"), prompt);
  EXPECT_EQ(report.hit_tokens, 0u);
  EXPECT_EQ(report.blocks[0].verdict, Verdict::kEvicted);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(report.blocks[i].group, "window 8") << i;
  EXPECT_THAT(report.describe()[1], HasSubstr("group 'window 8' lacks it"));
}

TEST(Why, SaysThatTheTokensAreStoredAsASegment) {
  auto manager = one_group_with_keys(8);
  const auto content =
      std::make_shared<const SegmentContent>(SegmentContent{tenant("t"), tokens_from(0, 6), {}});
  ChainMatch match = manager->match_segment(content);
  const std::span<const TokenId> all(content->tokens);
  for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{0, 4}, {4, 2}}) {
    auto published = manager->publish(manager->seal(take_one(*manager, 0, "t"), count),
                                      match.groups[0].tip, all.subspan(first, count), {});
    match.groups[0].tip = std::move(published.tip);
  }
  EXPECT_EQ(ask(*manager, tenant("t"), tokens_from(0, 6)).segment_tokens, 6u);
  EXPECT_EQ(ask(*manager, tenant("t"), tokens_from(0, 6)).hit_tokens, 0u);
  EXPECT_EQ(ask(*manager, tenant("t"), tokens_from(0, 7)).segment_tokens, 0u);
  EXPECT_EQ(ask(*manager, tenant("u"), tokens_from(0, 6)).segment_tokens, 0u);
}

// What an asker could learn by trying out salts and adapters: the answer about other tenants must
// not depend on them, and must name nothing.
TEST(WhyAcrossTenants, IsABareAnswerWhateverIsAskedWith) {
  auto manager = one_group_with_keys(16);
  const auto prompt = tokens_from(0, 9);
  CacheIdentity plain = tenant("b");
  plain.adapter.bytes[0] = 3;
  store(*manager, plain, prompt);
  std::vector<CacheIdentity> askers(4, tenant("a"));
  askers[1].salt = "guess";
  askers[2].adapter = plain.adapter;
  askers[3].adapter.bytes[0] = 9;
  const WhyReport first = ask(*manager, askers[0], prompt);
  EXPECT_THAT(verdicts(first),
              ElementsAre(Verdict::kAnotherTenant, Verdict::kAnotherTenant, Verdict::kNotWhole));
  EXPECT_EQ(first.describe()[1], "tokens 0 to 7: another tenant");
  for (const CacheIdentity& asker : askers) {
    const WhyReport report = ask(*manager, asker, prompt);
    EXPECT_EQ(report.blocks, first.blocks);
    EXPECT_TRUE(report.blocks[0].fields.empty());
    EXPECT_EQ(report.blocks[0].age_uses, 0u);
    EXPECT_TRUE(report.blocks[0].group.empty());
  }
  // What is gone leaves no word to others.
  manager->evict_all();
  EXPECT_EQ(ask(*manager, askers[0], prompt).blocks[0].verdict, Verdict::kNeverStored);
}

TEST(WhyAcrossTenants, NeverSpeaksOfWhatWasStoredUnderASalt) {
  auto manager = one_group_with_keys(16);
  const auto prompt = tokens_from(0, 9);
  CacheIdentity salted = tenant("b");
  salted.salt = "s";
  store(*manager, salted, prompt);
  CacheIdentity asker = tenant("a");
  for (const char* salt : {"", "s", "t"}) {
    asker.salt = salt;
    EXPECT_EQ(ask(*manager, asker, prompt).blocks[0].verdict, Verdict::kNeverStored) << salt;
  }
}

TEST(WhyAcrossTenants, CanBeSwitchedOff) {
  auto manager = one_group_with_keys(16, {.why_across_tenants = false});
  store(*manager, tenant("b"), tokens_from(0, 9));
  EXPECT_EQ(ask(*manager, tenant("a"), tokens_from(0, 9)).blocks[0].verdict, Verdict::kNeverStored);
}

// Asking made a root for the asker, counted a hit, or saved a block from eviction.
TEST(Why, ChangesNothing) {
  for (const unsigned bits : {0u, 8u, kWholeKeys}) {
    auto manager = one_group(4, 6, {.digest_bits_for_test = bits});
    const auto old = tokens_from(0, 9);
    const auto young = tokens_from(100, 9);
    store(*manager, tenant("a"), old, 1);
    store(*manager, tenant("a"), young, 50);
    const BlockCounts counts = manager->counts(0);
    const BlockStats stats = manager->stats();
    for (const char* name : {"a", "b", ""}) {
      (void)ask(*manager, tenant(name), old);
      (void)ask(*manager, tenant(name), other_end(old, 2));
    }
    EXPECT_EQ(manager->counts(0), counts);
    EXPECT_TRUE(manager->stats() == stats);
    const std::uint64_t four[] = {4};
    const auto taken = manager->take(four, "a");
    ASSERT_TRUE(taken);
    EXPECT_EQ(hit(*manager, tenant("a"), old), 0u) << "the older one goes, though asked about";
    EXPECT_EQ(hit(*manager, tenant("a"), young), 8u);
    expect_sound(*manager);
  }
}

}  // namespace
}  // namespace emblema
