// Facts out of config.json texts: aliases, nesting, families, and every kind of bad input. Expected
// byte counts are written as the products that define them.
#include "emblema/model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/model/model_config_testing.h"

namespace emblema {
namespace {

using namespace model_testing;

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// LMCache issue 688: head size taken as hidden / heads although head_dim is declared.
TEST(ModelConfig, ADeclaredHeadDimWinsOverHiddenDividedByHeads) {
  const auto config = parsed(R"({"model_type": "qwen3", "num_hidden_layers": 28,
      "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128})");
  EXPECT_EQ(growing_bytes(config), 114'688u);
  EXPECT_EQ(growing_bytes(config), 2ull * 28 * 8 * 128 * 2);
}

// AMD-SHARK-ModelDev pull 388: a null KV head count was not read as "as many as query heads".
TEST(ModelConfig, NullAndMissingKeyValueHeadsBothMeanAllHeads) {
  for (const std::string members : {R"("num_key_value_heads": null)", ""}) {
    const auto config = parsed(plain(members));
    EXPECT_EQ(growing_bytes(config), kPlainMhaBytes);
    EXPECT_EQ(growing_bytes(config), 327'680u);
  }
}

// omlx pull 1448, transformers issue 37515: the vision sizes of the outer level were read.
TEST(ModelConfig, TheLanguagePartIsReadNotTheVisionSizesAroundIt) {
  for (const std::string key : {"text_config", "language_config", "llm_config"}) {
    const auto config = parsed(R"({"model_type": "some_vl", "hidden_size": 1152,
        "num_hidden_layers": 33, "num_attention_heads": 16, "torch_dtype": "bfloat16", ")" +
                               key + R"(": {"model_type": "qwen3", "num_hidden_layers": 40,
        "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128}})");
    EXPECT_EQ(growing_bytes(config), 163'840u) << key;
    EXPECT_EQ(config.hidden_size, 4096u);
    EXPECT_EQ(config.model_type, "qwen3");
    EXPECT_EQ(config.torch_dtype, "bfloat16") << "the data type may come from outside";
  }
}

// Not looked into: the outer, vision sizes were read without a word.
TEST(ModelConfig, ALanguageModelIsTheLanguagePartWhereItIsAnObjectOfLayers) {
  const std::string inner = R"({"model_type": "qwen3", "num_hidden_layers": 40,
      "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128})";
  const std::string outer = R"("model_type": "some_vl", "hidden_size": 1152,
      "num_hidden_layers": 33, "num_attention_heads": 16)";
  EXPECT_EQ(growing_bytes(parsed("{" + outer + R"(, "language_model": )" + inner + "}")), 163'840u);
  EXPECT_EQ(growing_bytes(parsed("{" + outer + R"(, "language_model": {"model": )" + inner + "}}")),
            163'840u);
  const std::uint64_t outer_bytes = 2ull * 33 * 16 * 72 * 2;
  for (const std::string other : {R"("vicuna-7b")", "null", "{}", R"({"hidden_size": 7})", "5"}) {
    EXPECT_EQ(growing_bytes(parsed("{" + outer + R"(, "language_model": )" + other + "}")),
              outer_bytes)
        << other;
  }
  EXPECT_THAT(refused(R"({"language_model": {"num_hidden_layers": 4}})").message,
              HasSubstr("language_model.num_attention_heads is missing"));
}

TEST(ModelConfig, AModelOrDecoderInsideIsReadOnlyWhereNothingElseDescribesOne) {
  const std::string inner = R"({"model_type": "qwen3", "num_hidden_layers": 40,
      "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128})";
  for (const std::string key : {"model", "decoder"}) {
    EXPECT_EQ(growing_bytes(parsed(R"({"model_type": "wrapped", ")" + key + "\": " + inner + "}")),
              163'840u)
        << key;
    const auto both = parsed(plain("\"" + key + "\": " + inner));
    EXPECT_EQ(growing_bytes(both), kPlainMhaBytes) << key;
    EXPECT_THAT(both.notes, Contains(HasSubstr(key + " describes layers too and is not read")));
    EXPECT_THAT(parsed(plain("\"" + key + R"(": "a/path")")).notes,
                Not(Contains(HasSubstr("is not read"))));
  }
}

// A nested config took its class' positions with a note, a plain one none and in silence.
TEST(ModelConfig, PositionsThatAreNotGivenAreTheClassDefaultsNestedOrNot) {
  const std::string sizes = R"("model_type": "mistral", "num_hidden_layers": 2, "hidden_size": 64,
      "num_attention_heads": 4)";
  const std::string more = R"(, "model_max_length": 512)";
  for (const bool nested : {false, true}) {
    const auto read = [nested](const std::string& members) {
      return parsed(nested ? R"({"text_config": {)" + members + "}}" : "{" + members + "}");
    };
    EXPECT_EQ(read(sizes).max_positions, 131'072u) << nested;
    EXPECT_THAT(read(sizes).notes, Contains(HasSubstr("max_position_embeddings is not given: "
                                                      "131072 is assumed, as in MistralConfig")));
    EXPECT_EQ(read(sizes + more).max_positions, 512u) << nested;
    EXPECT_EQ(read(sizes + R"(, "n_positions": 262144)").max_positions, 262'144u) << nested;
    EXPECT_THAT(read(sizes + more).notes, Not(Contains(HasSubstr("as in MistralConfig"))));
  }
}

TEST(ModelConfig, NestingMayGoTwoLevelsDeepAndNamesThePath) {
  const std::string inner = R"({"num_hidden_layers": 4, "num_attention_heads": 0})";
  EXPECT_THAT(refused(R"({"thinker_config": {"text_config": )" + inner + "}}").message,
              HasSubstr("thinker_config.text_config.num_attention_heads is 0"));
  EXPECT_THAT(refused(R"({"text_config": 5})").message, HasSubstr("text_config is 5"));
}

TEST(ModelConfig, AnOuterValueNeverFillsAGapOfTheLanguagePart) {
  const auto error = refused(R"({"num_attention_heads": 16, "num_hidden_layers": 24,
      "text_config": {"model_type": "qwen2", "num_hidden_layers": 4, "hidden_size": 64}})");
  EXPECT_THAT(error.message, HasSubstr("text_config.num_attention_heads is missing"));
}

TEST(ModelConfig, AVisionConfigBesideAFlatModelIsNeverRead) {
  const auto config = parsed(plain(R"("num_key_value_heads": 8, "vision_config":
      {"num_hidden_layers": 99, "num_attention_heads": 3, "num_key_value_heads": 3,
       "head_dim": 7, "sliding_window": 5, "is_encoder_decoder": true})"));
  EXPECT_EQ(growing_bytes(config), 2ull * 32 * 8 * 80 * 2);
}

TEST(ModelConfig, ANestedLlamaWithoutSizesTakesItsClassDefaultsAndSaysSo) {
  const auto config = parsed(R"({"model_type": "llava", "text_config": {"model_type": "llama",
      "max_position_embeddings": 4096, "torch_dtype": "float16"}})");
  EXPECT_EQ(growing_bytes(config), 2ull * 32 * 32 * 128 * 2);
  EXPECT_THAT(config.notes, Contains(HasSubstr("num_attention_heads is not given: 32")));
  EXPECT_THAT(refused(R"({"model_type": "llama", "hidden_size": 8})").message,
              HasSubstr("num_hidden_layers is missing"))
      << "a plain config has no such excuse";
}

// Gemma-3 4B and 12B leave counts to Gemma3TextConfig; 12B's 3840 / 16 = 240 is not its head size.
TEST(ModelConfig, Gemma3TakesHeadSizesFromItsClass) {
  const auto config = parsed(R"({"model_type": "gemma3", "text_config": {
      "model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34,
      "sliding_window": 1024}})");
  EXPECT_EQ(config.num_attention_heads, 8u);
  EXPECT_EQ(config.layers[0].num_key_value_heads, 4u);
  EXPECT_EQ(config.layers[0].head_dim, 256u);
  EXPECT_EQ(config.max_positions, 131'072u);
}

TEST(ModelConfig, EveryNameOfTheKeyValueHeads) {
  for (const std::string key : {"n_head_kv", "num_kv_heads", "num_key_value_heads",
                                "num_attention_groups", "num_query_groups", "n_kv_heads",
                                "num_key_value_heads_per_layer", "multi_query_group_num"}) {
    EXPECT_EQ(growing_bytes(parsed(plain("\"" + key + "\": 4"))), 2ull * 32 * 4 * 80 * 2) << key;
  }
  EXPECT_EQ(growing_bytes(parsed(plain(R"("attn_config": {"kv_n_heads": 4})"))),
            2ull * 32 * 4 * 80 * 2);
  EXPECT_EQ(
      growing_bytes(parsed(plain(R"("multi_query_attention": false, "multi_query_group_num": 4)"))),
      kPlainMhaBytes);
}

TEST(ModelConfig, AMisspeltKeyOfTheKeyValueHeadsIsNeverSilent) {
  for (const std::string key :
       {"num_key_values_heads", "num_kv_head", "n_kv_heads_", "numKVHeads", "kv_n_heads"}) {
    const auto config = parsed(plain("\"" + key + "\": 8"));
    EXPECT_EQ(growing_bytes(config), kPlainMhaBytes);
    EXPECT_THAT(config.notes,
                Contains("num_key_value_heads is not given: as many as attention heads are "
                         "assumed; '" +
                         key + "' is not known"));
  }
  EXPECT_THAT(parsed(plain(R"("attn_config": {"n_kv_heads": 8})")).notes,
              Contains(HasSubstr("'attn_config.n_kv_heads' is not known")));
}

TEST(ModelConfig, FieldsThatOnlyResembleKeyValueHeadsSayNothing) {
  for (const std::string members :
       {R"("num_key_value_heads": null)", R"("num_kv_head": null)", R"("kv_head_dim": 80)",
        R"("share_kv_heads": false)", R"("num_global_key_value_heads": null)",
        R"("encoder_num_key_value_heads": 8)", R"("num_kv_head": 8, "num_kv_heads": 8)",
        R"("multi_query_group_num": 4, "n_kv_heads_": 4)"}) {
    EXPECT_THAT(parsed(plain(members)).notes, Not(Contains(HasSubstr("is not known")))) << members;
  }
}

TEST(ModelConfig, EveryNameOfTheLayersHeadsAndHiddenSize) {
  const auto config_of = [](const std::string& layers, const std::string& heads,
                            const std::string& hidden) {
    return "{\"model_type\": \"llama\", \"" + layers + "\": 3, \"" + heads + "\": 4, \"" + hidden +
           "\": 64}";
  };
  const std::uint64_t bytes = 2ull * 3 * 4 * 16 * 2;
  for (const std::string name : {"num_hidden_layers", "n_layer", "n_layers", "num_layers",
                                 "num_transformer_layers", "decoder_layers"}) {
    EXPECT_EQ(growing_bytes(parsed(config_of(name, "n_head", "n_embd"))), bytes) << name;
  }
  for (const std::string name : {"num_attention_heads", "n_head", "n_heads", "num_heads",
                                 "num_query_heads", "decoder_attention_heads"}) {
    EXPECT_EQ(growing_bytes(parsed(config_of("n_layer", name, "n_embd"))), bytes) << name;
  }
  for (const std::string name : {"hidden_size", "n_embd", "d_model", "model_dim"}) {
    EXPECT_EQ(growing_bytes(parsed(config_of("n_layer", "n_head", name))), bytes) << name;
  }
}

TEST(ModelConfig, EveryNameOfTheHeadSizeAndZeroOrNullMeansAbsent) {
  for (const std::string key :
       {"head_dim", "attention_head_dim", "hidden_size_per_head", "kv_channels"}) {
    EXPECT_EQ(parsed(plain("\"" + key + "\": 64")).layers[0].head_dim, 64u) << key;
    EXPECT_EQ(parsed(plain("\"" + key + "\": 0")).layers[0].head_dim, 80u) << key;
    EXPECT_EQ(parsed(plain("\"" + key + "\": null")).layers[0].head_dim, 80u) << key;
  }
  const auto unequal = parsed(plain(R"("head_dim": 192, "v_head_dim": 128)"));
  EXPECT_EQ(growing_bytes(unequal), 2ull * 32 * 32 * (192 + 128));
}

TEST(ModelConfig, FalconsOldDecoderHasOneKeyValueHeadWhateverItDeclares) {
  const std::string falcon = R"({"model_type": "falcon", "num_hidden_layers": 2,
      "hidden_size": 4544, "num_attention_heads": 71, "num_kv_heads": 71)";
  EXPECT_EQ(parsed(falcon + R"(, "multi_query": true})").layers[0].num_key_value_heads, 1u);
  EXPECT_EQ(parsed(falcon + R"(, "multi_query": false})").layers[0].num_key_value_heads, 71u);
  EXPECT_EQ(parsed(falcon + R"(, "multi_query": true, "new_decoder_architecture": true})")
                .layers[0]
                .num_key_value_heads,
            71u);
}

TEST(ModelConfig, ListsGiveEachLayerItsHeads) {
  const auto config = parsed(R"({"model_type": "openelm", "num_transformer_layers": 3,
      "model_dim": 1280, "head_dim": 64, "num_kv_heads": [3, 4, 5],
      "num_query_heads": [12, 16, 20]})");
  EXPECT_EQ(growing_bytes(config), 2ull * 2 * 64 * (3 + 4 + 5));
  EXPECT_EQ(config.layers[1].num_attention_heads, 16u);
  EXPECT_EQ(config.num_attention_heads, 20u);
  EXPECT_THAT(refused(R"({"num_hidden_layers": 3, "num_attention_heads": 8, "hidden_size": 64,
                          "num_kv_heads": [4, 4]})")
                  .message,
              HasSubstr("num_kv_heads has 2 entries; allowed: one for each of the 3 layers"));
  EXPECT_THAT(refused(R"({"num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 64,
                          "num_kv_heads": [4, -4]})")
                  .message,
              HasSubstr("num_kv_heads[1] is -4"));
}

TEST(ModelConfig, TwoNamesThatDisagreeAreToldApart) {
  const auto config = parsed(plain(R"("num_kv_heads": 8, "num_key_value_heads": 4)"));
  EXPECT_EQ(config.layers[0].num_key_value_heads, 8u);
  EXPECT_THAT(config.notes, Contains(AllOf(HasSubstr("num_kv_heads (8)"), HasSubstr("(4)"))));
  EXPECT_THAT(parsed(plain(R"("num_kv_heads": 8, "num_key_value_heads": 8)")).notes,
              Not(Contains(HasSubstr("disagree"))));
}

TEST(ModelConfig, LatentAttentionIgnoresKeyValueHeadsAndDeclaredHeadSize) {
  const std::string latent = R"({"model_type": "deepseek_v3", "num_hidden_layers": 61,
      "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128, "head_dim": 72,
      "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128)";
  const auto config = parsed(latent + R"(, "q_lora_rank": 1536})");
  EXPECT_EQ(config.family, AttentionFamily::kLatent);
  EXPECT_EQ(growing_bytes(config), 70'272u);
  EXPECT_EQ(config.q_lora_rank, 1536u);
  EXPECT_EQ(parsed(latent + R"(, "q_lora_rank": null})").q_lora_rank, std::nullopt);
  EXPECT_EQ(parsed(latent + R"(, "use_mla": false})").family, AttentionFamily::kGrouped);
  EXPECT_THAT(refused(R"({"model_type": "deepseek_v3", "num_hidden_layers": 2,
      "num_attention_heads": 2, "kv_lora_rank": 512})")
                  .message,
              HasSubstr("qk_rope_head_dim is missing"));
}

// DeepSeek-V3 without its rank was read as 128 heads of keys and values: 41 times its size.
TEST(ModelConfig, LatentAttentionWithoutItsRankIsNeverReadAsHeads) {
  const std::string sizes = R"("num_hidden_layers": 61, "hidden_size": 7168,
      "num_attention_heads": 128, "num_key_value_heads": 128)";
  const std::string widths = R"(, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
      "qk_nope_head_dim": 128, "v_head_dim": 128)";
  for (const std::string model_type : {"deepseek_v3", "never_heard_of"}) {
    for (const std::string rank : {"", R"(, "kv_lora_rank": null)"}) {
      const auto error =
          refused(R"({"model_type": ")" + model_type + "\", " + sizes + widths + rank + "}");
      EXPECT_EQ(error.code, ErrorCode::Invalid);
      EXPECT_THAT(error.message,
                  HasSubstr("kv_lora_rank is missing; allowed: 1 to 16777216; qk_nope_head_dim is "
                            "given, which only latent attention has"));
    }
  }
  for (const std::string model_type :
       {"deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "kimi_k2",
        "kimi_linear", "longcat_flash", "longcat_flash_ngram", "minicpm3", "mistral4"}) {
    EXPECT_THAT(refused(R"({"model_type": ")" + model_type + "\", " + sizes + "}").message,
                HasSubstr("kv_lora_rank is missing; allowed: 1 to 16777216; a model of type '" +
                          model_type + "' has latent attention"));
  }
  EXPECT_THAT(refused(R"({"text_config": {)" + sizes + widths + "}}").message,
              HasSubstr("text_config.kv_lora_rank is missing"));
}

// DeepSeek-VL2 and DeepSeek-OCR: heads under the type of a latent model, the widths 0.
TEST(ModelConfig, HeadsOfALatentFamilyAreReadWhereLatentsAreSwitchedOff) {
  const auto config = parsed(R"({"model_type": "deepseek_v2", "num_hidden_layers": 12,
      "hidden_size": 1280, "num_attention_heads": 10, "num_key_value_heads": 10,
      "use_mla": false, "kv_lora_rank": null, "q_lora_rank": null, "qk_nope_head_dim": 0,
      "qk_rope_head_dim": 0, "v_head_dim": 0})");
  EXPECT_EQ(config.family, AttentionFamily::kGrouped);
  EXPECT_EQ(growing_bytes(config), 2ull * 12 * 10 * 128 * 2);
  EXPECT_EQ(parsed(plain(R"("qk_nope_head_dim": 0)")).family, AttentionFamily::kGrouped);
}

// DeepSeek-V3 issue 19, llama.cpp pull 28630: the draft layer was counted with the others.
TEST(ModelConfig, DraftLayersAreRecordedNeverCounted) {
  for (const std::string layers : {"61", "2", "8"}) {
    const auto config = parsed(R"({"model_type": "deepseek_v3", "num_attention_heads": 128,
        "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
        "num_nextn_predict_layers": 1, "num_hidden_layers": )" +
                               layers + "}");
    EXPECT_EQ(config.num_nextn_predict_layers, 1u);
    EXPECT_EQ(growing_bytes(config), 1152u * std::stoul(layers));
  }
}

TEST(ModelConfig, SparseIndexersSitOnTheLayersThatAreNotShared) {
  const std::string sparse = R"({"model_type": "glm_moe_dsa", "num_hidden_layers": 3,
      "num_attention_heads": 4, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
      "qk_nope_head_dim": 192, "v_head_dim": 256, "index_topk": 2048)";
  const auto all = parsed(sparse + R"(, "index_head_dim": 128, "index_n_heads": 32})");
  EXPECT_TRUE(all.layers[0].has_indexer && all.layers[2].has_indexer);
  EXPECT_EQ(all.index_head_dim, 128u);
  const auto some = parsed(
      sparse + R"(, "index_head_dim": 128, "indexer_types": ["full", "shared", "full", "full"]})");
  EXPECT_TRUE(some.layers[0].has_indexer);
  EXPECT_FALSE(some.layers[1].has_indexer);
  EXPECT_THAT(refused(sparse + "}").message, HasSubstr("index_head_dim is missing"));
  EXPECT_EQ(refused(sparse + R"(, "index_head_dim": 128, "indexer_types": ["a", "b", "c"]})").code,
            ErrorCode::Unsupported);
}

TEST(ModelConfig, DeepSeekV4ReadsTheRatioOfEachLayerNotTheLastOne) {
  const std::string v4 = R"({"model_type": "deepseek_v4", "num_hidden_layers": 3,
      "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 1, "head_dim": 512,
      "qk_rope_head_dim": 64, "rope_theta": 10000, "compress_rope_theta": 160000,
      "rope_scaling": {"rope_type": "yarn", "factor": 16,
                       "original_max_position_embeddings": 65536})";
  const auto config =
      parsed(v4 + R"(, "sliding_window": 128, "compress_ratios": [0, 4, 128, 0, 0, 0]})");
  ASSERT_EQ(config.layers.size(), 3u);
  EXPECT_EQ(config.family, AttentionFamily::kCompressed);
  EXPECT_EQ(config.layers[0].compress_ratio, 0u);
  EXPECT_EQ(config.layers[1].compress_ratio, 4u);
  EXPECT_EQ(config.layers[2].compress_ratio, 128u);
  EXPECT_FALSE(config.layers[0].has_indexer || config.layers[2].has_indexer);
  EXPECT_TRUE(config.layers[1].has_indexer);
  for (const LayerFacts& layer : config.layers) {
    EXPECT_EQ(layer.reach, LayerReach::kWindow) << "every layer has the window branch";
    EXPECT_EQ(layer.window_tokens, 128u);
    EXPECT_EQ(layer.head_dim, 512u);
    EXPECT_TRUE(layer.has_sinks);
  }
  EXPECT_THAT(config.notes, Contains(HasSubstr("128, 64 and 512 are assumed")));
  EXPECT_THAT(refused(v4 + R"(, "sliding_window": 128, "compress_ratios": [0, 4]})").message,
              HasSubstr("compress_ratios has 2 entries"));
  EXPECT_THAT(refused(v4 + R"(, "sliding_window": 128, "compress_ratios": [0, 4, 7]})").message,
              HasSubstr("compress_ratios[2] is 7; allowed: 0, 4 or 128"));
  EXPECT_THAT(refused(v4 + R"(, "compress_ratios": [0, 4, 128]})").message,
              HasSubstr("sliding_window is missing"));
  EXPECT_THAT(refused(v4 + R"(, "sliding_window": 128})").message,
              HasSubstr("compress_ratios is missing"));
}

TEST(ModelConfig, TheShortestLengthBindsUnlessModelMaxLengthOverrides) {
  EXPECT_EQ(parsed(plain(R"("max_position_embeddings": 4096, "seq_length": 2048)")).max_positions,
            2048u);
  EXPECT_EQ(
      parsed(plain(R"("max_position_embeddings": 8192, "model_max_length": 131072)")).max_positions,
      131'072u);
  EXPECT_EQ(parsed(R"({"model_type": "phi", "num_hidden_layers": 2, "hidden_size": 64,
      "num_attention_heads": 4})")
                .max_positions,
            0u);
}

TEST(ModelConfig, SoftmaxFactsOfGemmaAndGranite) {
  const auto gemma = parsed(
      plain(R"("query_pre_attn_scalar": 144, "attn_logit_softcapping": 50.0, "head_dim": 128)"));
  EXPECT_EQ(gemma.query_pre_attn_scalar, 144.0);
  EXPECT_EQ(gemma.attn_logit_softcapping, 50.0);
  const auto granite = parsed(plain(R"("attention_multiplier": 0.0078125)"));
  EXPECT_EQ(granite.query_pre_attn_scalar, 16384.0) << "1 / sqrt(16384) = 0.0078125";
  EXPECT_EQ(parsed(plain("")).attn_logit_softcapping, std::nullopt);
}

TEST(ModelConfig, LongCatsLayersHoldTwoAttentionSublayers) {
  const auto config = parsed(R"({"model_type": "longcat_flash", "num_layers": 28,
      "num_attention_heads": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
      "qk_nope_head_dim": 128, "v_head_dim": 128})");
  EXPECT_EQ(growing_bytes(config), 56ull * 576 * 2);
  EXPECT_THAT(config.notes, Contains(HasSubstr("read as 56 attention layers")));
}

TEST(ModelConfig, OnlySlidingLayersOfMiMoV2HaveSinksAndTheirOwnHeads) {
  const auto config = parsed(R"({"model_type": "mimo_v2_flash", "num_hidden_layers": 2,
      "hidden_size": 4096, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 192,
      "v_head_dim": 128, "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
      "sliding_window": 128, "attention_chunk_size": 128, "hybrid_layer_pattern": [0, 1],
      "add_swa_attention_sink_bias": true, "add_full_attention_sink_bias": false,
      "rope_theta": 5000000, "swa_rope_theta": 10000, "partial_rotary_factor": 0.334})");
  EXPECT_EQ(growing_bytes(config), 4ull * (192 + 128) * 2);
  EXPECT_EQ(config.layers[1].num_key_value_heads, 8u);
  EXPECT_EQ(config.layers[1].window_tokens, 128u);
  EXPECT_TRUE(config.has_attention_sinks && config.layers[1].has_sinks);
  EXPECT_FALSE(config.layers[0].has_sinks);
  EXPECT_EQ(config.layers[0].rope.theta, 5e6);
  EXPECT_EQ(config.layers[1].rope.theta, 1e4);
  EXPECT_EQ(config.layers[0].rope.rotary_dim, 64u) << "the whole part of 0.334 x 192";
}

}  // namespace
}  // namespace emblema
