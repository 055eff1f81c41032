// What is read with a note, and what is refused: unknown types, bad values, attention that is not
// counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblema/model/model_config.h"
#include "emblema/model/model_config_testing.h"

namespace emblema {
namespace {

using namespace model_testing;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(ModelRefusal, AnUnknownModelTypeIsReadWithAVisibleNote) {
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

TEST(ModelRefusal, AttentionThatCannotBeKnownIsAnError) {
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

TEST(ModelRefusal, EveryBadCountNamesFieldValueAndRange) {
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

TEST(ModelRefusal, BadValuesOfOtherFieldsAreNamed) {
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

TEST(ModelRefusal, TextThatIsNoConfigIsOneClearLine) {
  EXPECT_THAT(refused("").message, HasSubstr("test is empty"));
  EXPECT_THAT(refused("{\"num_hidden_layers\": 1").message,
              HasSubstr("test is not JSON at line 1"));
  EXPECT_THAT(refused(std::string(100'000, '[')).message, HasSubstr("deeper than 32 levels"));
  EXPECT_THAT(refused(std::string(ConfigLimits::kFileBytesMax + 1, ' ')).message,
              HasSubstr("has 16777217 bytes; allowed: up to 16777216"));
  EXPECT_THAT(refused(plain(R"("model_type": "twice")")).message, HasSubstr("given twice"));
}

TEST(ModelRefusal, WhatThisReleaseCannotCountIsRefusedByTheFieldThatAnnouncesIt) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("attention_chunk_size": 8192)", "attention_chunk_size is 8192"},
      {R"("sparse_config": {"kernel_size": 32})", "sparse_config is an object"},
      {R"("index_topk_freq": 4)", "index_topk_freq is 4"},
      {R"("tie_kv_across_layers": true)", "tie_kv_across_layers is true"},
      {R"("kv_source_layers": [0, 0, 2, 2])", "kv_source_layers is a list of 4"},
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

TEST(ModelRefusal, AttentionThatIsNotPlainIsRefusedUnderAnUnknownType) {
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

TEST(ModelRefusal, PlainAttentionIsReadUnderAnUnknownTypeWhateverItIsCalled) {
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
TEST(ModelRefusal, EncodersKeepNoCacheAndAreRefusedByTheirType) {
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

}  // namespace
}  // namespace emblema
