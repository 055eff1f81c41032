// Rotary facts. Sources named per test; the numbers themselves are computed in geometry and layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/model/model_config.h"

namespace emblema {
namespace {

using testing::Contains;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;

// A model of that type with 4 layers and heads of 64, latents switched off, and more members put
// in.
Result<ModelConfig> read(const std::string& model_type, const std::string& members) {
  return parse_model_config(R"({"model_type": ")" + model_type + R"(", "hidden_size": 256,
      "num_attention_heads": 4, "head_dim": 64, "num_hidden_layers": 4, "use_mla": false)" +
                                (members.empty() ? "" : ", " + members) + "}",
                            "test");
}

RopeFacts rope_of(const std::string& model_type, const std::string& members,
                  std::size_t layer = 0) {
  const auto config = read(model_type, members);
  EXPECT_TRUE(config) << config.error().message;
  if (!config) return {};
  EXPECT_TRUE(config->layers[layer].has_rope);
  return config->layers[layer].rope;
}

std::string refusal(const std::string& model_type, const std::string& members) {
  const auto config = read(model_type, members);
  return config ? "it was read" : config.error().describe();
}

// sglang pull 34788, mlx-lm pull 1189: YaRN left on in window-only layers of DeepSeek-V4, or the
// plain base used in compressed ones.
TEST(LayerRope, DeepSeekV4RotatesWindowOnlyAndCompressedLayersDifferently) {
  const auto config = parse_model_config(
      R"({"model_type": "deepseek_v4", "num_hidden_layers": 3, "hidden_size": 1024,
          "num_attention_heads": 16, "num_key_value_heads": 1, "head_dim": 512,
          "qk_rope_head_dim": 64, "sliding_window": 128, "compress_ratios": [0, 4, 128],
          "rope_theta": 10000, "compress_rope_theta": 160000,
          "rope_scaling": {"rope_type": "yarn", "factor": 16,
            "original_max_position_embeddings": 65536, "beta_fast": 32, "beta_slow": 1}})",
      "test");
  ASSERT_TRUE(config) << config.error().message;
  const RopeFacts& plain = config->layers[0].rope;
  EXPECT_EQ(plain.theta, 10'000.0);
  EXPECT_EQ(plain.scaling, RopeScaling::kNone);
  for (const std::size_t layer : {1u, 2u}) {
    const RopeFacts& compressed = config->layers[layer].rope;
    EXPECT_EQ(compressed.theta, 160'000.0);
    EXPECT_EQ(compressed.scaling, RopeScaling::kYarn);
    EXPECT_EQ(compressed.factor, 16.0);
    EXPECT_EQ(compressed.original_max_positions, 65'536u);
    EXPECT_EQ(compressed.beta_fast, 32.0);
    EXPECT_EQ(compressed.beta_slow, 1.0);
  }
  for (const LayerFacts& layer : config->layers) {
    EXPECT_EQ(layer.rope.rotary_dim, 64u);
    EXPECT_TRUE(layer.rope.interleaved);
    EXPECT_TRUE(layer.rope.unit_amplitude) << "no mscale: cos and sin stay at 1";
  }
}

TEST(LayerRope, EveryNameOfTheBase) {
  for (const std::string key :
       {"rope_theta", "rotary_emb_base", "rope_embedding_base", "rope_base", "rotary_base"}) {
    EXPECT_EQ(rope_of("llama", "\"" + key + "\": 77000").theta, 77'000.0) << key;
  }
  EXPECT_EQ(rope_of("llama", R"("rope_parameters": {"rope_theta": 5e5})").theta, 500'000.0);
  EXPECT_EQ(rope_of("dbrx", R"("attn_config": {"rope_theta": 500000})").theta, 500'000.0);
  EXPECT_EQ(rope_of("chatglm", R"("rope_ratio": 50)").theta, 500'000.0);
  EXPECT_EQ(rope_of("llama", "").theta, 10'000.0);
  EXPECT_EQ(rope_of("gpt_oss", R"("sliding_window": 8)").theta, 150'000.0);
  EXPECT_THAT(read("llama", "")->notes, Contains(HasSubstr("rope_theta is not given: 10000")));
}

TEST(LayerRope, YarnAndItsRelatives) {
  const RopeFacts yarn = rope_of("deepseek_v2", R"("rope_scaling": {"type": "yarn", "factor": 40,
      "original_max_position_embeddings": 4096, "beta_fast": 16, "beta_slow": 2, "mscale": 0.707,
      "mscale_all_dim": 0.707})");
  EXPECT_EQ(yarn.scaling, RopeScaling::kYarn);
  EXPECT_EQ(yarn.factor, 40.0);
  EXPECT_EQ(yarn.original_max_positions, 4096u);
  EXPECT_EQ(yarn.beta_fast, 16.0);
  EXPECT_EQ(yarn.beta_slow, 2.0);
  EXPECT_EQ(yarn.mscale, 0.707);
  EXPECT_EQ(yarn.mscale_all_dim, 0.707);
  EXPECT_TRUE(yarn.truncate);
  const RopeFacts oss = rope_of("gpt_oss", R"("sliding_window": 8, "rope_scaling":
      {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096,
       "truncate": false, "attention_factor": 1.5})");
  EXPECT_FALSE(oss.truncate);
  EXPECT_EQ(oss.attention_factor, 1.5);
  EXPECT_EQ(oss.beta_fast, 32.0) << "the default";
}

TEST(LayerRope, Llama3LinearDynamicAndPlain) {
  const RopeFacts llama = rope_of("llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.5, "high_freq_factor": 4.5, "original_max_position_embeddings": 8192})");
  EXPECT_EQ(llama.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(llama.low_freq_factor, 1.5);
  EXPECT_EQ(llama.high_freq_factor, 4.5);
  EXPECT_EQ(llama.original_max_positions, 8192u);
  EXPECT_EQ(rope_of("llama", R"("rope_scaling": {"type": "linear", "factor": 2})").scaling,
            RopeScaling::kLinear);
  const RopeFacts dynamic = rope_of(
      "llama",
      R"("max_position_embeddings": 2048, "rope_scaling": {"type": "dynamic", "factor": 2})");
  EXPECT_EQ(dynamic.scaling, RopeScaling::kDynamic);
  EXPECT_EQ(dynamic.original_max_positions, 2048u);
  for (const std::string plain : {R"({"type": "mrope", "mrope_section": [16, 24, 24]})",
                                  R"({"rope_type": "default"})", "null", "{}"}) {
    EXPECT_EQ(rope_of("llama", "\"rope_scaling\": " + plain).scaling, RopeScaling::kNone) << plain;
  }
}

TEST(LayerRope, LongRopeTablesFitTheWidthThatRotates) {
  const std::string tables = R"("max_position_embeddings": 131072,
      "original_max_position_embeddings": 4096, "partial_rotary_factor": 0.125,
      "rope_scaling": {"type": "su", "short_factor": [1, 1.5, 2, 2.5],
                       "long_factor": [3, 4, 5, 6]})";
  const RopeFacts rope = rope_of("phi3", tables);
  EXPECT_EQ(rope.scaling, RopeScaling::kLongRope);
  EXPECT_EQ(rope.rotary_dim, 8u);
  EXPECT_THAT(rope.short_factor, ElementsAre(1, 1.5, 2, 2.5));
  EXPECT_THAT(rope.long_factor, ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(rope.factor, DoubleEq(32.0)) << "positions / original";
  EXPECT_THAT(refusal("phi3", R"("max_position_embeddings": 64, "rope_scaling":
                  {"type": "longrope", "short_factor": [1], "long_factor": [1]})"),
              HasSubstr("rope_scaling.short_factor is a list of 1; allowed: a list of 32"));
  EXPECT_THAT(refusal("phi3", R"("max_position_embeddings": 64, "rope_scaling": {"type": "su"})"),
              HasSubstr("short_factor is missing"));
}

TEST(LayerRope, HugeLongRopeTablesAreRefused) {
  std::string table = "1";
  for (int i = 1; i < 4096; ++i) table += ",1";
  const auto config = parse_model_config(
      R"({"num_hidden_layers": 65536, "num_attention_heads": 1, "head_dim": 8192, "rope_scaling":
          {"type": "longrope", "original_max_position_embeddings": 8,
           "short_factor": [)" +
          table + R"(], "long_factor": [)" + table + "]}}",
      "test");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("short_factor has 4096 entries for 65536 layers"));
}

TEST(LayerRope, PartOfTheHeadMayRotate) {
  EXPECT_EQ(rope_of("llama", "").rotary_dim, 64u);
  EXPECT_EQ(rope_of("llama", R"("partial_rotary_factor": 0.5)").rotary_dim, 32u);
  EXPECT_EQ(rope_of("llama", R"("rotary_pct": 0.25)").rotary_dim, 16u);
  EXPECT_EQ(rope_of("gptj", R"("rotary_dim": 32)").rotary_dim, 32u);
  EXPECT_EQ(rope_of("gptj", R"("rotary_dim": 32)").partial_rotary_factor, 0.5);
  EXPECT_EQ(
      rope_of("llama", R"("rope_parameters": {"partial_rotary_factor": 0.75}, "rope_theta": 5e5)")
          .rotary_dim,
      48u);
  EXPECT_EQ(rope_of("gpt_neox", "").rotary_dim, 16u) << "GPTNeoXConfig: a quarter";
  EXPECT_EQ(rope_of("glm4_moe", "").rotary_dim, 32u) << "Glm4MoeConfig: half";
  EXPECT_THAT(refusal("llama", R"("partial_rotary_factor": 0.05)"), HasSubstr("even number"));
  EXPECT_THAT(refusal("llama", R"("partial_rotary_factor": 1.5)"), HasSubstr("is 1.5"));
  EXPECT_THAT(refusal("gptj", R"("rotary_dim": 128)"), HasSubstr("rotary_dim is 128"));
}

TEST(LayerRope, PairsAreInterleavedWhereTheClassOrTheConfigSaysSo) {
  for (const std::string type :
       {"deepseek_v3", "gptj", "cohere", "chatglm", "glm4", "ernie4_5", "kimi_k2"}) {
    EXPECT_TRUE(rope_of(type, "").interleaved) << type;
  }
  for (const std::string type : {"llama", "qwen3", "glm4_moe", "gpt_neox", "phi", "minicpm3"}) {
    EXPECT_FALSE(rope_of(type, "").interleaved) << type;
  }
  EXPECT_FALSE(rope_of("deepseek_v3", R"("rope_interleave": false)").interleaved);
  EXPECT_TRUE(rope_of("llama", R"("rope_interleave": true)").interleaved);
}

TEST(LayerRope, SlidingLayersOfGemma3AndOlmo3AreNotScaled) {
  const std::string gemma = R"("sliding_window": 8, "sliding_window_pattern": 2,
      "rope_local_base_freq": 12345, "rope_theta": 1000000,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0})";
  EXPECT_EQ(rope_of("gemma3_text", gemma, 0).theta, 12'345.0);
  EXPECT_EQ(rope_of("gemma3_text", gemma, 0).scaling, RopeScaling::kNone);
  EXPECT_EQ(rope_of("gemma3_text", gemma, 1).theta, 1e6);
  EXPECT_EQ(rope_of("gemma3_text", gemma, 1).scaling, RopeScaling::kLinear);
  const std::string olmo = R"("sliding_window": 8, "rope_theta": 500000, "rope_scaling":
      {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192})";
  EXPECT_EQ(rope_of("olmo3", olmo, 0).scaling, RopeScaling::kNone);
  EXPECT_EQ(rope_of("olmo3", olmo, 0).theta, 500'000.0);
  EXPECT_EQ(rope_of("olmo3", olmo, 3).scaling, RopeScaling::kYarn);
}

TEST(LayerRope, ParametersMayBeGivenPerLayerType) {
  const std::string types = R"("sliding_window": 8, "layer_types": ["full_attention",
      "sliding_attention", "sliding_attention", "full_attention"], "rope_parameters": )";
  const std::string both = types + R"({"full_attention": {"rope_type": "yarn", "factor": 32.0,
      "original_max_position_embeddings": 8192, "rope_theta": 500000.0,
      "partial_rotary_factor": 0.5},
      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})";
  EXPECT_EQ(rope_of("laguna", both, 0).theta, 500'000.0);
  EXPECT_EQ(rope_of("laguna", both, 0).scaling, RopeScaling::kYarn);
  EXPECT_EQ(rope_of("laguna", both, 0).rotary_dim, 32u);
  EXPECT_EQ(rope_of("laguna", both, 1).theta, 10'000.0);
  EXPECT_EQ(rope_of("laguna", both, 1).scaling, RopeScaling::kNone);
  EXPECT_EQ(rope_of("laguna", both, 1).rotary_dim, 64u);
  EXPECT_THAT(refusal("laguna", types + R"({"full_attention": {"rope_theta": 1e4}})"),
              HasSubstr("rope_parameters.sliding_attention is missing"));
  EXPECT_THAT(refusal("llama", R"("rope_parameters": {"main": {"rope_theta": 1e4}})"),
              HasSubstr("Unsupported: test: rope_parameters.main is an object"));
}

TEST(LayerRope, ListsGiveEachLayerItsBaseAndShare) {
  const std::string lists = R"("rope_theta": [5e6, 1e4, 1e4, 5e6],
      "partial_rotary_factors": [0.5, 1.0, 1.0, 0.5])";
  EXPECT_EQ(rope_of("step3p5", lists, 0).theta, 5e6);
  EXPECT_EQ(rope_of("step3p5", lists, 0).rotary_dim, 32u);
  EXPECT_EQ(rope_of("step3p5", lists, 1).theta, 1e4);
  EXPECT_EQ(rope_of("step3p5", lists, 1).rotary_dim, 64u);
}

TEST(LayerRope, AListOfBasesIsRefusedWhereNoneIsRead) {
  EXPECT_THAT(refusal("llama", R"("rotary_emb_base": [1e4, 1e4, 1e4, 1e4])"),
              HasSubstr("rotary_emb_base is a list of 4; allowed: a number"));
  EXPECT_THAT(refusal("llama", R"("rope_theta": [])"), HasSubstr("rope_theta has 0 entries"));
  for (const Preset& preset : presets()) {
    if (preset.name != "deepseek-v3" && preset.name != "deepseek-v4-flash") continue;
    std::string text(preset.json);
    const std::string member = "\"rope_theta\": 10000";
    ASSERT_NE(text.find(member), std::string::npos) << preset.name;
    text.replace(text.find(member), member.size(), "\"rope_theta\": [1, 2]");
    const auto config = parse_model_config(text, "test");
    ASSERT_FALSE(config) << preset.name;
    EXPECT_THAT(config.error().message, HasSubstr("rope_theta is a list of 2; allowed: a number"));
  }
}

TEST(LayerRope, SomeLayersDoNotRotate) {
  const auto rotating = [](const std::string& type, const std::string& members) {
    const auto config = read(type, members);
    EXPECT_TRUE(config) << config.error().message;
    std::string marks;
    for (const LayerFacts& layer : config->layers) marks += layer.has_rope ? 'r' : '-';
    return marks;
  };
  EXPECT_EQ(rotating("cohere2", R"("sliding_window": 8)"), "rrr-");
  EXPECT_EQ(rotating("exaone4", R"("sliding_window": 8)"), "rrr-");
  EXPECT_EQ(rotating("exaone4", ""), "rrrr");
  EXPECT_EQ(rotating("smollm3", ""), "rrr-") << "SmolLM3Config: every fourth layer";
  EXPECT_EQ(rotating("smollm3", R"("no_rope_layers": [0, 1, 1, 0])"), "-rr-");
  EXPECT_EQ(rotating("gpt2", ""), "----");
  EXPECT_EQ(rotating("bloom", ""), "----");
  EXPECT_EQ(rotating("falcon", R"("alibi": true)"), "----");
  EXPECT_EQ(rotating("falcon", R"("alibi": false)"), "rrrr");
  EXPECT_EQ(rotating("mpt", R"("attn_config": {"alibi": true})"), "----");
  EXPECT_EQ(rotating("mpt", R"("attn_config": {"rope": true})"), "rrrr");
}

TEST(LayerRope, WhatIsMissingOrUnknownIsNamed) {
  EXPECT_THAT(refusal("llama", R"("rope_scaling": {"rope_type": "spiral", "factor": 2})"),
              HasSubstr("Unsupported: test: rope_scaling.rope_type is \"spiral\""));
  EXPECT_THAT(refusal("llama", R"("rope_scaling": {"factor": 2})"),
              HasSubstr("rope_scaling.rope_type is missing"));
  EXPECT_THAT(refusal("llama", R"("rope_scaling": {"type": "linear"})"),
              HasSubstr("rope_scaling.factor is missing"));
  EXPECT_THAT(refusal("llama", R"("rope_scaling": {"type": "yarn", "factor": 4})"),
              HasSubstr("original_max_position_embeddings is missing"));
  EXPECT_THAT(refusal("llama", R"("rope_scaling": {"type": "yarn", "factor": -4})"),
              HasSubstr("rope_scaling.factor is -4"));
  EXPECT_THAT(
      refusal(
          "llama",
          R"("rope_scaling": {"type": "llama3", "factor": 8, "original_max_position_embeddings": 64,
                  "low_freq_factor": 4, "high_freq_factor": 3})"),
      HasSubstr("high_freq_factor is 3; allowed: low_freq_factor (4) or above"));
  EXPECT_THAT(refusal("llama", R"("rope_scaling": "yarn")"), HasSubstr("rope_scaling is \"yarn\""));
  EXPECT_THAT(refusal("llama", R"("rope_theta": "big")"), HasSubstr("rope_theta is \"big\""));
}

}  // namespace
}  // namespace emblema
