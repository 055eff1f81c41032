#include "emblema/plan/capacity_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "emblema/contract/bytes.h"
#include "emblema/layout/block_layout.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

using namespace literals;
using testing::AllOf;
using testing::HasSubstr;

CapacityPlan plan_of(const ModelConfig& model, const Deployment& deployment) {
  auto plan = plan_capacity(model, deployment);
  EXPECT_TRUE(plan) << plan.error().describe();
  return *plan;
}

Error error_of(const ModelConfig& model, const Deployment& deployment) {
  const auto plan = plan_capacity(model, deployment);
  EXPECT_FALSE(plan);
  return plan ? Error{ErrorCode::NotFound, "no error"} : plan.error();
}

TEST(CapacityPlan, DeepseekV3InWholeBlocksOf40GiB) {
  const CapacityPlan plan =
      plan_of(samples::deepseek_v3(),
              {.at_tokens = {1, 8192, 131'072}, .pool_bytes = 40_GiB, .context_tokens = 131'072});
  EXPECT_EQ(plan.model, "deepseek-v3");
  EXPECT_EQ(plan.attention, "61 x MLA");
  EXPECT_EQ(plan.profile, "native");
  EXPECT_EQ(plan.block_tokens, 64u);
  EXPECT_FALSE(plan.indexer_dtype);
  ASSERT_EQ(plan.ranks.size(), 1u);
  const RankCapacity& rank = plan.ranks[0];
  EXPECT_EQ(rank.name, "tp0");
  EXPECT_EQ(rank.growing_bytes_per_token, Rational(70'272));
  EXPECT_EQ(rank.fixed_bytes_per_sequence, 0u);
  EXPECT_EQ(rank.state_bytes_per_sequence, 0u);
  ASSERT_EQ(rank.at.size(), 3u);
  EXPECT_EQ(rank.at[0].payload_bytes, 70'272u);
  EXPECT_EQ(rank.at[0].allocated_bytes, 64u * 70'272);
  EXPECT_EQ(rank.at[2].payload_bytes, 9'210'691'584u);
  EXPECT_EQ(rank.at[2].allocated_bytes, 9'210'691'584u);
  EXPECT_FALSE(rank.at[0].payload_bytes_total);
  EXPECT_EQ(40_GiB / 70'272, 611'191u);
  EXPECT_EQ(rank.pool->tokens, 611'136u);
  EXPECT_EQ(rank.pool->groups.at(0).blocks, 9549u);
  EXPECT_EQ(rank.pool->sequences, 4u);
  ASSERT_EQ(plan.layers.size(), 61u);
  EXPECT_EQ(plan.layers[60].index, 60u);
  EXPECT_EQ(plan.layers[60].kind, "mla");
  EXPECT_EQ(plan.layers[60].growing_bytes_per_token, Rational(1152));
  EXPECT_FALSE(plan.layers[60].window_tokens);
  ASSERT_EQ(plan.layers[60].streams.size(), 1u);
  EXPECT_EQ(plan.layers[60].streams[0].role, StreamRole::kLatent);
  EXPECT_EQ(plan.layers[60].streams[0].entry_bytes, 1152u);
  EXPECT_EQ(plan.layers[60].streams[0].sharding, Sharding::kReplicated);
}

TEST(CapacityPlan, DraftLayersOnRequest) {
  const CapacityPlan off = plan_of(samples::deepseek_v3(), {});
  const CapacityPlan on = plan_of(samples::deepseek_v3(), {.speculative_mtp = true});
  EXPECT_EQ(off.ranks[0].growing_bytes_per_token, Rational(70'272));
  EXPECT_EQ(on.ranks[0].growing_bytes_per_token, Rational(71'424));
  EXPECT_TRUE(on.layers.back().is_draft);
}

TEST(CapacityPlan, WindowsByLayerAndByLength) {
  const CapacityPlan plan = plan_of(samples::gpt_oss_120b(), {.at_tokens = {1, 128, 129, 8192}});
  EXPECT_EQ(plan.attention, "18 x GQA window 128 + 18 x GQA");
  EXPECT_EQ(plan.ranks[0].growing_bytes_per_token, Rational(36'864));
  EXPECT_EQ(plan.ranks[0].fixed_bytes_per_sequence, 4'718'592u);
  EXPECT_EQ(plan.ranks[0].at[0].payload_bytes, 73'728u);
  EXPECT_EQ(plan.ranks[0].at[3].payload_bytes, 306'708'480u);
  // 512 growing blocks and, at 8192 = 512 x 16 with 127 rows before it, 8 window blocks.
  EXPECT_EQ(plan.ranks[0].at[3].allocated_bytes, (512u + 8) * 18 * 32'768);
  EXPECT_EQ(plan.layers[0].window_tokens, 128u);
  EXPECT_EQ(plan.layers[0].growing_bytes_per_token, Rational());
  EXPECT_FALSE(plan.layers[1].window_tokens);
  ASSERT_EQ(plan.ranks[0].groups.size(), 2u);
  EXPECT_EQ(plan.ranks[0].groups[1].name, "window 128");
  EXPECT_EQ(plan.ranks[0].groups[1].pages, 18u);
  ASSERT_EQ(plan.ranks[0].groups[1].page_sizes.size(), 1u);
  EXPECT_EQ(plan.ranks[0].groups[1].page_sizes[0].page_bytes, 16u * 2048);
  EXPECT_EQ(plan.ranks[0].groups[1].page_sizes[0].pages, 18u);
}

TEST(CapacityPlan, ManyLongSequencesAreExactAndNeverWrap) {
  const CapacityPlan plan =
      plan_of(samples::llama_3_70b(), {.at_tokens = {32'768, 1'048'576}, .sequences = 64});
  EXPECT_EQ(plan.ranks[0].at[0].payload_bytes, 10'737'418'240u);
  EXPECT_EQ(plan.ranks[0].at[1].payload_bytes_total, 21'990'232'555'520u);
  const Error error = error_of(samples::llama_3_70b(),
                               {.at_tokens = {UINT64_C(1) << 40}, .sequences = UINT64_C(1) << 10});
  EXPECT_EQ(error.code, ErrorCode::Invalid);
  EXPECT_THAT(error.message, AllOf(HasSubstr("1024 sequences of 1099511627776 tokens"),
                                   HasSubstr("does not fit 64 bits")));
}

TEST(CapacityPlan, LengthsBeyondTheModelsPositionsAreAnsweredAndNoted) {
  const auto notes_at = [](std::uint64_t tokens) {
    return plan_of(samples::llama_3_70b(), {.at_tokens = {1, tokens}}).notes;
  };
  EXPECT_THAT(notes_at(8192), testing::IsEmpty());
  EXPECT_THAT(notes_at(8193), testing::ElementsAre(AllOf(HasSubstr("8193"), HasSubstr("8192"))));
}

TEST(CapacityPlan, DeepseekV4ProAtAMillionTokens) {
  const CapacityPlan plan = plan_of(samples::deepseek_v4_pro(), {.at_tokens = {1'048'576}});
  const RankCapacity& rank = plan.ranks[0];
  EXPECT_EQ(plan.block_tokens, 128u);
  EXPECT_EQ(rank.growing_bytes_per_token, Rational(9848));
  EXPECT_EQ(rank.fixed_bytes_per_sequence, 7'995'392u);
  EXPECT_EQ(rank.state_bytes_per_sequence, 18'710'528u);
  EXPECT_EQ(rank.at[0].growing_bytes, 10'326'376'448u);
  EXPECT_EQ(rank.at[0].payload_bytes, 10'326'376'448u + 7'995'392u);
  EXPECT_EQ(plan.ranks[0].arena_slot_bytes, 26'705'920u);
  EXPECT_EQ(rank.at[0].allocated_bytes, 10'326'376'448u + 26'705'920u);
  EXPECT_EQ(format_bytes(10'326'376'448u), "9.617 GiB");
  EXPECT_EQ(plan.indexer_dtype, IndexerDtype::kBf16);
  const CapacityPlan fp8 = plan_of(samples::deepseek_v4_pro(), {.kv_dtype = KvDtype::kFp8Rope16});
  EXPECT_EQ(fp8.ranks[0].growing_bytes_per_token.exact(), "4939.5");
  EXPECT_EQ(fp8.layers[2].growing_bytes_per_token, Rational(160));
  EXPECT_EQ(fp8.layers[3].growing_bytes_per_token, Rational::of(9, 2));
}

TEST(CapacityPlan, SlotsAndBlocksShareThePoolOfV4) {
  const CapacityPlan plan =
      plan_of(samples::deepseek_v4_pro(), {.pool_bytes = 40_GiB, .context_tokens = 131'072});
  const PoolPlan& pool = *plan.ranks[0].pool;
  EXPECT_EQ(pool.snapshot_bytes, 5_GiB);
  EXPECT_EQ(pool.arena_slots, pool.sequences);
  // n slots and n x 1024 blocks and one step buffer fit; n + 1 do not.
  const std::uint64_t step_buffer = 18'710'528u + 2048u * 61 * 1024;
  const std::uint64_t each = 26'705'920u + 1024u * 1'260'544;
  EXPECT_EQ(pool.sequences, (35_GiB - step_buffer) / each);
  EXPECT_THAT(plan.notes, testing::Contains(HasSubstr("snapshots")));
  // The options that are printed give the same division.
  const auto geometry = ModelGeometry::from(samples::deepseek_v4_pro());
  const auto again =
      plan_pool(*ModelLayout::native(*geometry), 40_GiB, *plan.ranks[0].pool_options);
  EXPECT_EQ(again->sequences, pool.sequences);
  EXPECT_EQ(again->used_bytes, pool.used_bytes);
}

TEST(CapacityPlan, SequencesAskedForDecideTheSlots) {
  const CapacityPlan plan = plan_of(
      samples::deepseek_v4_pro(),
      {.sequences = 3, .pool_bytes = 40_GiB, .context_tokens = 131'072, .snapshot_bytes = 0});
  EXPECT_EQ(plan.ranks[0].pool->arena_slots, 3u);
  EXPECT_EQ(plan.ranks[0].pool->sequences, 3u);
  EXPECT_EQ(plan.ranks[0].pool->snapshot_bytes, 0u);
}

TEST(CapacityPlan, BadInputIsNamed) {
  EXPECT_THAT(error_of(samples::deepseek_v3(), {.at_tokens = {0}}).message,
              AllOf(HasSubstr("at is 0"), HasSubstr("1 to 1099511627776")));
  EXPECT_THAT(error_of(samples::deepseek_v3(), {.at_tokens = {UINT64_MAX}}).message,
              HasSubstr("at is 18446744073709551615"));
  EXPECT_THAT(error_of(samples::deepseek_v3(), {.sequences = UINT64_MAX}).message,
              HasSubstr("sequences is"));
  EXPECT_THAT(error_of(samples::deepseek_v3(), {.context_tokens = UINT64_MAX}).message,
              HasSubstr("context is"));
  EXPECT_THAT(error_of(samples::deepseek_v3(), {.step_tokens = 0}).message,
              HasSubstr("step_tokens is 0"));
  EXPECT_THAT(error_of(samples::deepseek_v3(), {.block_tokens = 65}).message,
              HasSubstr("multiples of 64"));
  const Error small = error_of(samples::deepseek_v3(), {.pool_bytes = 1_MiB});
  EXPECT_EQ(small.code, ErrorCode::OutOfBlocks);
  EXPECT_THAT(small.message, HasSubstr("4497408"));
}

RC_GTEST_PROP(CapacityPlan, AllocatedIsNeverLessThanPayload, ()) {
  const auto tokens = *rc::gen::inRange<std::uint64_t>(1, 300'000);
  const std::vector<ModelConfig> models = {samples::llama_3_70b(), samples::gpt_oss_120b(),
                                           samples::deepseek_v3_2(), samples::deepseek_v4_pro()};
  const auto plan = plan_capacity(*rc::gen::elementOf(models), {.at_tokens = {tokens}});
  RC_ASSERT(plan.has_value());
  const LengthBytes& at = plan->ranks[0].at[0];
  RC_ASSERT(at.allocated_bytes >= at.payload_bytes);
}

}  // namespace
}  // namespace emblema
