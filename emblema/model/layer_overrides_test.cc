// per_layer_config, as transformers 5.24.0 writes it for any model. The first case is Gemma-4's
// (Gemma4TextConfig); what each field replaces is read off PreTrainedConfig.per_layer_config.
#include "emblema/model/layer_overrides.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/model/model_config_testing.h"

namespace emblema {
namespace {

using namespace model_testing;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Four layers of 8 query and 4 KV heads of 64.
std::string grouped(const std::string& overrides, const std::string& members = "") {
  return R"({"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "head_dim": 64,
             "num_attention_heads": 8, "num_key_value_heads": 4, "rope_theta": 10000)" +
         members + R"(, "per_layer_config": )" + overrides + "}";
}

TEST(LayerOverrides, HeadsAndWidthsOfSingleLayers) {
  const auto config = parsed(grouped(
      R"({"01": {"head_dim": 128, "num_key_value_heads": 2}, "3": {"num_attention_heads": 16}})"));
  ASSERT_EQ(config.layers.size(), 4u);
  EXPECT_EQ(config.layers[0].head_dim, 64u);
  EXPECT_EQ(config.layers[1].head_dim, 128u);
  EXPECT_EQ(config.layers[1].v_head_dim, 128u) << "one width for both, as nothing says otherwise";
  EXPECT_EQ(config.layers[1].num_key_value_heads, 2u);
  EXPECT_EQ(config.layers[1].rope.rotary_dim, 128u) << "the wider head rotates as a whole";
  EXPECT_EQ(config.layers[2].rope.rotary_dim, 64u);
  EXPECT_EQ(config.layers[3].num_attention_heads, 16u);
  EXPECT_EQ(config.num_attention_heads, 16u) << "of the widest layer";
  // 64-wide: layers 0, 2 and 3 with 4 KV heads; 128-wide: layer 1 with 2.
  EXPECT_EQ(growing_bytes(config), 2ull * (3 * 4 * (64 + 64) + 2 * (128 + 128)));
}

TEST(LayerOverrides, WidthsOfValuesAreApart) {
  const auto config = parsed(
      grouped(R"({"0": {"head_dim": 96, "v_head_dim": 32}, "1": {"v_head_dim": 48}, "2": null})"));
  EXPECT_EQ(config.layers[0].head_dim, 96u);
  EXPECT_EQ(config.layers[0].v_head_dim, 32u);
  EXPECT_EQ(config.layers[1].head_dim, 64u);
  EXPECT_EQ(config.layers[1].v_head_dim, 48u);
  EXPECT_EQ(config.layers[2].v_head_dim, 64u);
  const auto apart = parsed(grouped(R"({"0": {"head_dim": 96}})", R"(, "v_head_dim": 32)"));
  EXPECT_EQ(apart.layers[0].v_head_dim, 32u) << "values had a width of their own before";
}

TEST(LayerOverrides, AnEmptyOneSaysThatAllLayersAreAlike) {
  const std::string gemma4 = R"({"model_type": "gemma4_text", "num_hidden_layers": 6,
      "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
      "sliding_window": 512, "max_position_embeddings": 8192)";
  const auto written = parsed(gemma4 + R"(, "per_layer_config": {}})");
  EXPECT_EQ(written.layers[5].head_dim, 256u);
  EXPECT_THAT(written.notes, Not(Contains(HasSubstr("global_head_dim"))));
  EXPECT_EQ(parsed(gemma4 + "}").layers[5].head_dim, 512u) << "the class's, where none is written";
}

TEST(LayerOverrides, LatentsTakeQueryHeadsAlone) {
  const std::string latent = R"({"model_type": "deepseek_v3", "num_hidden_layers": 2,
      "hidden_size": 512, "num_attention_heads": 8, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
      "qk_nope_head_dim": 128, "v_head_dim": 128, "per_layer_config": )";
  const auto config =
      parsed(latent + R"({"1": {"num_attention_heads": 4, "num_key_value_heads": 4}}})");
  EXPECT_EQ(config.layers[0].num_attention_heads, 8u);
  EXPECT_EQ(config.layers[1].num_attention_heads, 4u);
  // Dots3-Note: a rank of its own for the layers that slide.
  const auto error = refused(latent + R"({"1": {"kv_lora_rank": 1024}}})");
  EXPECT_EQ(error.code, ErrorCode::Unsupported);
  EXPECT_THAT(error.message, HasSubstr("per_layer_config.1.kv_lora_rank is 1024"));
}

TEST(LayerOverrides, WhatIsNotReadIsRefusedByItsName) {
  for (const std::string member :
       {R"("sliding_window": 128)", R"("attention_chunk_size": 64)", R"("skip": ["mlp"])",
        R"("qk_nope_head_dim": 64)", R"("never_heard_of": true)"}) {
    const auto error = refused(grouped(R"({"2": {)" + member + "}}"));
    EXPECT_EQ(error.code, ErrorCode::Unsupported) << member;
    const std::string name = member.substr(1, member.find('"', 1) - 1);
    EXPECT_THAT(error.message, HasSubstr("per_layer_config.2." + name + " is "));
  }
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"({"4": {}})", "per_layer_config.4 is no layer; allowed: 0 to 3"},
      {R"({"-1": {}})", "per_layer_config.-1 is no layer"},
      {R"({"1x": {}})", "per_layer_config.1x is no layer"},
      {R"({"1": {}, "01": {}})", "per_layer_config.01 is no layer; allowed: 0 to 3, each once"},
      {R"({"1": 4})", "per_layer_config.1 is 4; allowed: an object"},
      {R"([])", "per_layer_config is a list of 0; allowed: an object"},
      {R"({"1": {"head_dim": 0}})", "per_layer_config.1.head_dim is 0"},
      {R"({"1": {"num_key_value_heads": 3}})",
       "per_layer_config.1.num_key_value_heads gives 3 KV heads for 8 query heads"},
  };
  for (const auto& [overrides, named] : bad) {
    const auto error = refused(grouped(overrides));
    EXPECT_EQ(error.code, ErrorCode::Invalid) << overrides;
    EXPECT_THAT(error.message, HasSubstr(named));
  }
}

TEST(LayerOverrides, LayersThatDifferInTheirWeightsAloneKeepTheSame) {
  const std::string sized = R"(, "vocab_size": 1000, "intermediate_size": 512)";
  const auto config = parsed(grouped(R"({"03": {"intermediate_size": 256}})", sized));
  EXPECT_EQ(growing_bytes(config), growing_bytes(parsed(grouped("{}", sized))));
  EXPECT_FALSE(config.weights);
  EXPECT_EQ(config.weights_missing,
            "per_layer_config.03.intermediate_size makes a layer differ in its weights");
  EXPECT_TRUE(parsed(grouped("{}", sized)).weights);
}

}  // namespace
}  // namespace emblema
