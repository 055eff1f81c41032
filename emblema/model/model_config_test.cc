// Facts out of config.json texts: aliases, nesting, families, and every kind of bad input. Expected
// byte counts are written as the products that define them.
#include "emblema/model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emblema {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

ModelConfig parsed(const std::string& json) {
  auto config = parse_model_config(json, "test");
  EXPECT_TRUE(config) << config.error().describe() << "\n" << json;
  return config ? *config : ModelConfig{};
}

Error refused(const std::string& json) {
  const auto config = parse_model_config(json, "test");
  EXPECT_FALSE(config) << json;
  if (config) return {ErrorCode::Io, "it was read"};
  EXPECT_EQ(config.error().message.find('\n'), std::string::npos);
  EXPECT_EQ(config.error().message.rfind("test", 0), 0u) << "the message names its source";
  return config.error();
}

// 2-byte numbers of one token that grow with the context; windows are left out.
std::uint64_t growing_bytes(const ModelConfig& config) {
  std::uint64_t bytes = 0;
  for (const LayerFacts& layer : config.layers) {
    if (layer.reach == LayerReach::kWindow) continue;
    bytes += config.family == AttentionFamily::kLatent
                 ? 2ull * (config.kv_lora_rank + config.qk_rope_head_dim)
                 : 2ull * layer.num_key_value_heads * (layer.head_dim + layer.v_head_dim);
  }
  return bytes;
}

// A plain model of 32 layers, hidden 2560, 32 heads, with more members put in.
std::string plain(const std::string& members) {
  return R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 2560,
             "num_attention_heads": 32)" +
         (members.empty() ? "" : ", " + members) + "}";
}

constexpr std::uint64_t kPlainMhaBytes = 2ull * 32 * 32 * 80 * 2;

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
  EXPECT_EQ(parsed(plain("")).max_positions, 0u);
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

TEST(ModelConfig, AnUnknownModelTypeIsReadWithAVisibleNote) {
  const std::string rest =
      R"("num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4})";
  EXPECT_THAT(parsed(R"({"model_type": "brand_new", )" + rest).notes,
              Contains(AllOf(HasSubstr("model_type 'brand_new' is not known"),
                             HasSubstr("grouped attention from num_attention_heads"))));
  EXPECT_THAT(parsed("{" + rest).notes, Contains(HasSubstr("model_type is not given")));
  EXPECT_THAT(parsed(R"({"model_type": "kimi_k9", "architectures": ["DeepseekV3ForCausalLM"],
                 "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
                 "v_head_dim": 8, )" +
                     rest)
                  .notes,
              Contains(HasSubstr("read as 'deepseek_v3' from architectures")));
  EXPECT_THAT(parsed(plain("")).notes, Not(Contains(HasSubstr("not known"))));
}

TEST(ModelConfig, AttentionThatCannotBeKnownIsAnError) {
  EXPECT_THAT(refused("{}").message, HasSubstr("num_hidden_layers is missing"));
  EXPECT_THAT(refused(R"({"num_hidden_layers": 2, "hidden_size": 64})").message,
              HasSubstr("num_attention_heads is missing"));
  EXPECT_THAT(refused(R"({"num_hidden_layers": 2, "num_attention_heads": 4})").message,
              HasSubstr("hidden_size and head_dim are missing"));
  EXPECT_THAT(
      refused(R"({"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 64})").message,
      HasSubstr("hidden_size 64 is not a multiple of num_attention_heads 3"));
  EXPECT_EQ(
      parsed(R"({"num_hidden_layers": 2, "num_attention_heads": 3, "head_dim": 64})").hidden_size,
      0u)
      << "with a head size, no cached width needs the hidden size";
}

TEST(ModelConfig, EveryBadCountNamesFieldValueAndRange) {
  for (const std::string value :
       {"0", "-1", "-32", "61.5", "1e30", "\"32\"", "true", "[]", "{}", "Infinity", "NaN", "65537",
        "18446744073709551616", "1000000000000000000000000000000"}) {
    const auto error = refused(R"({"num_attention_heads": 4, "hidden_size": 64,
                                   "num_hidden_layers": )" +
                               value + "}");
    EXPECT_EQ(error.code, ErrorCode::Invalid) << value;
    EXPECT_THAT(error.message, AllOf(HasSubstr("num_hidden_layers is "),
                                     HasSubstr("allowed: a whole number from 1 to 65536")))
        << value;
  }
  EXPECT_THAT(refused(R"({"num_hidden_layers": -5})").message, HasSubstr("is -5;"));
  EXPECT_THAT(refused(R"({"num_hidden_layers": 1e30})").message, HasSubstr("is 1e30;"));
  EXPECT_EQ(parsed(R"({"num_hidden_layers": 2.0, "num_attention_heads": 4, "head_dim": 16})")
                .num_hidden_layers,
            2u);
}

TEST(ModelConfig, BadValuesOfOtherFieldsAreNamed) {
  const auto message = [](const std::string& members) { return refused(plain(members)).message; };
  EXPECT_THAT(message(R"("num_key_value_heads": 0)"), HasSubstr("num_key_value_heads is 0"));
  EXPECT_THAT(message(R"("num_key_value_heads": 64)"), HasSubstr("64 KV heads for 32 query heads"));
  EXPECT_THAT(message(R"("num_key_value_heads": 5)"), HasSubstr("allowed: a divisor of 32"));
  EXPECT_THAT(message(R"("head_dim": -80)"), HasSubstr("head_dim is -80"));
  EXPECT_THAT(message(R"("head_dim": 16777217)"), HasSubstr("head_dim is 16777217"));
  EXPECT_THAT(message(R"("max_position_embeddings": 0)"),
              HasSubstr("max_position_embeddings is 0"));
  EXPECT_THAT(message(R"("rms_norm_eps": -1)"), HasSubstr("rms_norm_eps is -1"));
  EXPECT_THAT(message(R"("torch_dtype": 16)"), HasSubstr("torch_dtype is 16"));
  EXPECT_THAT(message(R"("use_sliding_window": 1)"), HasSubstr("use_sliding_window is 1"));
  EXPECT_THAT(message(R"("num_nextn_predict_layers": -1)"), HasSubstr("num_nextn_predict_layers"));
  EXPECT_THAT(message(R"("rope_theta": 0)"), HasSubstr("rope_theta is 0"));
  EXPECT_THAT(message(R"("attn_config": [])"), HasSubstr("attn_config is a list of 0"));
}

TEST(ModelConfig, TextThatIsNoConfigIsOneClearLine) {
  EXPECT_THAT(refused("").message, HasSubstr("test is empty"));
  EXPECT_THAT(refused("{\"num_hidden_layers\": 1").message,
              HasSubstr("test is not JSON at line 1"));
  EXPECT_THAT(refused(std::string(100'000, '[')).message, HasSubstr("deeper than 32 levels"));
  EXPECT_THAT(refused(std::string(ConfigLimits::kFileBytesMax + 1, ' ')).message,
              HasSubstr("has 16777217 bytes; allowed: up to 16777216"));
  EXPECT_THAT(refused(plain(R"("model_type": "twice")")).message, HasSubstr("given twice"));
}

TEST(ModelConfig, WhatThisReleaseCannotCountIsRefusedByTheFieldThatAnnouncesIt) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("attention_chunk_size": 8192)", "attention_chunk_size is 8192"},
      {R"("sparse_config": {"kernel_size": 32})", "sparse_config is an object"},
      {R"("index_topk_freq": 4)", "index_topk_freq is 4"},
      {R"("tie_kv_across_layers": true)", "tie_kv_across_layers is true"},
      {R"("attention_types": [[["global", "local"], 16]])", "attention_types is a list of 1"},
      {R"("mamba_d_state": 16)", "mamba_d_state is 16"},
      {R"("linear_num_value_heads": 32)", "linear_num_value_heads is 32"},
      {R"("conv_window": 2)", "conv_window is 2"},
      {R"("d_state": 16)", "d_state is 16"},
      {R"("hybrid_override_pattern": "MMXM*MMMMMMMMMMMMMMMMMMMMMMMMMMM")", "has 'X' at 2"},
      {R"("full_attention_interval": 4)", "full_attention_interval is given, but no field says"},
      {R"("time_step_limit": [0.0, Infinity], "ssm_state_size": 256)", "ssm_state_size is 256"},
  };
  for (const auto& [members, named] : cases) {
    const auto error = refused(plain(members));
    EXPECT_EQ(error.code, ErrorCode::Unsupported) << members;
    EXPECT_THAT(error.message, HasSubstr(named));
  }
  EXPECT_THAT(refused(R"({"d_model": 2560, "n_layer": 64, "ssm_cfg": {}})").message,
              HasSubstr("ssm_cfg is an object: state-space layers of the mamba_ssm package"));
  EXPECT_EQ(refused(R"({"model_type": "rwkv", "num_hidden_layers": 4})").code,
            ErrorCode::Unsupported);
  EXPECT_EQ(growing_bytes(parsed(plain(
                R"("is_encoder_decoder": false, "num_kv_shared_layers": 0, "use_cla": null,
                   "cla_share_factor": 1, "cross_attention_layers": [], "block_configs": null,
                   "mamba_d_state": null, "sparse_config": {}, "attention_chunk_size": null)"))),
            kPlainMhaBytes)
      << "the same fields switched off mean nothing";
}

// A plain model of a type that nobody here knows.
std::string unknown(const std::string& members) {
  return R"({"model_type": "never_heard_of", "num_hidden_layers": 4, "hidden_size": 64,
             "num_attention_heads": 4, )" +
         members + "}";
}

TEST(ModelConfig, AttentionThatIsNotPlainIsRefusedUnderAnUnknownType) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("attention_window": 512)", "attention_window is 512, but which layers slide"},
      {R"("attention_window": [512, 512])", "attention_window is a list of 2"},
      {R"("local_attention_window": 256)", "local_attention_window is 256"},
      {R"("attention_type": "block_sparse")", "attention_type is \"block_sparse\""},
      {R"("attention_type": "mla")", "attention_type is \"mla\", but what it keeps"},
      {R"("attention_type": ["local", "global"])", "attention_type is a list of 2"},
      {R"("d_state": 16)", "d_state is 16"},
      {R"("add_cross_attention": true)", "add_cross_attention is true"},
      {R"("is_encoder_decoder": true)", "is_encoder_decoder is true, but which sizes"},
  };
  for (const auto& [members, named] : cases) {
    const auto error = refused(unknown(members));
    EXPECT_EQ(error.code, ErrorCode::Unsupported) << members;
    EXPECT_THAT(error.message, HasSubstr(named));
  }
  EXPECT_THAT(refused(R"({"is_encoder_decoder": true, "text_config": )" +
                      unknown(R"("head_dim": 16)") + "}")
                  .message,
              HasSubstr("test: is_encoder_decoder is true"));
}

TEST(ModelConfig, PlainAttentionIsReadUnderAnUnknownTypeWhateverItIsCalled) {
  for (const std::string members :
       {R"("attention_type": "full")", R"("attention_type": "multi-head")",
        R"("attention_type": "Grouped Query")", R"("attention_type": null)",
        R"("attention_type": "flash_attention_2")", R"("attention_window": 0)",
        R"("attention_window": null, "local_attention_window": null, "d_state": 0)",
        R"("add_cross_attention": false, "is_encoder_decoder": false)"}) {
    EXPECT_EQ(growing_bytes(parsed(unknown(members))), 2ull * 4 * 64 * 2) << members;
  }
  EXPECT_EQ(parsed(unknown(R"("attention_type": "mla", "kv_lora_rank": 8, "qk_rope_head_dim": 4,
                              "qk_nope_head_dim": 8, "v_head_dim": 8)"))
                .family,
            AttentionFamily::kLatent);
}

// Their sizes have the names of a decoder's: BERT was read as 12 layers of keys and values.
TEST(ModelConfig, EncodersKeepNoCacheAndAreRefusedByTheirType) {
  const auto of_type = [](const std::string& type, const std::string& more) {
    return R"({"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12,
               "model_type": ")" +
           type + "\"" + more + "}";
  };
  for (const std::string type :
       {"bert", "roberta", "distilbert", "xlm-roberta", "modernbert", "clip", "clip_vision_model",
        "clip_text_model", "vit", "siglip", "siglip_vision_model", "dinov2", "wav2vec2"}) {
    const auto error = refused(of_type(type, ""));
    EXPECT_EQ(error.code, ErrorCode::Unsupported) << type;
    EXPECT_THAT(error.message, HasSubstr("model_type '" + type + "' keeps no KV cache"));
  }
  EXPECT_THAT(refused(R"({"model_type": "clip", "text_config": {"num_hidden_layers": 12,
                  "hidden_size": 512, "num_attention_heads": 8}})")
                  .message,
              HasSubstr("model_type 'clip' keeps no KV cache"));
  EXPECT_EQ(growing_bytes(parsed(of_type("bert", R"(, "is_decoder": true)"))),
            2ull * 12 * 12 * 64 * 2)
      << "a BERT that decodes";
  for (const std::string type : {"retnet", "rwkv"}) {
    const auto error = refused(of_type(type, ""));
    EXPECT_EQ(error.code, ErrorCode::Unsupported) << type;
    EXPECT_THAT(error.message, HasSubstr("model_type is \"" + type + "\""));
  }
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
