// A model's config as transformers 5.24.0 writes it (config.to_json_string(use_diff=False) of the
// published one, cut to the members that are read) is the model of the preset: the same cache, byte
// for byte, so the same fingerprint.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/geometry/model_geometry.h"

namespace emblema {
namespace {

ModelGeometry geometry_of(const Result<ModelConfig>& model) {
  EXPECT_TRUE(model) << model.error().describe();
  auto geometry = ModelGeometry::from(model.value_or(ModelConfig{}));
  EXPECT_TRUE(geometry) << geometry.error().describe();
  return *geometry;
}

void expect_preset(const std::string& preset, const std::string& json) {
  const ModelGeometry published = geometry_of(load_model_config(preset));
  const ModelGeometry written = geometry_of(parse_model_config(json, "written"));
  EXPECT_EQ(written.attention_in_words(), published.attention_in_words()) << preset;
  EXPECT_EQ(written.fingerprint().hex(), published.fingerprint().hex()) << preset;
  EXPECT_EQ(written.bytes_per_sequence(100'000).value(),
            published.bytes_per_sequence(100'000).value())
      << preset;
}

// ["a", "b", "b", ...]: the words of `head`, then those of `cycle` over and over.
std::string words(std::size_t layers, std::vector<std::string> head,
                  const std::vector<std::string>& cycle) {
  for (std::size_t i = 0; head.size() < layers; ++i) head.push_back(cycle[i % cycle.size()]);
  std::string list;
  for (const std::string& word : head) list += (list.empty() ? "\"" : ", \"") + word + "\"";
  return "[" + list + "]";
}

constexpr const char* kCsa = "compressed_sparse_attention";
constexpr const char* kHca = "heavily_compressed_attention";

std::string deepseek_v4(const std::string& members) {
  return R"({"model_type": "deepseek_v4", "num_key_value_heads": 1, "head_dim": 512,
      "qk_rope_head_dim": 64, "partial_rotary_factor": 0.125, "index_head_dim": 128,
      "index_n_heads": 64, "sliding_window": 128, "max_position_embeddings": 1048576,
      "num_nextn_predict_layers": 1, "rms_norm_eps": 1e-06, "dtype": "bfloat16",
      "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128},
      "compress_rope_theta": 160000, "rope_theta": 10000,
      "rope_parameters": {
        "main": {"partial_rotary_factor": 0.125, "rope_theta": 10000, "rope_type": "default"},
        "compress": {"attention_factor": 1.0, "beta_fast": 32, "beta_slow": 1, "factor": 16,
                     "original_max_position_embeddings": 65536, "partial_rotary_factor": 0.125,
                     "rope_theta": 160000, "rope_type": "yarn", "type": "yarn"}}, )" +
         members + "}";
}

TEST(WrittenConfig, DeepSeekV4NamesTheKindOfEachLayer) {
  expect_preset("deepseek-v4-flash",
                deepseek_v4(R"("hidden_size": 4096, "num_hidden_layers": 43, "q_lora_rank": 1024,
                    "num_attention_heads": 64, "index_topk": 512, "layer_types": )" +
                            words(43, {"sliding_attention", "sliding_attention"}, {kCsa, kHca})));
  expect_preset("deepseek-v4-pro",
                deepseek_v4(R"("hidden_size": 7168, "num_hidden_layers": 61, "q_lora_rank": 1536,
                    "num_attention_heads": 128, "index_topk": 1024, "layer_types": )" +
                            words(61, {kHca, kHca}, {kCsa, kHca})));
}

TEST(WrittenConfig, KimiLinearHasItsMixerFlat) {
  std::vector<std::string> head;
  for (int group = 0; group < 6; ++group) {
    for (int i = 0; i < 3; ++i) head.emplace_back("linear_attention");
    head.emplace_back("full_attention");
  }
  head.insert(head.end(), {"linear_attention", "linear_attention"});
  expect_preset("kimi-linear-48b-a3b",
                R"({"model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 27,
      "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 64, "kv_lora_rank": 512,
      "q_lora_rank": null, "qk_head_dim": 192, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
      "v_head_dim": 128, "linear_num_heads": 32, "linear_head_dim": 128,
      "linear_conv_kernel_dim": 4, "model_max_length": 1048576, "rms_norm_eps": 1e-05,
      "dtype": "bfloat16", "layer_types": )" +
                    words(27, head, {"full_attention"}) + "}");
}

TEST(WrittenConfig, LatentLayersWithAnIndexAreCalledIndexed) {
  expect_preset("deepseek-v3.2",
                R"({"model_type": "deepseek_v32", "hidden_size": 7168, "num_hidden_layers": 61,
      "num_attention_heads": 128, "num_key_value_heads": 128, "head_dim": 64, "kv_lora_rank": 512,
      "q_lora_rank": 1536, "qk_head_dim": 192, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
      "v_head_dim": 128, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048,
      "max_position_embeddings": 163840, "num_nextn_predict_layers": 1, "rms_norm_eps": 1e-06,
      "rope_parameters": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
        "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "rope_theta": 10000,
        "rope_type": "yarn", "type": "yarn"}, "layer_types": )" +
                    words(61, {}, {"indexed_attention"}) + "}");
  expect_preset("glm-5", R"({"model_type": "glm_moe_dsa", "hidden_size": 6144,
      "num_hidden_layers": 78, "num_attention_heads": 64, "num_key_value_heads": 64,
      "head_dim": 64, "kv_lora_rank": 512, "q_lora_rank": 2048, "qk_nope_head_dim": 192,
      "qk_rope_head_dim": 64, "v_head_dim": 256, "index_head_dim": 128, "index_n_heads": 32,
      "index_topk": 2048, "max_position_embeddings": 202752, "rms_norm_eps": 1e-05,
      "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"}, "indexer_types": )" +
                             words(78, {}, {"full"}) + R"(, "layer_types": )" +
                             words(78, {}, {"indexed_attention"}) + "}");
}

TEST(WrittenConfig, Gemma4sFullLayersDifferByPerLayerConfig) {
  expect_preset("gemma-4-26b-a4b",
                R"({"model_type": "gemma4_text", "hidden_size": 2816, "num_hidden_layers": 30,
      "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
      "attention_k_eq_v": true, "max_position_embeddings": 262144, "num_kv_shared_layers": 0,
      "sliding_window": 1024, "rms_norm_eps": 1e-06, "rope_parameters": {
        "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0,
                           "rope_type": "proportional"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
      "per_layer_config": {"05": {"head_dim": 512, "num_key_value_heads": 2},
        "11": {"head_dim": 512, "num_key_value_heads": 2},
        "17": {"head_dim": 512, "num_key_value_heads": 2},
        "23": {"head_dim": 512, "num_key_value_heads": 2},
        "29": {"head_dim": 512, "num_key_value_heads": 2}}, "layer_types": )" +
                    words(30, {},
                          {"sliding_attention", "sliding_attention", "sliding_attention",
                           "sliding_attention", "sliding_attention", "full_attention"}) +
                    "}");
}

TEST(WrittenConfig, MiniMaxM3NamesTheLayersThatPickBlocks) {
  expect_preset(
      "minimax-m3",
      R"({"model_type": "minimax_m3_vl_text", "hidden_size": 6144,
      "num_hidden_layers": 60, "num_attention_heads": 64, "num_key_value_heads": 4,
      "head_dim": 128, "max_position_embeddings": 1048576, "rms_norm_eps": 1e-06,
      "rotary_dim": 64, "num_mtp_modules": 7, "num_nextn_predict_layers": 1,
      "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 5000000,
                          "rope_type": "default"},
      "index_block_size": 128, "index_head_dim": 128, "index_local_blocks": 1,
      "index_n_heads": 4, "index_topk_blocks": 16, "layer_types": )" +
          words(60, {"full_attention", "full_attention", "full_attention"}, {"minimax_m3_sparse"}) +
          "}");
}

// Default configs of classes that no preset is of. Per layer and token, in numbers of 2 bytes: what
// DynamicCache of transformers 5.24.0 holds after three tokens of a model without weights.
TEST(WrittenConfig, OtherClassesKeepWhatTheirOwnCacheHolds) {
  // BailingHybridConfig: five layers of Kimi delta, one of latents.
  const ModelGeometry bailing = geometry_of(parse_model_config(
      R"({"model_type": "bailing_hybrid", "hidden_size": 2560, "num_hidden_layers": 12,
          "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 64,
          "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
          "v_head_dim": 128, "linear_num_heads": 32, "linear_head_dim": 128,
          "linear_conv_kernel_dim": 4, "short_conv_kernel_size": 4, "kda_lower_bound": -5.0,
          "kda_safe_gate": true, "layer_group_size": 6, "model_max_length": 262144,
          "rope_parameters": {"rope_theta": 6000000.0, "rope_type": "default"}, "layer_types": )" +
          words(12, {},
                {"linear_attention", "linear_attention", "linear_attention", "linear_attention",
                 "linear_attention", "full_attention"}) +
          "}",
      "written"));
  EXPECT_EQ(bailing.growing_bytes_per_token().value(), Rational(2 * 2 * (512 + 64)));
  EXPECT_EQ(bailing.state_bytes_per_sequence().value(),
            10u * (4 * 32 * 128 * 128 + 2 * 3 * 12'288));
  // MiMoV2FlashConfig: the class doubles the KV heads of layers that slide.
  const ModelGeometry mimo = geometry_of(parse_model_config(
      R"({"model_type": "mimo_v2_flash", "hidden_size": 4096, "num_hidden_layers": 2,
          "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 192,
          "v_head_dim": 128, "sliding_window": 129, "max_position_embeddings": 131072,
          "layer_types": ["full_attention", "sliding_attention"], "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.334, "rope_theta": 5000000.0},
            "sliding_attention": {"partial_rotary_factor": 0.334, "rope_theta": 10000.0}}})",
      "written"));
  EXPECT_EQ(mimo.growing_bytes_per_token().value(), Rational(2 * 4 * (192 + 128)));
  EXPECT_EQ(mimo.fixed_bytes_per_sequence().value(), 129u * 2 * 8 * (192 + 128));
  EXPECT_TRUE(mimo.layers()[1].has_sinks);
  EXPECT_FALSE(mimo.layers()[0].has_sinks);
}

}  // namespace
}  // namespace emblema
