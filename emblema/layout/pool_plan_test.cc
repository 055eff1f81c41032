#include "emblema/layout/pool_plan.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "emblema/contract/bytes.h"
#include "emblema/layout/layout_testing.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

using namespace literals;
using testing::AllOf;
using testing::HasSubstr;

PoolPlan plan_of(const ModelLayout& layout, std::uint64_t pool_bytes,
                 const PoolPlanOptions& options = {}) {
  const auto plan = plan_pool(layout, pool_bytes, options);
  EXPECT_TRUE(plan) << plan.error().describe();
  return *plan;
}

TEST(PoolPlan, OneGroupIsPoolOverBlockWhateverTheTensorParallelism) {
  // DeepSeek-V3 in 40 GiB: 611,191 tokens by bytes, 611,136 in whole blocks of 64.
  const ModelLayout layout = layout_of(samples::deepseek_v3());
  const PoolPlan plan = plan_of(layout, 40_GiB, {.sequence_tokens = 131'072});
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_EQ(plan.groups[0].blocks, 9549u);
  EXPECT_EQ(plan.tokens, 611'136u);
  EXPECT_EQ(plan.used_bytes, 42'945'748'992u);
  EXPECT_EQ(plan.sequences, 4u);
  EXPECT_EQ(plan.arena_slots, 0u);
  // vLLM's own planner, 60 GiB: 14,324 blocks, 916,736 tokens.
  EXPECT_EQ(plan_of(layout, 60_GiB).tokens, 916'736u);
}

TEST(PoolPlan, FiguresOfVllmsPlannerForOneGroup) {
  const ModelLayout llama = layout_of(samples::grouped("llama-3.1-8b", 32, 32, 8, 128));
  EXPECT_EQ(plan_of(llama, 20_GiB).groups[0].blocks, 10'240u);
  EXPECT_EQ(plan_of(llama, 20_GiB).tokens, 163'840u);
  const ModelLayout v3_2 = layout_of(samples::deepseek_v3_2(), {.kv_dtype = KvDtype::kFp8DsMla});
  EXPECT_EQ(plan_of(v3_2, 60_GiB).groups[0].blocks, 20'941u);
  EXPECT_EQ(plan_of(v3_2, 60_GiB).tokens, 1'340'224u);
  EXPECT_EQ(
      plan_of(layout_of(samples::deepseek_v3_2(), {.indexer_dtype = IndexerDtype::kFp8}), 60_GiB)
          .tokens,
      822'528u);
}

TEST(PoolPlan, WindowsTakeTheirCapAndFullLayersTheRest) {
  const ModelLayout layout = layout_of(samples::gpt_oss_120b());
  const PoolPlan plan = plan_of(layout, 10_GiB, {.sequence_tokens = 131'072, .max_sequences = 2});
  ASSERT_EQ(plan.groups.size(), 2u);
  const std::uint64_t block_bytes = 18u * 32'768;
  EXPECT_EQ(plan.groups[0].block_bytes, block_bytes);
  // A sequence takes 8192 full blocks; of window blocks ceil((126 + 2048) / 16) + 1 = 137 in a
  // step and ceil(127 / 16) + 1 = 9 at rest. Two fit, and not quite a third.
  const std::uint64_t total_blocks = 10_GiB / block_bytes;
  EXPECT_EQ(total_blocks, 18'204u);
  EXPECT_EQ(plan.groups[0].blocks, total_blocks - (137 + 9));
  EXPECT_EQ(plan.groups[1].blocks, 137u + 9);
  EXPECT_EQ(plan.tokens, plan.groups[0].blocks * 16);
  EXPECT_EQ(plan.sequences, 2u);
}

TEST(PoolPlan, WindowsAreMeantForAsManySequencesAsAsked) {
  // Two long sequences leave room, which serves sixteen shorter ones: 15 windows at rest, one step.
  const ModelLayout layout = layout_of(samples::gpt_oss_120b());
  const PoolPlan plan = plan_of(layout, 10_GiB, {.sequence_tokens = 131'072});
  EXPECT_EQ(plan.groups[1].blocks, 137u + 15 * 9);
  EXPECT_EQ(plan.groups[0].blocks, 18'204u - (137 + 15 * 9));
  EXPECT_EQ(plan.sequences, 2u);
}

TEST(PoolPlan, OnlySequencesInAStepNeedRoomForIt) {
  const ModelLayout layout = layout_of(samples::gpt_oss_120b());
  const PoolPlan plan = plan_of(layout, 10_GiB, {.sequence_tokens = 8192, .steps_max = 3});
  // 512 full blocks each; 3 in a step of 137, the others at rest.
  const std::uint64_t sequences = 3 + (18'204 - 3 * (512 + 137)) / (512 + 9);
  EXPECT_EQ(plan.sequences, sequences);
  EXPECT_EQ(plan.groups[1].blocks / 9, (3 * 137 + (sequences - 3) * 9) / 9);
}

TEST(PoolPlan, DefaultLengthIsTheLongestThatFitsAlone) {
  const ModelLayout layout = layout_of(samples::deepseek_v3());
  EXPECT_EQ(plan_of(layout, 1_GiB, {.max_positions = 163'840}).sequence_tokens,
            1_GiB / 4'497'408 * 64);
  EXPECT_EQ(plan_of(layout, 40_GiB, {.max_positions = 163'840}).sequence_tokens, 163'840u);
  const ModelLayout two = layout_of(samples::gpt_oss_120b());
  const PoolPlan plan = plan_of(two, 1_GiB, {.max_positions = 0});
  EXPECT_EQ(plan.sequences, 1u);
  const std::uint64_t blocks = 1_GiB / (18u * 32'768);
  EXPECT_EQ(plan.sequence_tokens, (blocks - 137) * 16);
}

TEST(PoolPlan, NothingBoundsTheLengthWhereAllLayersHaveAWindow) {
  ModelConfig model = samples::grouped("mistral-7b", 32, 32, 8, 128);
  for (LayerFacts& layer : model.layers) samples::set_window(&layer, 4096);
  const ModelLayout layout = layout_of(model);
  EXPECT_EQ(plan_of(layout, 4_GiB, {.max_positions = 32'768}).tokens, 32'768u);
  EXPECT_EQ(plan_of(layout, 4_GiB).tokens, kSequenceTokensMax);
  // Too small for one window: what fits is less.
  const std::uint64_t block_bytes = 32u * 65'536;
  EXPECT_EQ(plan_of(layout, 100 * block_bytes).tokens, 1600u);
}

TEST(PoolPlan, ArenaSlotsStepBuffersAndSnapshotsComeOutOfThePool) {
  const ModelLayout layout = layout_of(samples::deepseek_v4_pro());
  const PoolPlan plan = plan_of(layout, 8_GiB,
                                {.sequence_tokens = 131'072,
                                 .max_sequences = 4,
                                 .step_tokens = 1024,
                                 .steps_max = 2,
                                 .snapshot_bytes = 1_GiB});
  const std::uint64_t step_buffer = 18'710'528u + 1024u * 61 * 1024;
  EXPECT_EQ(plan.arena_slots, 4u);
  EXPECT_EQ(plan.arena_bytes, 4 * 26'705'920u + 2 * step_buffer);
  EXPECT_EQ(plan.snapshot_bytes, 1_GiB);
  const std::uint64_t blocks = (7_GiB - plan.arena_bytes) / 1'260'544;
  EXPECT_EQ(plan.groups.at(0).blocks, blocks);
  EXPECT_EQ(plan.tokens, blocks * 128);
  EXPECT_EQ(plan.used_bytes, 1_GiB + plan.arena_bytes + blocks * 1'260'544);
  EXPECT_EQ(plan.sequences, std::min<std::uint64_t>(4, blocks / 1024));
}

TEST(PoolPlan, FewerSlotsWhereThePoolCannotHoldThemAll) {
  const ModelLayout layout = layout_of(samples::deepseek_v4_pro());
  const std::uint64_t smallest =
      layout.arena.slot_bytes + layout.arena.step_bytes(2048) + layout.groups[0].block_bytes;
  EXPECT_EQ(plan_of(layout, smallest).arena_slots, 1u);
  EXPECT_EQ(plan_of(layout, smallest + 2 * layout.arena.slot_bytes).arena_slots, 3u);
  const auto less = plan_pool(layout, smallest - 1, {});
  ASSERT_FALSE(less);
  EXPECT_EQ(less.error().code, ErrorCode::OutOfBlocks);
  EXPECT_THAT(less.error().message,
              AllOf(HasSubstr(std::to_string(smallest)), HasSubstr("one slot")));
}

TEST(PoolPlan, ASmallPoolIsRefusedWithTheBytesNeeded) {
  const ModelLayout layout = layout_of(samples::gpt_oss_120b());
  const std::uint64_t smallest = 2u * 18 * 32'768;
  const PoolPlan plan = plan_of(layout, smallest);
  EXPECT_EQ(plan.groups[0].blocks, 1u);
  EXPECT_EQ(plan.groups[1].blocks, 1u);
  EXPECT_EQ(plan.tokens, 16u);
  for (const std::uint64_t pool : {std::uint64_t{0}, smallest - 1}) {
    const auto less = plan_pool(layout, pool, {});
    ASSERT_FALSE(less);
    EXPECT_EQ(less.error().code, ErrorCode::OutOfBlocks);
    EXPECT_THAT(less.error().message, HasSubstr(std::to_string(smallest)));
  }
}

TEST(PoolPlan, OptionsOutOfRangeAreInvalid) {
  const ModelLayout layout = layout_of(samples::deepseek_v3());
  for (const PoolPlanOptions& options :
       {PoolPlanOptions{.max_sequences = 0}, PoolPlanOptions{.step_tokens = 0},
        PoolPlanOptions{.steps_max = 0}, PoolPlanOptions{.sequence_tokens = UINT64_MAX}}) {
    const auto plan = plan_pool(layout, 1_GiB, options);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::Invalid);
  }
  const ModelLayout v4 = layout_of(samples::deepseek_v4_pro());
  EXPECT_FALSE(plan_pool(v4, UINT64_MAX, {.step_tokens = UINT64_MAX}));
  EXPECT_FALSE(plan_pool(v4, UINT64_MAX, {.steps_max = UINT64_MAX}));
  EXPECT_FALSE(plan_pool(v4, UINT64_MAX, {.snapshot_bytes = UINT64_MAX}));
  EXPECT_TRUE(plan_pool(v4, UINT64_MAX, {.max_sequences = UINT64_MAX}));
}

// Layouts with any block sizes: what holds for every division.
ModelLayout any_layout() {
  ModelLayout layout;
  const auto groups = *rc::gen::inRange(1, 5);
  for (int i = 0; i < groups; ++i) {
    BlockLayout group;
    group.block_tokens = *rc::gen::inRange<std::uint64_t>(1, 129);
    group.block_bytes = *rc::gen::inRange<std::uint64_t>(1, 5000) * 64;
    if (i > 0 || *rc::gen::inRange(0, 5) == 0) {  // now and then all have a window
      group.retention = *rc::gen::inRange(0, 3) == 0 ? Retention::kChunk : Retention::kWindow;
      group.window_tokens = *rc::gen::inRange<std::uint64_t>(1, 600);
    }
    layout.groups.push_back(group);
  }
  return layout;
}

// Blocks of the groups, taken and given back as a sequence runs to `tokens` in steps. True if it
// got there; then it stays.
bool run_sequence(const ModelLayout& layout, std::uint64_t tokens, std::uint64_t step,
                  std::vector<std::uint64_t>* free) {
  std::vector<std::uint64_t> held(free->size(), 0);
  for (std::uint64_t done = 0; done < tokens; done += std::min(step, tokens - done)) {
    const std::uint64_t end = std::min(tokens, done + step);
    for (std::size_t i = 0; i < free->size(); ++i) {
      const BlockLayout& group = layout.groups[i];
      const std::uint64_t wanted = ceil_div(end, group.block_tokens) - group.released_at(done);
      if (wanted > held[i] + (*free)[i]) return false;
      const std::uint64_t after = ceil_div(end, group.block_tokens) - group.released_at(end);
      (*free)[i] = (*free)[i] + held[i] - after;
      held[i] = after;
    }
  }
  return true;
}

RC_GTEST_PROP(PoolPlan, SequencesRunUntilOneIsRefusedAndTheirNumberIsThePlans, ()) {
  const ModelLayout layout = any_layout();
  std::uint64_t smallest = 0;
  for (const BlockLayout& group : layout.groups) smallest += group.block_bytes;
  const std::uint64_t pool = smallest + *rc::gen::inRange<std::uint64_t>(0, 30'000'000);
  const PoolPlanOptions options{.sequence_tokens = *rc::gen::inRange<std::uint64_t>(1, 3000),
                                .max_sequences = *rc::gen::inRange<std::uint64_t>(1, 40),
                                .step_tokens = *rc::gen::inRange<std::uint64_t>(1, 600)};
  const auto plan = plan_pool(layout, pool, options);
  RC_ASSERT(plan.has_value());
  std::vector<std::uint64_t> free;
  for (const PoolPlan::Group& group : plan->groups) free.push_back(group.blocks);
  constexpr std::uint64_t kEnough = 300;  // chunks that are over hold nothing: no end to them
  std::uint64_t ran = 0;
  while (ran < kEnough &&
         run_sequence(layout, options.sequence_tokens, options.step_tokens, &free)) {
    ++ran;
  }
  bool leaves_nothing = true;  // chunks that are over, in all groups
  for (const BlockLayout& group : layout.groups) {
    leaves_nothing = leaves_nothing && group.blocks_behind(options.sequence_tokens, {}) == 0;
  }
  if (leaves_nothing) {
    RC_ASSERT(plan->sequences < 100'000);
    RC_SUCCEED("no next one would ever be refused");
  }
  RC_ASSERT(ran == std::min(kEnough, plan->sequences));
}

// Chunks of 5 are over at 5 tokens and hold nothing; chunks of 3 hold the 2 tokens behind the last
// one. The second group never refuses, so the first decides.
TEST(PoolPlan, AChunkThatIsOverRefusesNobodyWhereAnotherGroupHoldsSomething) {
  ModelLayout layout;
  for (const auto& [bytes, chunk] : {std::pair{64, 3}, std::pair{62 * 64, 5}}) {
    BlockLayout group;
    group.block_tokens = 1;
    group.block_bytes = static_cast<std::uint64_t>(bytes);
    group.retention = Retention::kChunk;
    group.window_tokens = static_cast<std::uint64_t>(chunk);
    layout.groups.push_back(group);
  }
  const PoolPlanOptions options{.sequence_tokens = 5, .max_sequences = 1, .step_tokens = 1};
  const auto plan = plan_pool(layout, 64 + 62 * 64 + 604'672, options);
  ASSERT_TRUE(plan.has_value());
  // One runs and needs 3 blocks at most; each that stays keeps 2.
  EXPECT_EQ(plan->sequences, 1 + (plan->groups[0].blocks - 3) / 2);
}

RC_GTEST_PROP(PoolPlan, AnyDivisionFitsAndWhatItPromisesFits, ()) {
  const ModelLayout layout = any_layout();
  std::uint64_t smallest = 0;
  std::uint64_t largest_block = 0;
  for (const BlockLayout& group : layout.groups) {
    smallest += group.block_bytes;
    largest_block = std::max(largest_block, group.block_bytes);
  }
  const std::uint64_t pool = smallest + *rc::gen::inRange<std::uint64_t>(0, 100'000'000);
  const PoolPlanOptions options{.sequence_tokens = *rc::gen::inRange<std::uint64_t>(0, 5000),
                                .step_tokens = *rc::gen::inRange<std::uint64_t>(1, 600)};
  const auto plan = plan_pool(layout, pool, options);
  RC_ASSERT(plan.has_value());
  std::uint64_t used = 0;
  std::uint64_t peak_bytes = 0;
  const auto need = [&](std::size_t i, std::uint64_t tokens) {
    return layout.groups[i].blocks_peak(tokens, options.step_tokens);
  };
  bool one_more_fits = true;
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    const PoolPlan::Group& group = plan->groups[i];
    RC_ASSERT(group.blocks >= 1);
    used += group.blocks * group.block_bytes;
    peak_bytes += need(i, plan->sequence_tokens) * group.block_bytes;
    RC_ASSERT(need(i, plan->tokens) <= group.blocks);
    one_more_fits = one_more_fits && need(i, plan->tokens + 1) <= group.blocks;
  }
  RC_ASSERT(!one_more_fits || plan->tokens == kSequenceTokensMax);  // or nothing bounds it
  RC_ASSERT(plan->used_bytes == used);
  RC_ASSERT(used <= pool);
  RC_ASSERT(pool - used < largest_block);  // the leftover is of no use
  if (options.sequence_tokens == 0) {
    RC_ASSERT(peak_bytes <= pool);  // the longest that fits alone does
  }
}

RC_GTEST_PROP(PoolPlan, ALargerPoolNeverHoldsFewerSequences, ()) {
  const ModelLayout layout = any_layout();
  std::uint64_t smallest = 0;
  for (const BlockLayout& group : layout.groups) smallest += group.block_bytes;
  const std::uint64_t pool = smallest + *rc::gen::inRange<std::uint64_t>(0, 50'000'000);
  const PoolPlanOptions options{.sequence_tokens = *rc::gen::inRange<std::uint64_t>(1, 5000)};
  const std::uint64_t before = plan_of(layout, pool, options).sequences;
  const std::uint64_t more = pool + *rc::gen::inRange<std::uint64_t>(0, 50'000'000);
  RC_ASSERT(plan_of(layout, more, options).sequences >= before);
}

}  // namespace
}  // namespace emblema
