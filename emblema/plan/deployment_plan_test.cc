// Plans of more than one GPU, and pools that are left beside the weights. Figures are products
// written out, or published ones whose source stands beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/contract/bytes.h"
#include "emblema/plan/capacity_plan.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

using namespace literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

CapacityPlan plan_of(const ModelConfig& model, const Deployment& deployment) {
  auto plan = plan_capacity(model, deployment);
  EXPECT_TRUE(plan) << plan.error().describe();
  return *plan;
}

std::string refusal(const ModelConfig& model, const Deployment& deployment) {
  const auto plan = plan_capacity(model, deployment);
  return plan ? "it was planned" : plan.error().describe();
}

ModelConfig preset(std::string_view name) {
  auto model = load_model_config(name);
  EXPECT_TRUE(model) << model.error().describe();
  return *model;
}

TEST(DeploymentPlan, LatentsAreTheSameOnEveryTensorRank) {
  // vLLM pull request 46145: divided by TP, or given a K and a V copy.
  for (const std::uint32_t ranks : {1u, 8u}) {
    const CapacityPlan plan =
        plan_of(samples::deepseek_v3(),
                {.pool_bytes = 40_GiB, .context_tokens = 131'072, .parallel = {.tensor = ranks}});
    ASSERT_EQ(plan.ranks.size(), 1u);
    EXPECT_EQ(plan.ranks[0].growing_bytes_per_token, Rational(70'272));
    EXPECT_EQ(plan.ranks[0].tokens, 611'136u);
    EXPECT_EQ(plan.ranks[0].ranks, ranks);
  }
}

TEST(DeploymentPlan, DealtOutTokensCountOnAllRanks) {
  const CapacityPlan plan =
      plan_of(samples::deepseek_v3(), {.at_tokens = {131'072, 131'073},
                                       .pool_bytes = 40_GiB,
                                       .context_tokens = 131'072,
                                       .parallel = {.tensor = 8, .decode_context = 8}});
  const RankCapacity& rank = plan.ranks[0];
  EXPECT_EQ(rank.tokens, 4'889'088u) << "9,549 blocks x 64 x 8";
  EXPECT_EQ(rank.growing_bytes_per_token, Rational(70'272)) << "of a token that the rank holds";
  EXPECT_EQ(rank.at[0].payload_bytes, 16'384u * 70'272);
  EXPECT_EQ(rank.at[1].payload_bytes, 16'385u * 70'272) << "the first rank has the odd token";
  EXPECT_EQ(rank.pool_options->sequence_tokens, 16'384u);
  EXPECT_EQ(rank.concurrency, 9549u / 256);
  // Queries of all eight ranks meet the rows of each: 2 x 128 x (576 + 512) / (2 x 576).
  EXPECT_NEAR(rank.flop_per_byte.approximate(), 241.78, 0.01);
  EXPECT_EQ(rank.step.context_tokens, 16'384u);
}

TEST(DeploymentPlan, EveryLayerIsInOneStageAndTheScarcestComesFirst) {
  const ModelConfig model = samples::grouped("ten", 10, 4, 2, 64);
  const CapacityPlan plan =
      plan_of(model, {.pool_bytes = 1_GiB, .context_tokens = 1000, .parallel = {.pipeline = 3}});
  std::vector<std::uint32_t> layers;
  for (const RankCapacity& rank : plan.ranks) layers.push_back(rank.stage.layers);
  EXPECT_THAT(layers, ElementsAre(4, 3, 3));
  EXPECT_EQ(plan.ranks[0].growing_bytes_per_token, Rational(4 * 2 * 2 * 64 * 2));
  EXPECT_EQ(plan.ranks[0].name, "pp0 tp0");
  EXPECT_LT(plan.ranks[0].concurrency, plan.ranks[1].concurrency);
  EXPECT_EQ(plan.concurrency_total, plan.ranks[0].concurrency);
  EXPECT_EQ(plan.layers.size(), 10u);
  EXPECT_EQ(plan.layers[9].index, 9u);
  EXPECT_THAT(refusal(model, {.parallel = {.pipeline = 11}}), HasSubstr("pipeline_parallel is 11"));
}

TEST(DeploymentPlan, StagesAreThoseOfVllmForDeepseekV3) {
  // vLLM 073c510c: 28,187 and 29,127 blocks of 64 tokens in 60 GiB; the smaller counts.
  const CapacityPlan plan =
      plan_of(samples::deepseek_v3(), {.pool_bytes = 60_GiB, .parallel = {.pipeline = 2}});
  EXPECT_EQ(plan.ranks[0].pool->groups[0].blocks, 28'187u);
  EXPECT_EQ(plan.ranks[1].pool->groups[0].blocks, 29'127u);
}

TEST(DeploymentPlan, AStageWithoutTheRowsItReadsIsRefusedByItsNumber) {
  EXPECT_THAT(refusal(preset("gemma-3n-e4b"), {.parallel = {.pipeline = 3}}),
              AllOf(HasSubstr("stage 3 of 3 (layers 24 to 34)"),
                    HasSubstr("layer 24: it reads the rows of layer 19")));
}

TEST(DeploymentPlan, DraftLayersAreOnTheLastStage) {
  ModelConfig model = samples::deepseek_v3();
  model.num_nextn_predict_layers = 1;
  const CapacityPlan plan = plan_of(model, {.speculative_mtp = true, .parallel = {.pipeline = 2}});
  ASSERT_EQ(plan.layers.size(), 62u);
  EXPECT_TRUE(plan.layers.back().is_draft);
  for (const RankCapacity& rank : plan.ranks) {
    EXPECT_EQ(rank.growing_bytes_per_token, Rational(31 * 1152)) << "31, and 30 with a draft";
  }
}

TEST(DeploymentPlan, GroupsOfRequestsAndCopiesMultiplyWhatFits) {
  const ModelConfig llama = samples::grouped("llama", 4, 8, 8, 64);
  const Deployment one{.pool_bytes = 1_GiB, .context_tokens = 4096, .parallel = {.tensor = 2}};
  Deployment many = one;
  many.parallel = {.tensor = 8, .data_attention = 4};
  many.gpus = 16;
  const CapacityPlan alone = plan_of(llama, one);
  const CapacityPlan groups = plan_of(llama, many);
  EXPECT_EQ(groups.ranks[0].concurrency, alone.ranks[0].concurrency) << "two ranks share heads";
  EXPECT_EQ(groups.copies, 2u);
  EXPECT_EQ(groups.concurrency_total, 8 * alone.ranks[0].concurrency);
  many.gpus = 12;
  EXPECT_THAT(refusal(llama, many), HasSubstr("gpus is 12; allowed: multiples of 8"));
}

TEST(DeploymentPlan, ThePoolIsWhatTheWeightsLeave) {
  Hardware gpu;
  gpu.memory_bytes = 80_GiB;
  const CapacityPlan plan = plan_of(samples::deepseek_v3(), {.context_tokens = 8192,
                                                             .parallel = {.tensor = 8},
                                                             .hardware = gpu,
                                                             .memory_share = Rational::of(9, 10),
                                                             .reserve_bytes = 2_GiB,
                                                             .weight_bytes = 320_GiB});
  EXPECT_EQ(plan.ranks[0].weight_bytes, 40_GiB) << "no shapes are known: divided evenly";
  EXPECT_EQ(plan.ranks[0].pool_bytes, 72_GiB - 40_GiB - 2_GiB);
  EXPECT_EQ(plan.ranks[0].pool->groups[0].blocks, 30_GiB / (64u * 70'272));
  EXPECT_FALSE(plan.are_weights_estimated);
  EXPECT_THAT(plan.notes, testing::Contains(HasSubstr("divide evenly among 8 GPUs")));
}

TEST(DeploymentPlan, WeightsThatFillTheMemoryAreRefusedWithTheFigures) {
  Hardware gpu;
  gpu.memory_bytes = 10_GiB;
  EXPECT_THAT(refusal(preset("llama-3-8b"), {.hardware = gpu}),
              AllOf(HasSubstr("Invalid"), HasSubstr("weights are 14.96 GiB"),
                    HasSubstr("less than 9.200 GiB")));
}

TEST(DeploymentPlan, WhereWeightsCannotBeCountedANoteSaysWhyThereIsNoPool) {
  Hardware gpu;
  gpu.memory_bytes = 80_GiB;
  const CapacityPlan plan = plan_of(samples::deepseek_v3(), {.hardware = gpu});
  EXPECT_FALSE(plan.ranks[0].pool);
  EXPECT_FALSE(plan.concurrency_total);
  EXPECT_THAT(plan.notes, testing::Contains(AllOf(HasSubstr("no pool"), HasSubstr("--weights"))));
}

TEST(DeploymentPlan, ATotalThatIsDividedEvenlyIsNotCalledUncounted) {
  const CapacityPlan plan =
      plan_of(samples::deepseek_v3(), {.parallel = {.tensor = 8}, .weight_bytes = 320_GiB});
  EXPECT_THAT(plan.notes, testing::Contains(AllOf(
                              HasSubstr("divide evenly among 8 GPUs: shapes of the weights of"),
                              testing::Not(HasSubstr("give --weights")))));
}

// A model.safetensors of zeros gave an 80-layer model 122 KiB of weights a rank, without a word.
TEST(DeploymentPlan, ATotalFarFromTheShapesIsANote) {
  const std::uint64_t estimate = 16'060'522'496;  // Llama-3-8B's index: 16 x 1,003,782,656
  const auto notes = [](std::uint64_t bytes, std::uint32_t layers) {
    return plan_of(preset("llama-3-8b"),
                   {.layers = layers, .weight_bytes = bytes, .weights_source = "an index"})
        .notes;
  };
  const auto far = testing::Contains(
      HasSubstr("B (an index) differ from the 16060522496 B that the config's shapes give"));
  for (const std::uint32_t layers : {0u, 1u}) {
    EXPECT_THAT(notes(16, layers), far);
    EXPECT_THAT(notes(estimate / 16 - 1, layers), far);
    EXPECT_THAT(notes(estimate / 16, layers), testing::Not(far));
    EXPECT_THAT(notes(estimate * 64, layers), testing::Not(far));
    EXPECT_THAT(notes(estimate * 64 + 1, layers), far);
  }
  EXPECT_THAT(refusal(preset("llama-3-8b"), {.weight_bytes = 0}),
              HasSubstr("weight_bytes is 0; allowed: at least 1"));
}

TEST(DeploymentPlan, TowersThatTheWeightsLeaveOutAreANote) {
  EXPECT_THAT(plan_of(preset("gemma-4-e2b"), {}).notes, testing::Contains(HasSubstr("towers")));
  EXPECT_THAT(plan_of(preset("gemma-4-e2b"), {.weight_bytes = 10_GiB}).notes,
              testing::Not(testing::Contains(HasSubstr("towers"))))
      << "a total that is given has them";
}

TEST(DeploymentPlan, EstimatedWeightsOfAWholeGpuAreTheModels) {
  // 8,030,261,248 parameters (Llama-3-8B's safetensors index), 2 bytes each.
  Hardware gpu;
  gpu.memory_bytes = 80_GiB;
  const CapacityPlan plan = plan_of(preset("llama-3-8b"), {.hardware = gpu});
  EXPECT_TRUE(plan.are_weights_estimated);
  EXPECT_EQ(plan.weight_bytes, 16'060'522'496u);
  EXPECT_EQ(plan.ranks[0].pool_bytes, 80_GiB * 92 / 100 - 16'060'522'496);
}

TEST(DeploymentPlan, RepeatedAttentionWeightsTakeMoreOfEachRank) {
  const auto weights = [](std::uint32_t groups) {
    return *plan_of(preset("deepseek-v3"), {.parallel = {.tensor = 8, .data_attention = groups}})
                .ranks[0]
                .weight_bytes;
  };
  EXPECT_GT(weights(8), weights(1));
}

TEST(DeploymentPlan, ARankOfManyGpusIsBoundByMemoryBandwidth) {
  Hardware gpu;
  gpu.bandwidth_bytes_per_second = 3'350'000'000'000;
  gpu.bf16_flops = 989'000'000'000'000;
  const CapacityPlan plan = plan_of(
      samples::deepseek_v3(), {.at_tokens = {8192}, .parallel = {.tensor = 16}, .hardware = gpu});
  ASSERT_TRUE(plan.ranks[0].roofline);
  EXPECT_EQ(plan.ranks[0].roofline->bound, Bound::kBandwidth);
  EXPECT_NEAR(plan.ranks[0].flop_per_byte.approximate(), 15.11, 0.01);
  EXPECT_NEAR(plan.ranks[0].roofline->ridge.approximate(), 295.2, 0.1);
  EXPECT_EQ(plan.step_context_tokens, 8192u);
}

}  // namespace
}  // namespace emblema
