// What the layers of hybrid models are made of, and the state they keep. Sizes: the modelling
// classes of transformers named per test; rules of each family by every name that its configs use.
#include "emblema/model/layer_makeup.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/model/model_config.h"

namespace emblema {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

Result<ModelConfig> read(const std::string& model_type, int layers, const std::string& members) {
  return parse_model_config(R"({"model_type": ")" + model_type + R"(", "hidden_size": 4096,
      "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "rope_theta": 10000,
      "num_hidden_layers": )" + std::to_string(layers) +
                                (members.empty() ? "" : ", " + members) + "}",
                            "test");
}

// A letter per layer: A attends, S keeps state, B both, - neither; "" when refused.
std::string letters_of(const Result<ModelConfig>& config) {
  EXPECT_TRUE(config) << config.error().message;
  std::string letters;
  for (std::size_t i = 0; config && i < config->layers.size(); ++i) {
    const LayerFacts& layer = config->layers[i];
    const bool attends = layer.cache != LayerCache::kNone;
    const bool has_state = layer.recurrent.mixer != RecurrentMixer::kNone;
    EXPECT_EQ(layer.num_attention_heads > 0, attends);
    letters += attends ? (has_state ? 'B' : 'A') : has_state ? 'S' : '-';
  }
  return letters;
}

std::string refusal(const Result<ModelConfig>& config) {
  return config ? "it was read" : config.error().describe();
}

const std::string kMamba2 = R"("mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128,
                               "n_groups": 8, "conv_kernel": 4)";
const std::string kGatedDelta = R"("linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4)";

// TensorRT-LLM pull 5371: every block of a Mamba hybrid was counted as attention.
TEST(LayerMakeup, ALetterPerLayerOfNemotronH) {
  const auto config = read("nemotron_h", 7, kMamba2 + R"(, "hybrid_override_pattern": "M-M*EM*")");
  EXPECT_EQ(letters_of(config), "S-SA-SA");
  EXPECT_FALSE(config->layers[3].has_rope) << "its attention knows no positions";
  const RecurrentFacts& state = config->layers[0].recurrent;
  EXPECT_EQ(state.mixer, RecurrentMixer::kMamba2);
  EXPECT_EQ(state.conv_channels, 64u * 64 + 2 * 8 * 128);
  EXPECT_EQ(state.conv_columns, 3u) << "kernel - 1: the newest column is the input itself";
  EXPECT_EQ(state.state_heads, 64u);
  EXPECT_EQ(state.state_rows, 64u);
  EXPECT_EQ(state.state_columns, 128u);
  EXPECT_EQ(letters_of(read("nemotron_h", 4, kMamba2 + R"(, "layers_block_type":
                                          ["mamba", "moe", "attention", "mlp"])")),
            "S-A-");
  EXPECT_THAT(refusal(read("nemotron_h", 4, kMamba2 + R"(, "hybrid_override_pattern": "M*")")),
              HasSubstr("hybrid_override_pattern is \"M*\"; allowed: a string with a letter for"));
  EXPECT_THAT(refusal(read("nemotron_h", 4, kMamba2)),
              HasSubstr("which of the 4 layers of this 'nemotron_h' attend is missing"));
}

TEST(LayerMakeup, EveryWayToSayWhichLayersOfAGatedDeltaModelAttend) {
  for (const std::string& rule :
       {std::string(R"("full_attention_interval": 4)"),
        std::string(R"("full_attention_interval": null)"),
        std::string(R"("layer_types": ["linear_attention", "linear_attention", "linear_attention",
           "full_attention", "linear_attention", "linear_attention", "linear_attention",
           "full_attention"])")}) {
    for (const std::string type : {"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"}) {
      const auto config = read(type, 8, kGatedDelta + ", " + rule);
      EXPECT_EQ(letters_of(config), "SSSASSSA") << type << rule;
      const RecurrentFacts& state = config->layers[0].recurrent;
      EXPECT_EQ(state.conv_channels, 16u * 128 + 16 * 128 + 32 * 128) << "queries, keys, values";
      EXPECT_EQ(state.state_heads, 32u);
    }
  }
  EXPECT_EQ(
      letters_of(read("never_heard_of", 3, kGatedDelta + R"(, "layer_types": ["linear_attention",
                                             "full_attention", "linear_attention"])")),
      "SAS")
      << "fields and words are enough without a row for the family";
  EXPECT_THAT(refusal(read("qwen3_next", 4, "")), HasSubstr("linear_num_key_heads is missing"));
}

TEST(LayerMakeup, KimiLinearCountsItsLayersFromOne) {
  const std::string state = R"("head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4)";
  const auto kimi = [&](const std::string& lists) {
    return parse_model_config(R"({"model_type": "kimi_linear", "num_hidden_layers": 5,
        "hidden_size": 2304, "num_attention_heads": 32, "kv_lora_rank": 512,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "mla_use_nope": true,
        "linear_attn_config": {)" +
                                  state + lists + "}}",
                              "test");
  };
  const auto config = kimi(R"(, "full_attn_layers": [4, 5], "kda_layers": [1, 2, 3])");
  EXPECT_EQ(letters_of(config), "SSSAA");
  EXPECT_EQ(config->family, AttentionFamily::kLatent);
  EXPECT_EQ(config->layers[0].recurrent.conv_channels, 3u * 32 * 128);
  EXPECT_EQ(letters_of(kimi(R"(, "kda_layers": [1, 2, 3])")), "SSSAA");
  EXPECT_EQ(letters_of(kimi(R"(, "full_attn_layers": [4, 5])")), "SSSAA");
  EXPECT_THAT(refusal(kimi(R"(, "full_attn_layers": [0])")),
              HasSubstr("linear_attn_config.full_attn_layers[0] is 0; allowed: a whole number from "
                        "1 to 5"));
  EXPECT_THAT(refusal(kimi(R"(, "full_attn_layers": [3], "kda_layers": [3])")),
              HasSubstr("both name layer 3"));
  EXPECT_THAT(refusal(kimi("")), HasSubstr("kda_layers and full_attn_layers are missing"));
}

TEST(LayerMakeup, LightningLayersByMarkGroupOrWord) {
  const auto marks = read("minimax_m1", 4, R"("attn_type_list": [0, 0, 0, 1, 1, 0])");
  EXPECT_EQ(letters_of(marks), "SSSA");
  EXPECT_EQ(marks->layers[0].recurrent.state_heads, 32u);
  EXPECT_EQ(marks->layers[0].recurrent.state_rows, 128u);
  EXPECT_EQ(marks->layers[0].recurrent.conv_channels, 0u);
  EXPECT_EQ(letters_of(read("minimax", 4, "")), "ASAS") << "MiniMaxConfig's own default";
  EXPECT_EQ(letters_of(read("bailing_moe_linear", 7, R"("layer_group_size": 3)")), "SSASSAA")
      << "what is behind the last whole group attends";
  EXPECT_THAT(refusal(read("minimax_m1", 2, R"("attn_type_list": [0, 2])")),
              HasSubstr("attn_type_list[1] is 2"));
}

TEST(LayerMakeup, JambaAndItsRelativesByPeriodOrIndex) {
  const std::string mamba1 = R"("mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2)";
  const auto jamba =
      read("jamba", 10, mamba1 + R"(, "attn_layer_period": 8, "attn_layer_offset": 4)");
  EXPECT_EQ(letters_of(jamba), "SSSSASSSSS");
  EXPECT_EQ(jamba->layers[0].recurrent.mixer, RecurrentMixer::kMamba1);
  EXPECT_EQ(jamba->layers[0].recurrent.conv_channels, 8192u);
  EXPECT_EQ(jamba->layers[0].recurrent.state_rows, 8192u);
  EXPECT_EQ(jamba->layers[0].recurrent.state_columns, 16u);
  EXPECT_EQ(letters_of(read("jamba", 6, mamba1)), "SSSSAS");
  const std::string bamba = R"("mamba_n_heads": 128, "mamba_d_head": "auto", "mamba_n_groups": 1,
                               "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_expand": 2)";
  const auto config = read("bamba", 4, bamba + R"(, "attn_layer_indices": [1, 3])");
  EXPECT_EQ(letters_of(config), "SASA");
  EXPECT_EQ(config->layers[0].recurrent.state_rows, 64u) << "auto: 2 x 4096 / 128";
  EXPECT_EQ(letters_of(read("granitemoehybrid", 2, bamba)), "SS");
  EXPECT_THAT(refusal(read("bamba", 4, R"("attn_layer_indices": [1], "mamba_d_state": 128,
                                          "mamba_n_heads": 7, "mamba_expand": 2)")),
              HasSubstr("mamba_n_heads is 7, which does not divide the 8192 channels"));
}

TEST(LayerMakeup, ZambaAndFalconH1HaveBothInOneLayer) {
  const std::string zamba2 = R"("state_size": 64, "mamba_headdim": 64, "mamba_ngroups": 2,
      "expansion_factor": 2, "conv_dimension": 4, "kv_channels": 112, "num_query_groups": 8)";
  const auto config = parse_model_config(
      R"({"model_type": "zamba2", "num_hidden_layers": 3, "hidden_size": 3584,
          "num_attention_heads": 32, "num_key_value_heads": 32, "use_mem_rope": true,
          "layers_block_type": ["mamba", "hybrid", "mamba"], "state_size": 64,
          "mamba_headdim": 64, "mamba_ngroups": 2, "expansion_factor": 2, "conv_dimension": 4,
          "kv_channels": 112, "num_query_groups": 32})",
      "test");
  EXPECT_EQ(letters_of(config), "SBS");
  EXPECT_EQ(config->layers[1].head_dim, 224u) << "2 x 3584 / 32: two hidden states side by side";
  EXPECT_EQ(config->query_pre_attn_scalar, 112.0) << "Zamba2Attention divides by half its width";
  EXPECT_EQ(config->layers[0].recurrent.conv_channels, 7168u + 2 * 2 * 64);
  EXPECT_EQ(letters_of(read("zamba2", 3, zamba2 + R"(, "hybrid_layer_ids": [2])")), "SSB");
  const auto h1 = read("falcon_h1", 2, R"("mamba_d_ssm": 4096, "mamba_n_groups": 2,
      "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_n_heads": 32, "mamba_d_head": 128)");
  EXPECT_EQ(letters_of(h1), "BB");
  EXPECT_EQ(h1->layers[0].recurrent.conv_channels, 4096u + 2 * 2 * 256);
}

TEST(LayerMakeup, PureStateSpaceModelsHaveNoHeads) {
  const auto mamba2 = parse_model_config(
      R"({"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 2, "num_heads": 128,
          "head_dim": 64, "n_groups": 8, "state_size": 128, "conv_kernel": 4, "expand": 2})",
      "test");
  EXPECT_EQ(letters_of(mamba2), "SS");
  EXPECT_EQ(mamba2->num_attention_heads, 0u);
  EXPECT_EQ(mamba2->layers[0].recurrent.conv_channels, 8192u + 2 * 8 * 128);
  const auto mamba = parse_model_config(
      R"({"model_type": "falcon_mamba", "hidden_size": 4096, "num_hidden_layers": 2,
          "intermediate_size": 8192, "state_size": 16, "conv_kernel": 4})",
      "test");
  EXPECT_EQ(letters_of(mamba), "SS");
  EXPECT_EQ(mamba->layers[0].recurrent.state_rows, 8192u);
}

TEST(LayerMakeup, RecurrentGemmaTilesItsPatternAndLfm2ConvolvesOnly) {
  const auto gemma = read("recurrent_gemma", 5, R"("lru_width": 2560, "conv1d_width": 4,
      "attention_window_size": 2048, "_block_types": ["recurrent", "recurrent", "attention"])");
  EXPECT_EQ(letters_of(gemma), "SSASS");
  EXPECT_EQ(gemma->layers[2].window_tokens, 2048u);
  EXPECT_EQ(gemma->layers[0].recurrent.conv_channels, 2560u);
  EXPECT_EQ(gemma->layers[0].recurrent.state_rows, 2560u);
  EXPECT_EQ(letters_of(read("recurrent_gemma", 4, "")), "SSAS");
  for (const std::string rule :
       {R"("layer_types": ["conv", "full_attention", "conv"])", R"("full_attn_idxs": [1])"}) {
    const auto lfm = read("lfm2", 3, std::string(R"("conv_L_cache": 3, )") + rule);
    EXPECT_EQ(letters_of(lfm), "SAS") << rule;
    EXPECT_EQ(lfm->layers[0].recurrent.conv_channels, 4096u);
    EXPECT_EQ(lfm->layers[0].recurrent.conv_columns, 2u);
    EXPECT_EQ(lfm->layers[0].recurrent.state_heads, 0u);
  }
}

TEST(LayerMakeup, BaichuanM1ConvolvesTheKeysAndValuesOfEachLayer) {
  const auto config = parse_model_config(
      R"({"model_type": "baichuan_m1", "num_hidden_layers": 2, "hidden_size": 5120,
          "num_attention_heads": 20, "num_key_value_heads": 2, "num_swa_attention_heads": 40,
          "num_swa_key_value_heads": 8, "sliding_window": 8192, "sliding_window_layers": [1],
          "conv_window": 2, "max_position_embeddings": 32768})",
      "test");
  EXPECT_EQ(letters_of(config), "BB");
  EXPECT_EQ(config->layers[0].head_dim, 256u);
  EXPECT_EQ(config->layers[1].head_dim, 128u);
  EXPECT_EQ(config->layers[0].recurrent.conv_channels, 2u * 2 * 256);
  EXPECT_EQ(config->layers[1].recurrent.conv_channels, 2u * 8 * 128);
  EXPECT_EQ(config->layers[0].recurrent.conv_columns, 1u);
}

TEST(LayerMakeup, BlocksOfNemotronNasMayHaveNoAttention) {
  const auto blocks = [](const std::string& second) {
    return parse_model_config(R"({"model_type": "nemotron-nas", "num_hidden_layers": 2,
        "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": null,
        "block_configs": [{"attention": {"n_heads_in_group": 8, "no_op": false}},
                          {"attention": )" +
                                  second + "}]}",
                              "test");
  };
  EXPECT_EQ(letters_of(blocks(R"({"n_heads_in_group": null, "no_op": true})")), "A-");
  EXPECT_EQ(letters_of(blocks(R"({"no_op": false, "replace_with_linear": true})")), "A-");
  const auto uneven = blocks(R"({"n_heads_in_group": 16, "no_op": false})");
  ASSERT_TRUE(uneven) << uneven.error().message;
  EXPECT_EQ(uneven->layers[0].num_key_value_heads, 4u);
  EXPECT_EQ(uneven->layers[1].num_key_value_heads, 2u);
  EXPECT_THAT(refusal(blocks(R"({"no_op": false})")),
              HasSubstr("block_configs[1].attention.n_heads_in_group is missing"));
  EXPECT_THAT(refusal(blocks(R"({"n_heads_in_group": 8, "window_length": 8192})")),
              HasSubstr("Unsupported: test: block_configs[1].attention.window_length is 8192"));
  EXPECT_THAT(refusal(blocks("3")), HasSubstr("block_configs[1].attention is 3"));
}

// NemotronHConfig of transformers 5 counts the words instead.
TEST(LayerMakeup, TheListOfLayersSaysHowManyThereAre) {
  const auto config = parse_model_config(
      R"({"model_type": "nemotron_h", "hidden_size": 2688, "num_attention_heads": 32,
          "num_key_value_heads": 2, "head_dim": 128, "mamba_num_heads": 64, "mamba_head_dim": 64,
          "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4,
          "layers_block_type": ["mamba", "moe", "attention"]})",
      "test");
  EXPECT_EQ(letters_of(config), "S-A");
  EXPECT_THAT(config->notes, Contains(HasSubstr("layers_block_type has 3")));
}

TEST(LayerMakeup, LatentAttentionMayAlternateWithLightning) {
  const auto ring = parse_model_config(
      R"({"model_type": "bailing_hybrid", "layer_group_size": 2, "kv_lora_rank": 512,
          "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
          "head_dim": 128, "hidden_size": 8192, "num_attention_heads": 64, "num_hidden_layers": 4,
          "rope_theta": 6000000})",
      "test");
  EXPECT_EQ(letters_of(ring), "SASA");
  EXPECT_EQ(ring->family, AttentionFamily::kLatent);
  EXPECT_EQ(ring->layers[0].recurrent.state_heads, 64u);
}

TEST(LayerMakeup, TheReaderIsToldHowStateIsCounted) {
  EXPECT_THAT(read("qwen3_next", 4, kGatedDelta)->notes,
              Contains(AllOf(HasSubstr("kernel - 1 columns in bf16"),
                             HasSubstr("fp32 unless --state-dtype says otherwise"))));
  EXPECT_THAT(read("lfm2", 2, R"("layer_types": ["conv", "full_attention"])")->notes,
              Contains(AllOf(HasSubstr("state of recurrent layers: a convolution keeps kernel - 1"),
                             Not(HasSubstr("--state-dtype")))))
      << "no state whose type could be chosen";
}

// Nemotron-H and Qwen3.5 say in their configs how the state is kept; both fields were ignored.
TEST(LayerMakeup, TheTypeOfTheStateIsTheConfigs) {
  const std::string sizes = kGatedDelta;
  for (const std::string field : {"mamba_ssm_dtype", "mamba_ssm_cache_dtype"}) {
    const auto with = [&](const std::string& value) {
      return read("qwen3_next", 4, sizes + R"(, ")" + field + R"(": )" + value);
    };
    EXPECT_EQ(with(R"("bfloat16")")->state_dtype, "bfloat16") << field;
    EXPECT_THAT(with(R"("bfloat16")")->notes,
                Contains(HasSubstr("bfloat16, as the config says, unless --state-dtype")));
    EXPECT_EQ(with(R"("float16")")->state_dtype, "float16");
    EXPECT_EQ(with(R"("float32")")->state_dtype, "float32");
    EXPECT_EQ(with(R"("auto")")->state_dtype, "");
    EXPECT_EQ(with("null")->state_dtype, "");
    EXPECT_THAT(refusal(with("4")), HasSubstr(field + " is 4; allowed: \"float32\""));
    EXPECT_THAT(refusal(with(R"("int8")")), HasSubstr(field + " is \"int8\"; allowed"));
  }
  EXPECT_EQ(read("qwen3_next", 4, sizes)->state_dtype, "");
}

}  // namespace
}  // namespace emblema
