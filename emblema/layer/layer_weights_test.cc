#include "emblema/layer/layer_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/layer/small_layers_testing.h"

namespace emblema {
namespace {

using small_layers::grouped;
using Described = small_layers::Made;

Described latent() {
  return small_layers::latent(10);
}

LayerWeights made(const Described& d, std::uint64_t seed, std::uint32_t layer) {
  return LayerWeights::seeded(LayerDims::from(d.model, d.layer).value(), d.layer.has_sinks, seed,
                              layer)
      .value();
}

TEST(LayerWeights, BytesAreCountedBeforeTheyAreTaken) {
  // 10 x 24 + 10, 30 x 10, 20 x 24, 16, 18 x 16, 15 x 16, 24 x 15
  EXPECT_EQ(weight_bytes(latent().model, latent().layer).value(), 4u * 1934);
  // 48 x 24, (16 + 10) x 24, 24 x 30, and 6 sinks
  Described d = grouped();
  EXPECT_EQ(weight_bytes(d.model, d.layer).value(), 4u * 2496);
  d.layer.has_sinks = true;
  EXPECT_EQ(weight_bytes(d.model, d.layer).value(), 4u * 2502);
}

TEST(LayerWeights, DeepSeekV3TakesAHundredAndEightySevenMillionNumbersALayer) {
  Described d = latent();
  d.model.hidden_size = 7168;
  d.model.q_lora_rank = 1536;
  d.model.kv_lora_rank = 512;
  d.model.qk_nope_head_dim = 128;
  d.model.qk_rope_head_dim = 64;
  d.model.v_head_dim = 128;
  d.layer.query_heads = 128;
  d.layer.key_dim = 576;
  d.layer.value_dim = 512;
  d.layer.rope.rotary_dim = 64;
  // The attention parameters of one layer of the published model (with its two norms).
  EXPECT_EQ(weight_bytes(d.model, d.layer).value(), 4u * 187'107'328);
}

TEST(LayerWeights, SameSeedSameBitsAndLayersDiffer) {
  const LayerWeights a = made(latent(), 42, 0);
  // Uniform numbers of stream 3 times the fp32 square root of 3/24, computed in Python.
  EXPECT_EQ(a.row_down[0], 0x1.1d0256p-3F);
  EXPECT_EQ(a.row_down[1], 0x1.537578p-3F);
  EXPECT_EQ(a.row_down[2], -0x1.0ea4d8p-2F);
  EXPECT_EQ(a.row_down, made(latent(), 42, 0).row_down);
  EXPECT_NE(a.row_down, made(latent(), 42, 1).row_down);
  EXPECT_NE(a.row_down, made(latent(), 43, 0).row_down);
  EXPECT_NE(a.key_up[0], a.value_up[0]);
}

TEST(LayerWeights, OnlyWhatTheLayerHasIsMade) {
  Described d = latent();
  d.model.q_lora_rank.reset();
  const LayerWeights straight = made(d, 1, 0);
  EXPECT_TRUE(straight.query_down.empty());
  EXPECT_TRUE(straight.query_norm.empty());
  EXPECT_EQ(straight.query_up.size(), 30u * 24);
  EXPECT_TRUE(straight.sinks.empty());
  d = grouped();
  d.layer.has_sinks = true;
  const LayerWeights plain = made(d, 1, 0);
  EXPECT_TRUE(plain.key_up.empty());
  EXPECT_TRUE(plain.latent_norm.empty());
  EXPECT_EQ(plain.sinks.size(), 6u);
}

std::string refusal(const Described& d) {
  const Result<std::uint64_t> bytes = weight_bytes(d.model, d.layer);
  return bytes ? "accepted" : bytes.error().describe();
}

TEST(LayerDims, WidthsThatDoNotFitAreNamed) {
  const auto with = [](Described d, auto change) {
    change(d);
    return refusal(d);
  };
  using testing::HasSubstr;
  EXPECT_THAT(with(latent(), [](auto& d) { d.layer.key_dim = 21; }),
              HasSubstr("key_dim is 21; allowed: kv_lora_rank + qk_rope_head_dim = 20"));
  EXPECT_THAT(with(latent(), [](auto& d) { d.model.q_lora_rank = 0; }), HasSubstr("q_lora_rank"));
  EXPECT_THAT(with(latent(), [](auto& d) { d.layer.rope.rotary_dim = 6; }),
              HasSubstr("rotary_dim is 6; allowed: 2 to 4"));
  EXPECT_THAT(with(grouped(), [](auto& d) { d.layer.kv_heads = 4; }),
              HasSubstr("query_heads is 6; allowed: a multiple of kv_heads = 4"));
  EXPECT_THAT(with(grouped(), [](auto& d) { d.layer.kv_heads = 0; }), HasSubstr("kv_heads is 0"));
  EXPECT_THAT(with(grouped(), [](auto& d) { d.model.hidden_size = 0; }),
              HasSubstr("hidden_size is not given by the config; allowed: 1 to 16777216"));
  EXPECT_THAT(with(grouped(), [](auto& d) { d.layer.scale = 0; }), HasSubstr("softmax scale is 0"));
  EXPECT_THAT(with(grouped(), [](auto& d) { d.layer.softcap = -1; }), HasSubstr("softcap is -1"));
}

TEST(LayerDims, WeightsPastSixtyFourBitsAreRefused) {
  Described d = grouped();
  d.model.hidden_size = 1U << 31;
  d.layer.query_heads = d.layer.kv_heads = 1U << 16;
  d.layer.key_dim = d.layer.value_dim = 1U << 24;
  EXPECT_THAT(refusal(d), testing::StartsWith("Invalid"));
}

TEST(LayerDims, AttentionWithoutProjectionsIsUnsupportedByName) {
  Described d = grouped();
  d.model.family = AttentionFamily::kCompressed;
  d.model.model_type = "deepseek_v4";
  EXPECT_THAT(refusal(d), testing::AllOf(testing::StartsWith("Unsupported"),
                                         testing::HasSubstr("deepseek_v4")));
  d = latent();
  Stream indexer;
  indexer.role = StreamRole::kIndexer;
  d.layer.streams = {indexer};
  EXPECT_THAT(refusal(d), testing::StartsWith("Unsupported: layer 0"));
}

}  // namespace
}  // namespace emblema
