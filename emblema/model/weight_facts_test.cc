// What is read of a config for the size of its weights: names, layers, absence, and bad values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/model/model_config.h"
#include "emblema/model/model_config_testing.h"

namespace emblema {
namespace {

using namespace model_testing;
using testing::HasSubstr;

constexpr std::string_view kVocabulary = R"("vocab_size": 1000, "intermediate_size": 512)";

std::string with_weights(const std::string& members) {
  return plain(std::string(kVocabulary) + (members.empty() ? "" : ", " + members));
}

std::string of_type(const std::string& type, const std::string& members, int layers = 6) {
  return "{\"model_type\": \"" + type + "\", \"num_hidden_layers\": " + std::to_string(layers) +
         R"(, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 1000, )" + members + "}";
}

WeightFacts facts_of(const std::string& json) {
  const ModelConfig config = parsed(json);
  EXPECT_TRUE(config.weights) << config.weights_missing << "\n" << json;
  return config.weights.value_or(WeightFacts{});
}

// "DDEEEE": a dense MLP or experts, in each layer; B: both, -: neither.
std::string kinds_of(const WeightFacts& facts) {
  std::string kinds;
  for (const LayerWeightFacts& layer : facts.layers) {
    const bool dense = layer.intermediate_size > 0;
    kinds += dense ? (layer.has_experts ? 'B' : 'D') : (layer.has_experts ? 'E' : '-');
  }
  return kinds;
}

TEST(WeightFacts, ADenseModelIsReadAsWritten) {
  const auto facts = facts_of(with_weights(R"("tie_word_embeddings": true, "mlp_bias": true)"));
  EXPECT_EQ(facts.vocab_size, 1000u);
  EXPECT_TRUE(facts.tie_word_embeddings);
  EXPECT_TRUE(facts.mlp_bias);
  EXPECT_FALSE(facts.attention_bias);
  EXPECT_FALSE(facts.experts);
  EXPECT_FALSE(facts.quantization);
  ASSERT_EQ(facts.layers.size(), 32u);
  EXPECT_EQ(facts.layers.back().intermediate_size, 512u);
}

TEST(WeightFacts, AMissingFieldIsNamedAndFailsNothing) {
  const ModelConfig without = parsed(plain(""));
  EXPECT_FALSE(without.weights);
  EXPECT_EQ(without.weights_missing, "vocab_size is not given");
  EXPECT_EQ(parsed(plain(R"("vocab_size": 1000)")).weights_missing,
            "intermediate_size is not given");
  EXPECT_EQ(parsed(plain(R"("vocab_size": null, "intermediate_size": 4)")).weights_missing,
            "vocab_size is not given")
      << "null is absent";
  EXPECT_EQ(parsed(with_weights(R"("num_experts": 8)")).weights_missing,
            "num_experts_per_tok is not given");
  EXPECT_EQ(parsed(R"({"num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 16,
                       "vocab_size": 10, "intermediate_size": 8})")
                .weights_missing,
            "hidden_size is not given");
}

TEST(WeightFacts, ATypeWithoutARuleIsSaidToHaveNone) {
  const ModelConfig config = parsed(of_type("bloom", R"("intermediate_size": 256)"));
  EXPECT_FALSE(config.weights);
  EXPECT_THAT(config.weights_missing, HasSubstr("model_type 'bloom'"));
  EXPECT_TRUE(parsed(of_type("never_heard_of", R"("intermediate_size": 256)")).weights)
      << "an unknown type is counted as Llama is; the config's notes say that it is unknown";
}

TEST(WeightFacts, TheLanguagePartCountsAndTheOuterTieDoes) {
  const auto facts = facts_of(R"({"model_type": "qwen3_5", "vocab_size": 7, "hidden_size": 8,
      "tie_word_embeddings": true,
      "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
      "text_config": {"model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 64,
                      "num_attention_heads": 4, "vocab_size": 1000, "intermediate_size": 256}})");
  EXPECT_EQ(facts.vocab_size, 1000u);
  EXPECT_TRUE(facts.tie_word_embeddings);
  ASSERT_TRUE(facts.quantization);
  EXPECT_EQ(facts.quantization->method, "fp8");
  EXPECT_EQ(parsed(R"({"text_config": {"num_hidden_layers": 2, "hidden_size": 64,
                       "num_attention_heads": 4}})")
                .weights_missing,
            "text_config.vocab_size is not given");
}

TEST(WeightFacts, ClassesFixWhatTheirConfigsLeaveOut) {
  const std::string dense = R"("intermediate_size": 256)";
  EXPECT_TRUE(facts_of(of_type("qwen2", dense)).attention_bias);
  EXPECT_FALSE(facts_of(of_type("qwen2", dense)).output_bias);
  EXPECT_FALSE(facts_of(of_type("qwen3", dense + R"(, "attention_bias": false)")).attention_bias);
  EXPECT_TRUE(facts_of(of_type("llama", dense + R"(, "attention_bias": true)")).output_bias);
  EXPECT_TRUE(facts_of(of_type("gemma", dense)).tie_word_embeddings);
  EXPECT_FALSE(
      facts_of(of_type("gemma", dense + R"(, "tie_word_embeddings": false)")).tie_word_embeddings);
  EXPECT_TRUE(facts_of(of_type("qwen3", dense)).qk_norm);
  EXPECT_FALSE(facts_of(of_type("glm4_moe", dense)).qk_norm) << "GLM-4.5-Air has none";
  EXPECT_TRUE(facts_of(of_type("glm4_moe", dense + R"(, "use_qk_norm": true)")).qk_norm);
}

TEST(WeightFacts, EveryNameOfExpertsIsRead) {
  for (const std::string routed :
       {"n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"}) {
    for (const std::string visited :
         {"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk"}) {
      const auto facts = facts_of(with_weights("\"" + routed + "\": 8, \"" + visited + "\": 2"));
      ASSERT_TRUE(facts.experts) << routed;
      EXPECT_EQ(facts.experts->routed, 8u);
      EXPECT_EQ(facts.experts->per_token, 2u);
      EXPECT_EQ(facts.experts->intermediate_size, 512u) << "intermediate_size, as in Mixtral";
      EXPECT_EQ(facts.experts->shared_intermediate_size, 0u);
    }
  }
  EXPECT_FALSE(facts_of(with_weights(R"("num_local_experts": 0)")).experts);
  EXPECT_FALSE(facts_of(with_weights(R"("num_experts": null)")).experts);
}

TEST(WeightFacts, SharedExpertsHaveTheirOwnWidthOrThatOfTheOthers) {
  const std::string experts = R"("num_experts": 8, "num_experts_per_tok": 2,
                                 "moe_intermediate_size": 96, )";
  const auto shared = [&](const std::string& member, const std::string& type = "llama") {
    return facts_of(of_type(type, experts + R"("intermediate_size": 256)" + member))
        .experts->shared_intermediate_size;
  };
  EXPECT_EQ(shared(""), 0u);
  EXPECT_EQ(shared(R"(, "n_shared_experts": 2)"), 192u);
  EXPECT_EQ(shared(R"(, "n_shared_experts": null)"), 0u);
  EXPECT_EQ(shared(R"(, "shared_expert_intermediate_size": 40)"), 40u);
  EXPECT_EQ(shared(R"(, "n_shared_experts": 1, "moe_shared_expert_intermediate_size": 64)"), 64u);
  EXPECT_EQ(shared("", "llama4_text"), 96u) << "Llama 4 always has one";
}

TEST(WeightFacts, WhichLayersHaveExperts) {
  const std::string experts = R"("num_experts": 8, "num_experts_per_tok": 2,
                                 "moe_intermediate_size": 96, "intermediate_size": 256)";
  const auto kinds = [&](const std::string& type, const std::string& rule) {
    return kinds_of(facts_of(of_type(type, experts + (rule.empty() ? "" : ", " + rule))));
  };
  EXPECT_EQ(kinds("mixtral", ""), "EEEEEE");
  EXPECT_EQ(kinds("deepseek_v2", R"("use_mla": false, "first_k_dense_replace": 2)"), "DDEEEE");
  EXPECT_EQ(kinds("llama", R"("first_k_dense_replace": 1, "moe_layer_freq": 2)"), "DDEDED");
  EXPECT_EQ(kinds("mimo_v2_flash", R"("moe_layer_freq": [0, 1, 1, 0, 1, 1])"), "DEEDEE");
  EXPECT_EQ(kinds("qwen3_moe", R"("decoder_sparse_step": 1, "mlp_only_layers": [])"), "EEEEEE");
  EXPECT_EQ(kinds("qwen3_moe", R"("decoder_sparse_step": 2, "mlp_only_layers": [3])"), "DEDDDE");
  EXPECT_EQ(kinds("llama4_text", R"("interleave_moe_layer_step": 2)"), "DEDEDE");
  EXPECT_EQ(kinds("never_heard_of", R"("expert_layer_period": 2, "expert_layer_offset": 1)"),
            "DEDEDE");
}

// Written by transformers 5.24.0 in place of first_k_dense_replace and moe_layer_freq.
TEST(WeightFacts, MlpLayerTypesSayWhichLayersHaveExperts) {
  const std::string experts = R"("intermediate_size": 512, "moe_intermediate_size": 128,
      "n_routed_experts": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
      "kv_lora_rank": 32, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16,
      "mlp_layer_types": )";
  const auto of_words = [&](const std::string& words) {
    return parsed(of_type("deepseek_v3", experts + words, 3));
  };
  const auto config = of_words(R"(["dense", "sparse", "dense", "sparse"])");
  ASSERT_TRUE(config.weights) << config.weights_missing;
  EXPECT_EQ(kinds_of(*config.weights), "DED");
  EXPECT_EQ(of_words(R"(["dense", "sparse"])").weights_missing,
            "mlp_layer_types[2] is no word that is read here");
  EXPECT_EQ(of_words(R"(["dense", "sparse", "sponge"])").weights_missing,
            "mlp_layer_types[2] is no word that is read here");
  EXPECT_EQ(of_words("4").weights_missing, "mlp_layer_types[0] is no word that is read here");
}

TEST(WeightFacts, LayersOfOneThingAlone) {
  const auto facts = facts_of(R"({"model_type": "nemotron_h", "num_hidden_layers": 5,
      "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 1000, "intermediate_size": 256,
      "hybrid_override_pattern": "M-E*-", "mamba_num_heads": 4, "mamba_head_dim": 16,
      "ssm_state_size": 8, "n_groups": 1, "conv_kernel": 4,
      "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 96})");
  EXPECT_EQ(kinds_of(facts), "-DE-D");
  EXPECT_TRUE(facts.mixer_norm);
  EXPECT_FALSE(facts.block.gated) << "squared ReLU: two matrices";
}

TEST(WeightFacts, DeepSeekV4sOwnFieldsAreNeeded) {
  const auto v4 = [](const std::string& members) {
    return parsed(R"({"model_type": "deepseek_v4", "num_hidden_layers": 3, "hidden_size": 64,
        "num_attention_heads": 4, "head_dim": 16, "qk_rope_head_dim": 8, "sliding_window": 8,
        "compress_rope_theta": 160000, "vocab_size": 1000, "q_lora_rank": 32,
        "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 96)" +
                  members + "}");
  };
  const std::string published = R"(, "compress_ratios": [0, 4, 128])";
  EXPECT_EQ(v4(published).weights_missing, "o_groups is not given");
  const ModelConfig config = v4(published + R"(, "o_groups": 2, "o_lora_rank": 8, "hc_mult": 4,
      "num_hash_layers": 1, "expert_dtype": "fp4", "quantization_config":
      {"quant_method": "fp8", "weight_block_size": [128, 128]})");
  ASSERT_TRUE(config.weights) << config.weights_missing;
  ASSERT_TRUE(config.weights->compressed);
  EXPECT_EQ(config.weights->compressed->o_groups, 2u);
  EXPECT_EQ(config.weights->compressed->streams, 4u);
  EXPECT_EQ(config.weights->quantization->linear->scale_bytes, 1u) << "scales are exponents";
  EXPECT_EQ(config.weights->quantization->experts->bits, 4u);
  // The same as transformers 5.24.0 writes it.
  const std::string words = R"(, "layer_types": ["sliding_attention",
      "compressed_sparse_attention", "heavily_compressed_attention"],
      "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128},
      "o_groups": 2, "o_lora_rank": 8, "hc_mult": 4, "quantization_config":
      {"quant_method": "fp8", "weight_block_size": [128, 128], "expert_dtype": "fp4"},
      "mlp_layer_types": )";
  const ModelConfig written = v4(words + R"(["hash_moe", "moe", "moe"])");
  ASSERT_TRUE(written.weights) << written.weights_missing;
  EXPECT_EQ(written.weights->compressed->hash_layers, 1u);
  EXPECT_EQ(written.weights->quantization->linear->scale_bytes, 1u);
  EXPECT_EQ(written.weights->quantization->experts->bits, 4u);
  EXPECT_EQ(kinds_of(*written.weights), kinds_of(*config.weights));
  EXPECT_EQ(v4(words + R"(["moe", "hash_moe", "moe"])").weights_missing,
            "mlp_layer_types[1] is no word that is read here")
      << "only the first layers pick by the token's number";
}

TEST(WeightFacts, Gemma4sDenseMlpStandsBesideItsExperts) {
  const auto mixture = load_model_config("gemma-4-26b-a4b");
  ASSERT_TRUE(mixture && mixture->weights);
  EXPECT_EQ(kinds_of(*mixture->weights), std::string(30, 'B'));
  EXPECT_EQ(mixture->weights->experts->per_token, 8u);
  EXPECT_TRUE(mixture->weights->keys_are_values);
  const auto small = load_model_config("gemma-4-e2b");
  ASSERT_TRUE(small && small->weights);
  EXPECT_EQ(small->weights->layers[14].intermediate_size, 6144u);
  EXPECT_EQ(small->weights->layers[15].intermediate_size, 12'288u) << "shares keys: twice as wide";
  EXPECT_EQ(small->weights->layer_embedding.width, 256u);
}

TEST(WeightFacts, LongCatsPairsShareAMixture) {
  const auto longcat = load_model_config("longcat-flash");
  ASSERT_TRUE(longcat);
  ASSERT_TRUE(longcat->weights) << longcat->weights_missing;
  const std::string kinds = kinds_of(*longcat->weights);
  ASSERT_EQ(kinds.size(), 56u) << "28 layers of two attention sublayers";
  EXPECT_EQ(kinds.substr(0, 4), "BDBD");
  EXPECT_EQ(longcat->weights->experts->identity, 256u);
}

TEST(WeightFacts, BadValuesAreOneErrorThatNamesThem) {
  const auto message = [](const std::string& members) {
    const Error error = refused(plain(members));
    EXPECT_EQ(error.code, ErrorCode::Invalid) << members;
    return error.message;
  };
  for (const std::string value : {"-1", "1.5", "\"many\"", "[]", "{}", "true", "16777217"}) {
    EXPECT_THAT(message("\"vocab_size\": " + value), HasSubstr("vocab_size is ")) << value;
  }
  EXPECT_THAT(message(R"("vocab_size": 0)"), HasSubstr("allowed: a whole number from 1"));
  EXPECT_THAT(message(R"("intermediate_size": [4, 4])"), HasSubstr("intermediate_size"));
  EXPECT_THAT(message(R"("num_experts": -8)"), HasSubstr("num_experts is -8"));
  EXPECT_THAT(message(R"("num_experts": 4, "num_experts_per_tok": 5)"),
              HasSubstr("num_experts_per_tok is 5; allowed: a whole number from 1 to 4"));
  EXPECT_THAT(message(R"("tie_word_embeddings": "no")"),
              HasSubstr("tie_word_embeddings is \"no\""));
  EXPECT_THAT(message(R"("num_experts": 4, "num_experts_per_tok": 1, "intermediate_size": 8,
                         "mlp_only_layers": [32])"),
              HasSubstr("mlp_only_layers[0] is 32"));
  EXPECT_THAT(message(R"("num_experts": 4, "num_experts_per_tok": 1, "intermediate_size": 8,
                         "decoder_sparse_step": 0)"),
              HasSubstr("decoder_sparse_step is 0"));
  EXPECT_THAT(message(R"("num_experts": 65536, "num_experts_per_tok": 1,
                         "intermediate_size": 16777216, "n_shared_experts": 65536)"),
              HasSubstr("n_shared_experts is 65536"));
  EXPECT_THAT(message(R"("quantization_config": [])"), HasSubstr("quantization_config is a list"));
}

}  // namespace
}  // namespace emblema
