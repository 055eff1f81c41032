// Used, free and evictable counts stopped adding up when prompts shared a block: 10^5 random steps,
// after each of which the whole pool is counted again.
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "emblema/block/block_testing.h"

namespace emblema {
namespace {

using namespace block_testing;

// Prompts of 100, 164 and 260 tokens in blocks of 64 that share the first block; ten blocks.
class TenBlocks {
 public:
  void step() {
    const std::vector<TokenId>& prompt = prompts_[random_() % prompts_.size()];
    switch (random_() % 6) {
      case 0:
      case 1:
        run(prompt);
        break;
      case 2:
        live_.push_back(manager_->match(tenant("t"), prompt, {}, prompt.size() - 1));
        break;
      case 3:
        if (pins_.size() < 2) pins_.push_back({manager_->pin(tenant("t"), prompt, {}), prompt});
        break;
      case 4:
        if (!pins_.empty()) pins_.erase(pins_.begin());
        break;
      default:
        if (random_() % 4 == 0) evict();
        break;
    }
    while (live_.size() > random_() % 4) live_.erase(live_.begin());
    count();
  }

  std::uint64_t evicted() const { return manager_->stats().evicted_entries; }
  std::uint64_t pinned_seen() const { return pinned_seen_; }

 private:
  using Names = std::set<std::pair<std::uint32_t, std::uint32_t>>;  // index and generation
  static std::pair<std::uint32_t, std::uint32_t> name_of(const SealedBlock& block) {
    return {block.id().index, block.id().generation};
  }

  // Stores the prompt and keeps it, as far as there is room.
  void run(const std::vector<TokenId>& prompt) {
    ChainMatch match = manager_->match(tenant("t"), prompt, {}, prompt.size());
    auto& group = match.groups[0];
    for (std::uint64_t first = match.tokens; first + 64 <= prompt.size(); first += 64) {
      const std::uint64_t one[] = {1};
      auto taken = manager_->take(one, "t");
      if (!taken) break;
      OpenBlock open = std::move((*taken)[0].front());
      fill(open, prompt[first] + static_cast<std::uint32_t>(first), 64);
      auto published = manager_->publish(manager_->seal(std::move(open), 64), group.tip,
                                         std::span<const TokenId>(prompt).subspan(first, 64), {});
      group.blocks.push_back(std::move(published.block));
      group.tip = std::move(published.tip);
    }
    live_.push_back(std::move(match));
  }

  // What evict_all() leaves idle is what pins keep.
  void evict() {
    const std::uint64_t idle = manager_->counts(0).idle;
    const std::uint64_t evictable = manager_->evict_all();
    Names pinned;
    for (const auto& [pin, prompt] : pins_) {
      const ChainMatch found = manager_->match(tenant("t"), prompt, {}, pin.tokens());
      ASSERT_EQ(found.tokens, pin.tokens()) << "a pinned block went";
      for (const SealedBlock& block : found.groups[0].blocks) pinned.insert(name_of(block));
    }
    for (const auto& name : held()) pinned.erase(name);
    // A tip keeps its entry, and with it the block, though no sequence holds the block.
    const std::uint64_t kept = manager_->counts(0).idle;
    ASSERT_EQ(idle, evictable + kept);
    ASSERT_GE(kept, pinned.size());
    pinned_seen_ += pinned.size();
  }

  Names held() const {
    Names names;
    for (const ChainMatch& match : live_) {
      for (const SealedBlock& block : match.groups[0].blocks) names.insert(name_of(block));
    }
    return names;
  }

  void count() {
    const BlockCounts counts = manager_->counts(0);
    std::uint64_t holds = 0;
    for (const ChainMatch& match : live_) holds += match.groups[0].blocks.size();
    ASSERT_EQ(counts.free + counts.idle + counts.referenced, 10u);
    ASSERT_EQ(counts.open, 0u);
    ASSERT_EQ(counts.referenced, held().size());
    ASSERT_EQ(counts.holds, holds);
    const Status ok = manager_->check_invariants();
    ASSERT_TRUE(ok) << ok.error().message;
  }

  std::mt19937 random_{41};
  std::unique_ptr<BlockManager> manager_ = one_group(64, 10);
  std::vector<std::vector<TokenId>> prompts_ = {joined(tokens_from(0, 64), tokens_from(1000, 36)),
                                                joined(tokens_from(0, 64), tokens_from(2000, 100)),
                                                joined(tokens_from(0, 64), tokens_from(3000, 196)),
                                                tokens_from(5000, 130)};
  std::vector<ChainMatch> live_;
  std::vector<std::pair<Pin, std::vector<TokenId>>> pins_;
  std::uint64_t pinned_seen_ = 0;
};

TEST(Counts, AddUpOverAHundredThousandSteps) {
  TenBlocks pool;
  for (int step = 0; step < 100'000; ++step) {
    pool.step();
    if (HasFatalFailure()) FAIL() << "step " << step;
  }
  EXPECT_GT(pool.evicted(), 10'000u);
  EXPECT_GT(pool.pinned_seen(), 1'000u);
}

}  // namespace
}  // namespace emblema
