// One rank's part of a model. Figures are products written out; those of Qwen3-Next are the page
// sizes that vLLM's own planner (073c510c, 2026-08) gives under tensor parallelism.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/geometry/model_geometry.h"
#include "emblema/geometry/tensor_share.h"
#include "test/model_samples.h"

namespace emblema {
namespace {

using samples::grouped;
using testing::AllOf;
using testing::HasSubstr;

ModelGeometry geometry_of(const ModelConfig& model, const GeometryOptions& options = {}) {
  auto geometry = ModelGeometry::from(model, options);
  EXPECT_TRUE(geometry) << geometry.error().describe();
  return *geometry;
}

std::string refusal(const ModelConfig& model, const GeometryOptions& options) {
  const auto geometry = ModelGeometry::from(model, options);
  return geometry ? "it was accepted" : geometry.error().describe();
}

std::uint64_t bytes_per_token(const ModelConfig& model, std::uint32_t tensor_parallel) {
  return geometry_of(model, {.tensor_parallel = tensor_parallel})
      .growing_bytes_per_token()
      ->floor();
}

TEST(RankGeometry, KvHeadsDivideDownToOneAndAreThenRepeated) {
  const ModelConfig llama = grouped("llama-3-70b", 80, 64, 8, 128);
  for (const std::uint32_t ranks : {1u, 2u, 4u, 8u}) {
    EXPECT_EQ(bytes_per_token(llama, ranks), 327'680u / ranks) << ranks;
  }
  EXPECT_EQ(bytes_per_token(llama, 16), 40'960u) << "one head a rank, repeated";
  EXPECT_EQ(bytes_per_token(llama, 64), 40'960u);
}

TEST(RankGeometry, LatentsAndIndexKeysAreWholeOnEveryRank) {
  for (const std::uint32_t ranks : {1u, 2u, 8u, 128u}) {
    EXPECT_EQ(bytes_per_token(samples::deepseek_v3(), ranks), 70'272u) << ranks;
    EXPECT_EQ(bytes_per_token(samples::deepseek_v3_2(), ranks), 61u * (1152 + 256)) << ranks;
  }
  const ModelGeometry rank = geometry_of(samples::deepseek_v3(), {.tensor_parallel = 8});
  EXPECT_EQ(rank.layers()[0].query_heads, 16u);
  EXPECT_EQ(rank.layers()[0].kv_heads, 1u);
}

TEST(RankGeometry, TheKindIsTheModelsWhateverARankHolds) {
  const ModelGeometry rank =
      geometry_of(grouped("llama-3-70b", 80, 64, 8, 128), {.tensor_parallel = 8});
  EXPECT_EQ(rank.layers()[0].kind, "gqa");
  EXPECT_EQ(rank.layers()[0].kv_heads, 1u);
  EXPECT_EQ(rank.layers()[0].query_heads, 8u);
}

TEST(RankGeometry, HeadsThatDoNotDivideAreRefusedByName) {
  EXPECT_THAT(refusal(grouped("qwen2-vl", 28, 28, 4, 128), {.tensor_parallel = 8}),
              AllOf(HasSubstr("layer 0"), HasSubstr("tensor_parallel is 8"), HasSubstr("28")));
  EXPECT_THAT(refusal(grouped("six", 2, 24, 6, 128), {.tensor_parallel = 4}),
              AllOf(HasSubstr("tensor_parallel is 4"), HasSubstr("a multiple of 6")));
  EXPECT_THAT(refusal(grouped("m", 2, 8, 8, 128), {.tensor_parallel = 0}),
              HasSubstr("tensor_parallel is 0"));
  EXPECT_THAT(refusal(grouped("m", 2, 8, 8, 128), {.tensor_parallel = 2, .tensor_rank = 2}),
              HasSubstr("tensor_rank is 2"));
}

std::uint64_t qwen3_next_state(std::uint32_t ranks, StateDtype dtype) {
  const auto model = load_model_config("qwen3-next-80b-a3b");
  EXPECT_TRUE(model) << model.error().describe();
  const ModelGeometry rank = geometry_of(*model, {.state_dtype = dtype, .tensor_parallel = ranks});
  return *rank.state_bytes_per_sequence() / 36;
}

TEST(RankGeometry, GatedDeltaStateDividesByHeads) {
  EXPECT_EQ(qwen3_next_state(1, StateDtype::kBf16), 1'097'728u);
  EXPECT_EQ(qwen3_next_state(2, StateDtype::kBf16), 548'864u);
  EXPECT_EQ(qwen3_next_state(4, StateDtype::kBf16), 274'432u);
  EXPECT_EQ(qwen3_next_state(1, StateDtype::kFp32), 2'146'304u);
}

LayerFacts mamba2(std::uint32_t groups) {
  LayerFacts layer;
  layer.cache = LayerCache::kNone;
  layer.recurrent = {.mixer = RecurrentMixer::kMamba2,
                     .conv_channels = 64 * 64 + 2 * groups * 128,
                     .conv_columns = 3,
                     .state_heads = 64,
                     .state_rows = 64,
                     .state_columns = 128};
  return layer;
}

TEST(RankGeometry, Mamba2GroupsDivideDownToOneAndAreThenRepeated) {
  EXPECT_EQ(tensor_share(mamba2(8), 4)->recurrent.conv_channels, 16u * 64 + 2 * 2 * 128);
  EXPECT_EQ(tensor_share(mamba2(8), 4)->recurrent.state_heads, 16u);
  EXPECT_EQ(tensor_share(mamba2(1), 4)->recurrent.conv_channels, 16u * 64 + 2 * 128);
  EXPECT_THAT(tensor_share(mamba2(6), 4).error().message, HasSubstr("groups of the Mamba-2 state"));
  EXPECT_THAT(tensor_share(mamba2(8), 128).error().message, HasSubstr("state heads"));
}

TEST(RankGeometry, Mamba1StateDividesByChannels) {
  LayerFacts layer;
  layer.cache = LayerCache::kNone;
  layer.recurrent = {.mixer = RecurrentMixer::kMamba1,
                     .conv_channels = 8192,
                     .conv_columns = 3,
                     .state_heads = 1,
                     .state_rows = 8192,
                     .state_columns = 16};
  const auto own = tensor_share(layer, 8);
  EXPECT_EQ(own->recurrent.state_rows, 1024u);
  EXPECT_EQ(own->recurrent.conv_channels, 1024u);
  EXPECT_FALSE(tensor_share(layer, 3));
}

TEST(RankGeometry, AStageHoldsItsLayersAndNumbersThemAsTheModelDoes) {
  const ModelGeometry stage =
      geometry_of(samples::gpt_oss_120b(), {.layers = 5, .first_layer = 31});
  ASSERT_EQ(stage.layers().size(), 5u);
  EXPECT_EQ(stage.layers()[0].index, 0u);
  EXPECT_EQ(stage.layers()[0].model_layer, 31u);
  EXPECT_EQ(stage.layers()[4].model_layer, 35u);
  EXPECT_EQ(stage.layers()[0].window_tokens, 0u) << "odd layers see everything";
  EXPECT_EQ(stage.layers()[1].window_tokens, 128u);
  EXPECT_EQ(geometry_of(samples::gpt_oss_120b(), {.first_layer = 30}).layers().size(), 6u);
}

TEST(RankGeometry, AStageBeyondTheModelIsRefused) {
  const ModelConfig model = grouped("ten", 10, 4, 2, 64);
  EXPECT_THAT(refusal(model, {.first_layer = 10}), HasSubstr("first_layer is 10; allowed: 0 to 9"));
  EXPECT_THAT(refusal(model, {.layers = 4, .first_layer = 7}),
              HasSubstr("layers is 4; allowed: 1 to 3"));
}

TEST(RankGeometry, SharedRowsMustLieInTheSameStage) {
  ModelConfig model = grouped("sharing", 6, 4, 2, 64);
  model.layers[4].cache = LayerCache::kShared;
  model.layers[4].shares_with = 2;
  const ModelGeometry stage = geometry_of(model, {.first_layer = 2});
  EXPECT_EQ(stage.layers()[2].shares_with, 0u);
  EXPECT_THAT(refusal(model, {.first_layer = 3}),
              AllOf(HasSubstr("layer 4"), HasSubstr("the rows of layer 2")));
}

std::string fingerprint(const ModelConfig& model, const GeometryOptions& options) {
  return geometry_of(model, options).fingerprint().hex();
}

TEST(RankGeometry, RanksThatHoldDifferentHeadsAreNotInterchangeable) {
  const ModelConfig llama = grouped("llama", 4, 8, 8, 64);
  const std::string first = fingerprint(llama, {.tensor_parallel = 2, .tensor_rank = 0});
  EXPECT_NE(first, fingerprint(llama, {.tensor_parallel = 2, .tensor_rank = 1}));
  EXPECT_NE(first, fingerprint(llama, {}));
  // A latent is the same on every rank and under any tensor parallelism.
  const ModelConfig v3 = samples::deepseek_v3();
  EXPECT_EQ(fingerprint(v3, {}), fingerprint(v3, {.tensor_parallel = 8, .tensor_rank = 3}));
  // Layers of another stage are not.
  EXPECT_NE(fingerprint(v3, {.layers = 30}), fingerprint(v3, {.layers = 30, .first_layer = 30}));
}

}  // namespace
}  // namespace emblema
