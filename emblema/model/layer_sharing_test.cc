// Layers that read keys and values of another layer or of an encoder. Rules: the modelling classes
// of transformers named per test.
#include "emblema/model/layer_sharing.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emblema {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Result<ModelConfig> read(const std::string& model_type, int layers, const std::string& members) {
  return parse_model_config(R"({"model_type": ")" + model_type + R"(", "hidden_size": 2048,
      "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "sliding_window": 512,
      "num_hidden_layers": )" + std::to_string(layers) +
                                (members.empty() ? "" : ", " + members) + "}",
                            "test");
}

// The donor of every layer; a layer with rows of its own gives itself.
std::vector<std::size_t> donors_of(const Result<ModelConfig>& config) {
  std::vector<std::size_t> donors;
  EXPECT_TRUE(config) << config.error().message;
  for (std::size_t layer = 0; config && layer < config->layers.size(); ++layer) {
    const LayerFacts& facts = config->layers[layer];
    donors.push_back(facts.cache == LayerCache::kShared ? facts.shares_with : layer);
  }
  return donors;
}

// gemma.cpp pull 1012, candle pull 3488: layers that reuse another's keys were given caches.
// Gemma3nTextAttention: the donor is the last layer of the same type that has its own.
TEST(LayerSharing, TheLastLayersOfGemma3nReadTheLastOfTheirKind) {
  const auto config = read("gemma3n_text", 10, R"("num_kv_shared_layers": 4)");
  EXPECT_THAT(donors_of(config), ElementsAre(0, 1, 2, 3, 4, 5, 5, 5, 5, 4));
  EXPECT_EQ(config->layers[9].reach, LayerReach::kFull);
  EXPECT_EQ(config->layers[8].window_tokens, 512u);
  EXPECT_EQ(config->query_pre_attn_scalar, 1.0) << "its logits are not divided";
  EXPECT_THAT(donors_of(read("gemma3n_text", 5, R"("num_kv_shared_layers": 0)")),
              ElementsAre(0, 1, 2, 3, 4));
  const auto none_like_it = read("gemma3n_text", 5, R"("num_kv_shared_layers": 1)");
  ASSERT_FALSE(none_like_it);
  EXPECT_THAT(none_like_it.error().message, HasSubstr("none of the first 4 layers attends like "
                                                      "layer 4"));
  const auto all = read("gemma3n_text", 5, R"("num_kv_shared_layers": 5)");
  ASSERT_FALSE(all);
  EXPECT_THAT(all.error().message, HasSubstr("num_kv_shared_layers is 5"));
}

// Where no position can fill the window, sliding layers see everything, and still have keys that
// turn by another base (Gemma-3n) or are half as wide (Gemma-4).
TEST(LayerSharing, AWindowThatIsNeverFilledChangesNoDonor) {
  EXPECT_THAT(donors_of(read("gemma3n_text", 10,
                             R"("num_kv_shared_layers": 4, "max_position_embeddings": 512)")),
              ElementsAre(0, 1, 2, 3, 4, 5, 5, 5, 5, 4));
  EXPECT_THAT(donors_of(read("gemma4_text", 12,
                             R"("num_kv_shared_layers": 6, "max_position_embeddings": 512,
                                "global_head_dim": 512)")),
              ElementsAre(0, 1, 2, 3, 4, 5, 4, 4, 4, 4, 4, 5));
}

// Gemma4TextAttention: full layers have global_head_dim, and fewer KV heads where values are keys.
TEST(LayerSharing, Gemma4HasTwoGeometries) {
  const auto config = read("gemma4_text", 6, R"("global_head_dim": 512, "attention_k_eq_v": true,
                                                "num_global_key_value_heads": 1)");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->layers[0].head_dim, 256u);
  EXPECT_EQ(config->layers[0].num_key_value_heads, 2u);
  EXPECT_EQ(config->layers[5].head_dim, 512u);
  EXPECT_EQ(config->layers[5].num_key_value_heads, 1u);
  EXPECT_EQ(config->layers[5].rope.scaling, RopeScaling::kProportional);
  EXPECT_EQ(config->layers[5].rope.rotary_dim, 512u) << "pairs lie half a head apart";
  EXPECT_EQ(config->layers[5].rope.partial_rotary_factor, 0.25);
  EXPECT_EQ(config->layers[0].rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(config->layers[0].rope.theta, 10'000.0);
  EXPECT_EQ(config->layers[5].rope.theta, 1e6);
  const auto plain = read("gemma4_text", 6, "");
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->layers[5].head_dim, 512u);
  EXPECT_EQ(plain->layers[5].num_key_value_heads, 2u);
}

TEST(LayerSharing, GroupsOfHunyuanLayersUseTheKeysOfTheirFirst) {
  EXPECT_THAT(donors_of(read("hunyuan", 5, R"("use_cla": true, "cla_share_factor": 2)")),
              ElementsAre(0, 0, 2, 2, 4));
  EXPECT_THAT(donors_of(read("hunyuan", 4, R"("cla_share_factor": 4)")), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(donors_of(read("hunyuan", 3, R"("use_cla": false, "cla_share_factor": 2)")),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(donors_of(read("hunyuan", 3, R"("use_cla": true)")), ElementsAre(0, 0, 2));
}

TEST(LayerSharing, CrossAttentionLayersOfMllamaHoldImageRows) {
  const auto config = read("mllama_text_model", 4, R"("cross_attention_layers": [1, 3])");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->layers[0].cache, LayerCache::kOwn);
  EXPECT_EQ(config->layers[1].cache, LayerCache::kCross);
  EXPECT_FALSE(config->layers[1].has_rope);
  EXPECT_EQ(config->encoder_positions, 0u);
  const auto beyond = read("mllama_text_model", 4, R"("cross_attention_layers": [4])");
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().message, HasSubstr("cross_attention_layers[0] is 4"));
}

// Whisper-large-v3-turbo: 32 layers of an encoder, 4 of a decoder.
TEST(LayerSharing, ADecoderIsReadByItsOwnNamesNotItsEncoders) {
  const auto whisper = parse_model_config(
      R"({"model_type": "whisper", "num_hidden_layers": 32, "encoder_layers": 32,
          "decoder_layers": 4, "encoder_attention_heads": 16, "decoder_attention_heads": 20,
          "num_attention_heads": 16, "d_model": 1280, "max_source_positions": 1500,
          "max_target_positions": 448, "is_encoder_decoder": true})",
      "test");
  ASSERT_TRUE(whisper) << whisper.error().message;
  EXPECT_EQ(whisper->num_hidden_layers, 4u);
  EXPECT_EQ(whisper->num_attention_heads, 20u);
  EXPECT_EQ(whisper->encoder_positions, 1500u);
  EXPECT_TRUE(whisper->layers[0].has_cross_attention);
  EXPECT_FALSE(whisper->layers[0].has_rope);
  const auto t5 = parse_model_config(
      R"({"model_type": "t5", "d_kv": 64, "d_model": 512, "num_heads": 6, "num_layers": 8,
          "num_decoder_layers": 3, "is_encoder_decoder": true})",
      "test");
  ASSERT_TRUE(t5) << t5.error().message;
  EXPECT_EQ(t5->num_hidden_layers, 3u);
  EXPECT_EQ(t5->layers[0].head_dim, 64u) << "not 512 / 6";
  EXPECT_EQ(t5->encoder_positions, 0u);
  EXPECT_THAT(t5->notes, Contains(HasSubstr("one row per encoder token")));
}

// T5Gemma and TrOCR: the decoder is an object of its own.
TEST(LayerSharing, ADecoderMayStandBesideItsEncoder) {
  const auto config = parse_model_config(
      R"({"model_type": "t5gemma", "is_encoder_decoder": true,
          "encoder": {"num_hidden_layers": 26, "num_attention_heads": 4, "hidden_size": 64},
          "decoder": {"model_type": "t5_gemma_module", "num_hidden_layers": 2, "hidden_size": 2304,
                      "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                      "sliding_window": 4096,
                      "layer_types": ["sliding_attention", "full_attention"]}})",
      "test");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->num_hidden_layers, 2u);
  EXPECT_EQ(config->layers[0].window_tokens, 4096u);
  EXPECT_TRUE(config->layers[0].has_cross_attention && config->layers[1].has_cross_attention);
}

}  // namespace
}  // namespace emblema
