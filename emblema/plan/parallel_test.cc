// Which rank holds which layers, heads and tokens.
#include "emblema/plan/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "test/model_samples.h"

namespace emblema {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::uint32_t> sizes_of(std::uint32_t layers, const Parallelism& parallel) {
  const auto stages = pipeline_stages(layers, parallel);
  EXPECT_TRUE(stages) << stages.error().describe();
  std::vector<std::uint32_t> sizes;
  for (const Stage& stage : *stages) sizes.push_back(stage.layers);
  return sizes;
}

std::string refusal(std::uint32_t layers, const Parallelism& parallel) {
  const auto stages = pipeline_stages(layers, parallel);
  return stages ? "it was accepted" : stages.error().message;
}

TEST(Stages, LayersAreNeitherLostNorDoubledWhereTheyDoNotDivide) {
  // mlx-lm issue 1688, SGLang pull request 13282.
  EXPECT_THAT(sizes_of(10, {.pipeline = 3}), ElementsAre(4, 3, 3));
  EXPECT_THAT(sizes_of(61, {.pipeline = 2}), ElementsAre(31, 30));
  EXPECT_THAT(refusal(10, {.pipeline = 11}),
              HasSubstr("pipeline_parallel is 11; allowed: 1 to 10"));
  EXPECT_THAT(refusal(10, {.pipeline = 0}), HasSubstr("pipeline_parallel is 0"));
}

TEST(Stages, EveryLayerIsInOneStageAndSizesDifferByAtMostOne) {
  for (std::uint32_t layers = 1; layers <= 97; ++layers) {
    for (std::uint32_t stages = 1; stages <= 8 && stages <= layers; ++stages) {
      const auto split = pipeline_stages(layers, {.pipeline = stages});
      ASSERT_TRUE(split);
      ASSERT_EQ(split->size(), stages);
      std::uint32_t next = 0;
      std::uint32_t least = layers;
      std::uint32_t most = 0;
      for (const Stage& stage : *split) {
        ASSERT_EQ(stage.first_layer, next);
        next += stage.layers;
        least = std::min(least, stage.layers);
        most = std::max(most, stage.layers);
      }
      ASSERT_EQ(next, layers);
      ASSERT_LE(most - least, 1u) << layers << " layers in " << stages;
      ASSERT_TRUE(split->back().is_last);
    }
  }
}

TEST(Stages, GivenSizesMustAddUp) {
  EXPECT_THAT(sizes_of(10, {.pipeline = 3, .pipeline_layers = {2, 2, 6}}), ElementsAre(2, 2, 6));
  for (const std::vector<std::uint32_t>& list :
       std::vector<std::vector<std::uint32_t>>{{5, 5}, {4, 3, 4}, {10, 0, 0}}) {
    EXPECT_THAT(refusal(10, {.pipeline = 3, .pipeline_layers = list}),
                HasSubstr("allowed: 3 numbers of at least 1 that add up to 10"));
  }
}

std::vector<std::uint64_t> dealt(std::uint64_t tokens, std::uint32_t ranks,
                                 std::uint64_t interleave) {
  std::vector<std::uint64_t> local;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    local.push_back(local_tokens(tokens, rank, ranks, interleave));
  }
  return local;
}

TEST(ContextParallel, LocalLengthsFollowTheInterleaveSize) {
  // vLLM pull request 26696, dynamo 13653, LMCache 4936.
  EXPECT_THAT(dealt(33, 2, 1), ElementsAre(17, 16));
  EXPECT_THAT(dealt(33, 2, 16), ElementsAre(17, 16));
  EXPECT_THAT(dealt(10, 2, 4), ElementsAre(6, 4));
  EXPECT_THAT(dealt(100, 4, 16), ElementsAre(32, 32, 20, 16));
  EXPECT_THAT(dealt(1, 8, 1), ElementsAre(1, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(dealt(10, 4, 1), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(dealt(10, 4, 2), ElementsAre(4, 2, 2, 2));
  EXPECT_THAT(dealt(0, 3, 5), ElementsAre(0, 0, 0));
}

TEST(ContextParallel, ABlockStandsForTheRowsOfAllRanks) {
  EXPECT_EQ(*logical_block_tokens(16, 2), 32u);
  EXPECT_EQ(*logical_block_tokens(64, 8), 512u);
  EXPECT_FALSE(logical_block_tokens(UINT64_MAX, 2));
}

RC_GTEST_PROP(ContextParallel, EveryTokenLiesOnOneRankInOrder, ()) {
  const auto tokens = *rc::gen::inRange<std::uint64_t>(0, 700);
  const auto ranks = *rc::gen::inRange<std::uint32_t>(1, 17);
  const auto interleave = *rc::gen::inRange<std::uint64_t>(1, 40);
  std::vector<std::uint64_t> count(ranks, 0);
  for (std::uint64_t token = 0; token < tokens; ++token) {
    const auto rank = static_cast<std::uint32_t>(token / interleave % ranks);
    RC_ASSERT(local_row(token, ranks, interleave) == count[rank]);
    ++count[rank];
  }
  RC_ASSERT(dealt(tokens, ranks, interleave) == count);
}

std::string refusal(const ModelConfig& model, const Parallelism& parallel) {
  const auto geometry = ModelGeometry::from(model);
  EXPECT_TRUE(geometry);
  const Status ok = check_parallelism(*geometry, parallel);
  return ok ? "it was accepted" : ok.error().message;
}

TEST(Parallel, TokensAreDealtOutWhereEveryRowIsOneTokens) {
  EXPECT_EQ(refusal(samples::deepseek_v3(), {.tensor = 8, .decode_context = 8}), "it was accepted");
  EXPECT_THAT(refusal(samples::deepseek_v3(), {.tensor = 8, .decode_context = 3}),
              HasSubstr("dcp is 3; allowed: a divisor of"));
  EXPECT_THAT(refusal(samples::gpt_oss_120b(), {.tensor = 16, .decode_context = 2}),
              AllOf(HasSubstr("dcp is 2"), HasSubstr("retention window")));
  EXPECT_THAT(refusal(samples::deepseek_v4_pro(), {.tensor = 8, .decode_context = 2}),
              AllOf(HasSubstr("dcp is 2"), HasSubstr("stride")));
}

TEST(Parallel, GroupedHeadsAreDealtOutOnlyAmongRanksThatRepeatThem) {
  const ModelConfig llama = samples::grouped("llama-3-70b", 80, 64, 8, 128);
  EXPECT_THAT(refusal(llama, {.tensor = 8, .decode_context = 2}),
              AllOf(HasSubstr("dcp is 2"), HasSubstr("8 KV heads")));
  EXPECT_EQ(refusal(llama, {.tensor = 16, .decode_context = 2}), "it was accepted");
  EXPECT_THAT(refusal(llama, {.tensor = 16, .decode_context = 4}), HasSubstr("dcp is 4"));
  // 12 query heads a KV head do not divide among 8 ranks.
  EXPECT_THAT(refusal(samples::grouped("m", 2, 12, 1, 64), {.tensor = 8, .decode_context = 8}),
              HasSubstr("query heads of a KV head (12)"));
}

TEST(Parallel, GroupsOfRequestsDivideTheTensorRanks) {
  const Parallelism parallel{.tensor = 8, .data_attention = 4};
  EXPECT_EQ(parallel.attention_tensor(), 2u);
  EXPECT_EQ(refusal(samples::deepseek_v3(), parallel), "it was accepted");
  EXPECT_THAT(refusal(samples::deepseek_v3(), {.tensor = 8, .data_attention = 3}),
              HasSubstr("a divisor of tensor_parallel (8)"));
  EXPECT_THAT(refusal(samples::deepseek_v3(), {.tensor = 0}), HasSubstr("tensor_parallel is 0"));
}

TEST(Parallel, PromptsComputedTogetherChangeNoCachedByte) {
  const Parallelism parallel{.tensor = 4, .prefill_context = 2};
  EXPECT_EQ(parallel.attention_tensor(), 4u);
  EXPECT_EQ(parallel.ranks(), 8u);
  EXPECT_EQ(refusal(samples::deepseek_v3(), parallel), "it was accepted");
  // vLLM 073c510c: dcp is 1, pcp or tensor x pcp; latents alone; no data parallelism.
  for (const std::uint32_t dealt : {2u, 8u}) {
    EXPECT_EQ(refusal(samples::deepseek_v3(),
                      {.tensor = 4, .decode_context = dealt, .prefill_context = 2}),
              "it was accepted");
  }
  EXPECT_THAT(
      refusal(samples::deepseek_v3(), {.tensor = 4, .decode_context = 4, .prefill_context = 2}),
      HasSubstr("dcp is 4; allowed with pcp 2 and 4 tensor ranks: 1, 2, 8"));
  EXPECT_THAT(refusal(samples::gpt_oss_120b(), parallel),
              AllOf(HasSubstr("pcp is 2"), HasSubstr("models of latents")));
  EXPECT_THAT(
      refusal(samples::deepseek_v3(), {.tensor = 4, .data_attention = 2, .prefill_context = 2}),
      HasSubstr("one of the two"));
}

}  // namespace
}  // namespace emblema
