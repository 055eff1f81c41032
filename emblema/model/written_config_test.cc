// Spellings that transformers 5.24.0 writes and no publisher does: what each means, and what is
// refused. Sources: its configuration classes, named per test. That presets and what is written of
// them are the same cache is geometry's written_config_test.cc.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/model/model_config_testing.h"

namespace emblema {
namespace {

using namespace model_testing;
using testing::Contains;
using testing::HasSubstr;

// Three layers of latents.
std::string latent(const std::string& members) {
  return R"({"model_type": "deepseek_v32", "num_hidden_layers": 3, "num_attention_heads": 4,
      "hidden_size": 512, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
      "v_head_dim": 128, )" +
         members + "}";
}

// DeepseekV32Config, GlmMoeDsaConfig, HYV4Config: a layer has index keys where it is called indexed
// and its indexer is not another's.
TEST(WrittenConfig, IndexKeysSitWhereBothListsSaySo) {
  const auto config = parsed(latent(R"("index_topk": 2048, "index_head_dim": 128,
      "layer_types": ["indexed_attention", "full_attention", "indexed_attention"],
      "indexer_types": ["full", "full", "shared"])"));
  EXPECT_TRUE(config.layers[0].has_indexer);
  EXPECT_FALSE(config.layers[1].has_indexer);
  EXPECT_FALSE(config.layers[2].has_indexer);
  for (const LayerFacts& layer : config.layers) EXPECT_EQ(layer.cache, LayerCache::kOwn);
}

TEST(WrittenConfig, IndexKeysOfUnknownSizeAreRefused) {
  const std::string indexed =
      R"("layer_types": ["full_attention", "indexed_attention", "indexed_attention"])";
  const auto without = refused(latent(indexed));
  EXPECT_EQ(without.code, ErrorCode::Unsupported);
  EXPECT_THAT(without.message, HasSubstr("layer_types[1] is \"indexed_attention\""));
  EXPECT_THAT(without.message, HasSubstr("index_topk is missing or 0"));
  EXPECT_THAT(refused(latent(indexed + R"(, "index_topk": 0)")).message,
              HasSubstr("index_topk is missing or 0"));
  EXPECT_THAT(refused(latent(indexed + R"(, "index_topk": 2048)")).message,
              HasSubstr("index_head_dim is missing"));
  EXPECT_THAT(refused(latent(R"("layer_types": ["full_attention", "full_attention",
                                                "minimax_m3_sparse"])"))
                  .message,
              HasSubstr("layer_types[2] is \"minimax_m3_sparse\""));
  // Qwen4ExpTextConfig: keys and values, and indexer_* that its default leaves null.
  const auto grouped = refused(plain(R"("indexer_head_dim": null, "layer_types": )" +
                                     std::string("[\"indexed_attention\"") + [] {
                                       std::string rest;
                                       for (int i = 1; i < 32; ++i) rest += ", \"full_attention\"";
                                       return rest + "]";
                                     }()));
  EXPECT_EQ(grouped.code, ErrorCode::Unsupported);
  EXPECT_THAT(grouped.message, HasSubstr("layer_types[0] is \"indexed_attention\", but how large"));
}

// MiniMaxM3VLTextConfig
TEST(WrittenConfig, LayersThatPickBlocksHaveAnIndexKey) {
  const std::string m3 = R"({"model_type": "minimax_m3_vl_text", "num_hidden_layers": 2,
      "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 128,
      "layer_types": ["full_attention", "minimax_m3_sparse"])";
  const auto config =
      parsed(m3 + R"(, "index_head_dim": 64, "index_n_heads": 4, "index_topk_blocks": 16})");
  EXPECT_FALSE(config.layers[0].has_indexer);
  EXPECT_TRUE(config.layers[1].has_indexer);
  EXPECT_EQ(config.index_head_dim, 64u);
  EXPECT_EQ(config.index_n_heads, 4u);
  EXPECT_EQ(config.index_topk, 16u);
  EXPECT_THAT(refused(m3 + "}").message, HasSubstr("index_head_dim is missing"));
}

// DeepseekV4Config
std::string deepseek_v4(const std::string& members) {
  return R"({"model_type": "deepseek_v4", "num_hidden_layers": 3, "hidden_size": 1024,
      "num_attention_heads": 16, "num_key_value_heads": 1, "head_dim": 512, "qk_rope_head_dim": 64,
      "sliding_window": 128, "max_position_embeddings": 1048576, )" +
         members + "}";
}

constexpr const char* kV4Words = R"("layer_types": ["sliding_attention",
    "compressed_sparse_attention", "heavily_compressed_attention"], )";
constexpr const char* kV4Rope = R"("rope_parameters": {
    "main": {"rope_theta": 10000, "rope_type": "default"},
    "compress": {"rope_theta": 160000, "rope_type": "yarn", "factor": 16, "attention_factor": 1.0,
                 "original_max_position_embeddings": 65536}})";

TEST(WrittenConfig, WordsOfDeepSeekV4AreItsRatios) {
  const auto config = parsed(deepseek_v4(kV4Words + std::string(kV4Rope)));
  EXPECT_EQ(config.family, AttentionFamily::kCompressed);
  EXPECT_EQ(config.layers[0].compress_ratio, 0u);
  EXPECT_EQ(config.layers[1].compress_ratio, 4u);
  EXPECT_EQ(config.layers[2].compress_ratio, 128u);
  EXPECT_FALSE(config.layers[0].has_indexer || config.layers[2].has_indexer);
  EXPECT_TRUE(config.layers[1].has_indexer);
  EXPECT_EQ(config.layers[0].rope.theta, 10'000.0);
  EXPECT_EQ(config.layers[0].rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(config.layers[1].rope.theta, 160'000.0);
  EXPECT_EQ(config.layers[2].rope.scaling, RopeScaling::kYarn);
  EXPECT_FALSE(config.layers[2].rope.attention_factor) << "amplitude 1 is what unit_amplitude says";
}

TEST(WrittenConfig, WordsOfDeepSeekV4ThatMeanSomethingElseAreRefused) {
  const std::string words = kV4Words;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {words + kV4Rope + R"(, "compress_rates": {"compressed_sparse_attention": 8})",
       "compress_rates.compressed_sparse_attention is 8; this release counts 4"},
      {words + kV4Rope + R"(, "compress_rate_hca": 64)",
       "compress_rate_hca is 64; this release counts 128"},
      {R"("layer_types": ["full_attention", "sliding_attention", "sliding_attention"], )" +
           std::string(kV4Rope),
       "layer_types[0] is \"full_attention\"; this release counts sliding_attention, compressed"},
      {words + R"("rope_parameters": {"main": {"rope_theta": 10000},
          "compress": {"rope_theta": 160000, "rope_type": "yarn", "factor": 16,
            "attention_factor": 1.2, "original_max_position_embeddings": 65536}})",
       "attention_factor of compressed layers is 1.2; this release counts 1"},
  };
  for (const auto& [members, named] : cases) {
    const auto error = refused(deepseek_v4(members));
    EXPECT_EQ(error.code, ErrorCode::Unsupported) << members;
    EXPECT_THAT(error.message, HasSubstr(named));
  }
  EXPECT_THAT(
      refused(deepseek_v4(words + R"("rope_parameters": {"main": {"rope_theta": 10000}})")).message,
      HasSubstr("rope_parameters.compress is missing"));
  EXPECT_THAT(
      refused(deepseek_v4(R"("layer_types": ["sliding_attention"], )" + std::string(kV4Rope)))
          .message,
      HasSubstr("layer_types has 1 entries"));
}

// KimiLinearConfig
TEST(WrittenConfig, KimiDeltaNeedsItsOwnSizes) {
  const std::string kimi = R"({"model_type": "kimi_linear", "num_hidden_layers": 2,
      "hidden_size": 512, "num_attention_heads": 4, "head_dim": 64, "kv_lora_rank": 512,
      "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
      "layer_types": ["linear_attention", "full_attention"])";
  const auto config = parsed(kimi + R"(, "linear_num_heads": 8, "linear_head_dim": 32})");
  const RecurrentFacts& mixer = config.layers[0].recurrent;
  EXPECT_EQ(mixer.mixer, RecurrentMixer::kKimiDelta);
  EXPECT_EQ(mixer.state_heads, 8u);
  EXPECT_EQ(mixer.state_rows, 32u);
  EXPECT_EQ(mixer.conv_channels, 3u * 8 * 32);
  EXPECT_EQ(mixer.conv_columns, 3u);
  EXPECT_THAT(config.notes, Contains(HasSubstr("linear_conv_kernel_dim is not given: 4")));
  EXPECT_FALSE(config.layers[1].has_rope) << "nothing rotates in its class";
  EXPECT_THAT(refused(kimi + R"(, "linear_head_dim": 32})").message,
              HasSubstr("linear_num_heads is missing"));
  EXPECT_THAT(refused(kimi + R"(, "linear_num_heads": 8})").message,
              HasSubstr("linear_head_dim is missing"));
}

// BailingHybridConfig: its checkpoints give the mixer the model's heads, and the class writes them
// out under names of their own.
TEST(WrittenConfig, BailingsDeltaLayersAreToldFromRingsLightning) {
  const std::string sizes = R"({"model_type": "bailing_hybrid", "num_hidden_layers": 2,
      "hidden_size": 512, "num_attention_heads": 8, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
      "qk_nope_head_dim": 128, "v_head_dim": 128, "layer_group_size": 2)";
  for (const std::string members :
       {R"(, "head_dim": 128, "short_conv_kernel_size": 4, "kda_safe_gate": true})",
        R"(, "head_dim": 64, "linear_head_dim": 128, "linear_num_heads": 8,
           "linear_conv_kernel_dim": 4, "kda_lower_bound": -5.0})"}) {
    const auto config = parsed(sizes + members);
    const RecurrentFacts& mixer = config.layers[0].recurrent;
    EXPECT_EQ(mixer.mixer, RecurrentMixer::kKimiDelta) << members;
    EXPECT_EQ(mixer.state_heads, 8u);
    EXPECT_EQ(mixer.state_columns, 128u);
    EXPECT_EQ(mixer.conv_channels, 3u * 8 * 128);
  }
  EXPECT_EQ(parsed(sizes + R"(, "head_dim": 128})").layers[0].recurrent.mixer,
            RecurrentMixer::kLightning);
}

// DoryConfig: the layers in the middle run n_recurrent_loops times.
TEST(WrittenConfig, LayersThatRunAgainWithCachesOfTheirOwnAreRefused) {
  const auto error =
      refused(plain(R"("n_recurrent_loops": 2, "recurrent_kv_cache_mode": "per_loop")"));
  EXPECT_EQ(error.code, ErrorCode::Unsupported);
  EXPECT_THAT(error.message, HasSubstr("n_recurrent_loops is 2: layers that keep keys and values"));
  EXPECT_EQ(refused(plain(R"("n_recurrent_loops": 2)")).code, ErrorCode::Unsupported);
  for (const std::string once :
       {R"("n_recurrent_loops": 1)",
        R"("n_recurrent_loops": 2, "recurrent_kv_cache_mode": "last_loop")"}) {
    EXPECT_EQ(growing_bytes(parsed(plain(once))), kPlainMhaBytes) << once;
  }
}

// BeamConfig: null in place of a set of parameters.
TEST(WrittenConfig, LayersOfBeamWithoutRotaryParametersDoNotRotate) {
  const auto of_type = [](const std::string& type, const std::string& full) {
    return R"({"model_type": ")" + type + R"(", "num_hidden_layers": 2, "hidden_size": 512,
      "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "sliding_window": 128,
      "max_position_embeddings": 8192, "layer_types": ["sliding_attention", "full_attention"],
      "rope_parameters": {"sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
                          "full_attention": )" +
           full + "}}";
  };
  const auto config = parsed(of_type("beam", "null"));
  EXPECT_TRUE(config.layers[0].has_rope);
  EXPECT_FALSE(config.layers[1].has_rope);
  const auto rotating = parsed(of_type("beam", R"({"rope_theta": 500000.0})"));
  EXPECT_TRUE(rotating.layers[1].has_rope);
  EXPECT_EQ(rotating.layers[1].rope.theta, 500'000.0);
  EXPECT_THAT(refused(of_type("gemma3_text", "null")).message,
              HasSubstr("rope_parameters.full_attention is missing"));
}

// Qwen3MoeConfig has one window for all layers or none; Qwen3Config lists types instead.
TEST(WrittenConfig, AWindowOfQwen3MoeIsForEveryLayer) {
  const std::string members = R"(", "num_hidden_layers": 4, "hidden_size": 512,
      "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 32768,
      "max_window_layers": 3, "sliding_window": 4096, "use_sliding_window": )";
  const auto windows = [&](const std::string& type, const std::string& used) {
    std::string letters;
    for (const LayerFacts& layer : parsed(R"({"model_type": ")" + type + members + used).layers) {
      letters += layer.reach == LayerReach::kWindow ? 'w' : 'f';
    }
    return letters;
  };
  EXPECT_EQ(windows("qwen3_moe", "true}"), "wwww");
  EXPECT_EQ(windows("qwen3_moe", "false}"), "ffff");
  EXPECT_EQ(windows("qwen3", "true}"), "fffw");
}

// XGLMConfig
TEST(WrittenConfig, HeadsOfXglm) {
  const auto config = parsed(R"({"model_type": "xglm", "d_model": 1024, "num_layers": 24,
      "attention_heads": 16, "max_position_embeddings": 2048})");
  EXPECT_EQ(config.layers[0].num_key_value_heads, 16u);
  EXPECT_EQ(config.layers[0].head_dim, 64u);
}

}  // namespace
}  // namespace emblema
