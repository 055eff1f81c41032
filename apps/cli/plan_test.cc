// `emblema plan` against published figures and public bugs of other planners: tests are named after
// what failed there. Every number is computed here from heads, ranks and layers, or copied from the
// report.
#include "apps/cli/command_testing.h"

namespace emblema {
namespace {

using command_testing::expect_refused;
using command_testing::json_of;
using command_testing::run_command;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

json rank_of(const std::vector<std::string>& arguments, const std::string& config = {}) {
  std::vector<std::string> all = {"plan", "-"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return json_of(all, config).at("ranks").at(0);
}

constexpr const char* kDeepseekV3 = R"({"model_type": "deepseek_v3", "num_hidden_layers": 61,
    "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "q_lora_rank": 1536, "torch_dtype": "bfloat16"})";

TEST(Plan, DeclaredHeadDimIsNotDerivedFromHiddenSize) {
  // Qwen3-0.6B; LMCache issue 688 had half of it.
  const json rank = rank_of({}, R"({"model_type": "qwen3", "num_hidden_layers": 28,
      "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
      "torch_dtype": "bfloat16"})");
  EXPECT_EQ(rank.at("growing_bytes_per_token"), 2 * 28 * 8 * 128 * 2);
}

TEST(Plan, MissingAndNullKvHeadsAreAsManyAsHeads) {
  // Phi-2; AMD-SHARK-ModelDev pull request 388.
  for (const char* kv_heads : {R"("num_key_value_heads": null,)", ""}) {
    const std::string config =
        std::string(R"({"model_type": "phi", "num_hidden_layers": 32, "hidden_size": 2560,)") +
        kv_heads + R"("num_attention_heads": 32, "torch_dtype": "float16"})";
    EXPECT_EQ(rank_of({"--kv-dtype", "fp16"}, config).at("growing_bytes_per_token"), 327'680);
  }
}

TEST(Plan, TextPartOfAMultimodalConfigCounts) {
  // omlx pull request 1448 and transformers issue 37515 read the outer level: 152,064.
  for (const std::string key : {"text_config", "language_config", "llm_config"}) {
    const std::string config =
        R"({"model_type": "some_vl", "hidden_size": 1152, "num_hidden_layers": 33,
            "num_attention_heads": 16, ")" +
        key + R"(": {"model_type": "qwen3", "num_hidden_layers": 40, "hidden_size": 4096,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}})";
    EXPECT_EQ(rank_of({}, config).at("growing_bytes_per_token"), 163'840);
  }
}

TEST(Plan, SlidingLayersAreNeitherLeftOutNorCountedAsFull) {
  // gpt-oss-120b; hf-mem issue 60.
  std::string types;
  for (int i = 0; i < 18; ++i) {
    types += std::string(i == 0 ? "" : ",") + R"("sliding_attention","full_attention")";
  }
  const json plan = json_of({"plan", "-", "--at", "1,128,129,8192"},
                            R"({"model_type": "gpt_oss", "num_hidden_layers": 36,
      "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
      "sliding_window": 128, "torch_dtype": "bfloat16", "layer_types": [)" +
                                types + "]}");
  const json& rank = plan.at("ranks").at(0);
  EXPECT_EQ(rank.at("growing_bytes_per_token"), 36'864);
  EXPECT_EQ(rank.at("fixed_bytes_per_sequence"), 18 * 2048 * 128);
  const json& bytes = rank.at("bytes_per_sequence");
  EXPECT_EQ(bytes.at("1"), 73'728);
  EXPECT_EQ(bytes.at("128"), 36 * 2048 * 128);
  EXPECT_EQ(bytes.at("129"), 36 * 2048 * 128 + 18 * 2048);
  EXPECT_EQ(bytes.at("8192"), 306'708'480);
  EXPECT_EQ(rank.at("growing_bytes_per_sequence").at("8192"), 18 * 2048 * 8192);
  EXPECT_EQ(plan.at("layers").at(0).at("window_tokens"), 128);
  EXPECT_TRUE(plan.at("layers").at(1).at("window_tokens").is_null());
  EXPECT_EQ(plan.at("groups").at(1).at("name"), "window 128");
}

TEST(Plan, WindowSwitchedOffPartlyOnAndBoundAtTheLastLayer) {
  // Qwen2-7B; vLLM issues 15705 and 17306, transformers issue 40126.
  const auto bytes = [](const std::string& window) {
    return rank_of({"--at", "32768"}, R"({"model_type": "qwen2", "num_hidden_layers": 28,
        "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
        "sliding_window": 4096, "torch_dtype": "bfloat16", )" +
                                          window + "}")
        .at("bytes_per_sequence")
        .at("32768");
  };
  EXPECT_EQ(bytes(R"("use_sliding_window": false, "max_window_layers": 21)"), 1'879'048'192);
  EXPECT_EQ(bytes(R"("use_sliding_window": true, "max_window_layers": 21)"), 1'468'006'400);
  EXPECT_EQ(bytes(R"("use_sliding_window": true, "max_window_layers": 28)"), 1'879'048'192);
}

TEST(Plan, LatentIsOneRowNotAKeyAndAValue) {
  // vLLM pull request 46145, TensorRT-LLM issue 2738: halved by heads or doubled.
  const json rank = rank_of({"--pool", "40GiB", "--at", "131072"}, kDeepseekV3);
  EXPECT_EQ(rank.at("growing_bytes_per_token"), 70'272);
  EXPECT_EQ(rank.at("name"), "tp0");
  EXPECT_EQ(rank.at("blocks"), 9549);
  EXPECT_EQ(rank.at("tokens"), 611'136);
  EXPECT_EQ(rank.at("context_tokens"), 131'072);
  EXPECT_EQ(rank.at("concurrency"), 4);
  EXPECT_EQ(rank.at("engine_options").at("sequence_tokens"), 131'072);
  EXPECT_EQ(rank.at("engine_options").at("snapshot_bytes"), 0);
  EXPECT_FALSE(rank_of({}, kDeepseekV3).contains("blocks"));
}

// TensorRT-LLM pull request 5371: 2 layers attend, 6 of 14 keep (64 x 64 x 128 + 6,144 x 3)
// numbers.
TEST(Plan, TheStateOfAHybridIsStoredAsAsked) {
  const std::string config = R"({"model_type": "nemotron_h", "num_hidden_layers": 14,
      "hybrid_override_pattern": "M-M-M*-M-M-M*-", "hidden_size": 4096, "num_attention_heads": 32,
      "num_key_value_heads": 8, "head_dim": 128, "mamba_num_heads": 64, "mamba_head_dim": 64,
      "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4})";
  const auto state = [&config](const std::vector<std::string>& options) {
    return rank_of(options, config).at("state_bytes_per_sequence");
  };
  EXPECT_EQ(state({}), 12'804'096);
  EXPECT_EQ(state({"--state-dtype", "bf16"}), 6'512'640);
  EXPECT_EQ(state({"--state-dtype", "fp16"}), 6'512'640);
  EXPECT_EQ(rank_of({"--state-dtype", "bf16"}, config).at("growing_bytes_per_token"), 8'192);
  expect_refused(run_command({"run", "--state-dtype", "bf16"}),
                 HasSubstr("unknown option --state-dtype"));
}

// BART: 12 decoder layers, each with rows of 2 x 1,024 numbers for every token of the encoder.
TEST(Plan, TokensOfTheEncoderCountWhereTheyAreGiven) {
  const auto fixed = [](const std::vector<std::string>& options) {
    return rank_of(options, R"({"model_type": "bart", "is_encoder_decoder": true,
        "d_model": 1024, "decoder_layers": 12, "decoder_attention_heads": 16,
        "encoder_layers": 12, "encoder_attention_heads": 16, "max_position_embeddings": 1024})")
        .at("fixed_bytes_per_sequence");
  };
  EXPECT_EQ(fixed({}), 0);
  EXPECT_EQ(fixed({"--encoder-tokens", "1k"}), 12 * 2 * 1024 * 2 * 1024);
}

TEST(Plan, DraftLayersCountOnlyWhenAsked) {
  // DeepSeek-V3 issue 19, llama.cpp pull request 28630.
  std::string config = kDeepseekV3;
  config.insert(1, R"("num_nextn_predict_layers": 1, )");
  EXPECT_EQ(rank_of({}, config).at("growing_bytes_per_token"), 70'272);
  const json plan = json_of({"plan", "-", "--speculative", "mtp"}, config);
  EXPECT_EQ(plan.at("ranks").at(0).at("growing_bytes_per_token"), 71'424);
  EXPECT_TRUE(plan.at("layers").back().at("draft"));
  EXPECT_EQ(plan.at("layers").back().at("growing_bytes_per_token"), 1152);
}

TEST(Plan, ProductsPast32BitsAreExactAndPast64BitsRefused) {
  // vLLM issues 1486 and 50427.
  const std::string config = R"({"model_type": "llama", "num_hidden_layers": 80,
      "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
      "torch_dtype": "bfloat16"})";
  const json rank = rank_of({"--at", "32768,1M", "--sequences", "64"}, config);
  EXPECT_EQ(rank.at("bytes_per_sequence").at("32768"), 10'737'418'240u);
  EXPECT_EQ(rank.at("bytes_of_sequences").at("1048576"), 21'990'232'555'520u);
  expect_refused(run_command({"plan", "-", "--at", "1099511627776", "--sequences", "1024"}, config),
                 AllOf(HasSubstr("1024 sequences"), HasSubstr("64 bits")));
}

TEST(Plan, LatentsInEightBitsWithAndWithoutScales) {
  const auto rate = [](const std::string& dtype) {
    return rank_of({"--kv-dtype", dtype}, kDeepseekV3).at("growing_bytes_per_token");
  };
  EXPECT_EQ(rate("fp8_rope16"), 61 * (512 + 64 * 2));
  EXPECT_EQ(rate("fp8_rope16"), 39'040);
  EXPECT_EQ(rate("fp8_ds_mla"), 61 * (512 + 4 * 4 + 64 * 2));
  EXPECT_EQ(rate("fp8_ds_mla"), 40'016);
}

TEST(Plan, DeepseekV4AtAMillionTokens) {
  const json bf16 = json_of({"plan", "deepseek-v4-pro", "--at", "1M"});
  EXPECT_EQ(bf16.at("ranks").at(0).at("growing_bytes_per_sequence").at("1048576"),
            10'326'376'448u);  // 9.617 GiB
  EXPECT_EQ(bf16.at("block_tokens"), 128);
  const auto ran = run_command({"plan", "deepseek-v4-pro", "--kv-dtype", "fp8_rope16", "--json"});
  // As text: 30 x 160 + 31 x 4.5, never a rounded double.
  EXPECT_THAT(ran.out, HasSubstr("\"growing_bytes_per_token\": 4939.5,"));
  const json plan = json::parse(ran.out);
  EXPECT_EQ(plan.at("layers").at(2).at("growing_bytes_per_token"), 160);
  EXPECT_EQ(plan.at("layers").at(3).at("growing_bytes_per_token"), 4.5);
  EXPECT_EQ(plan.at("layers").at(0).at("streams").at(0).at("entry_bytes"), 576);
}

TEST(Plan, BlockTokensFollowFromStridesAndKernelPages) {
  EXPECT_EQ(json_of({"plan", "llama-3-70b"}).at("block_tokens"), 16);
  EXPECT_EQ(json_of({"plan", "deepseek-v3"}).at("block_tokens"), 64);
  EXPECT_EQ(json_of({"plan", "deepseek-v4-flash"}).at("block_tokens"), 128);
  EXPECT_EQ(json_of({"plan", "deepseek-v3", "--block-tokens", "128"}).at("block_tokens"), 128);
  EXPECT_EQ(json_of({"plan", "llama-3-70b"}).at("ranks").at(0).at("growing_bytes_per_token"),
            320 * 1024);
}

TEST(Plan, KeysThatOtherProgramsReadKeepTheirNames) {
  const json plan = json_of({"plan", "deepseek-v3", "--at", "1,8192,131072", "--pool", "40GiB"});
  EXPECT_EQ(plan.at("schema"), 1);
  EXPECT_EQ(plan.at("model"), "deepseek-v3");
  EXPECT_EQ(plan.at("attention"), "61 x MLA");
  EXPECT_EQ(plan.at("kv_dtype"), "bf16");
  EXPECT_EQ(plan.at("profile"), "native");
  EXPECT_TRUE(plan.at("notes").is_array());
  const json& rank = plan.at("ranks").at(0);
  EXPECT_EQ(rank.at("bytes_per_sequence"),
            json({{"1", 70'272}, {"8192", 575'668'224}, {"131072", 9'210'691'584u}}));
  EXPECT_EQ(rank.at("allocated_bytes_per_sequence").at("1"), 64 * 70'272);
  EXPECT_EQ(rank.at("fixed_bytes_per_sequence"), 0);
  EXPECT_EQ(rank.at("state_bytes_per_sequence"), 0);
  EXPECT_EQ(rank.at("pool_bytes"), 42'949'672'960u);
  ASSERT_EQ(plan.at("layers").size(), 61u);
  const json layer = json::parse(R"({"index": 60, "kind": "mla", "draft": false,
      "growing_bytes_per_token": 1152, "window_tokens": null, "shares_with": null,
      "streams": [{"role": "latent", "entry_bytes": 1152, "stride_tokens": 1,
      "retention": "growing", "sharding": "replicated", "placement": "paged"}]})");
  EXPECT_EQ(plan.at("layers").at(60), layer);
}

TEST(Plan, SeveralModelsAreAnArrayAndOneIsNot) {
  const json both = json_of({"plan", "deepseek-v3", "--model", "llama-3-8b"});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both.at(1).at("model"), "llama-3-8b");
  const auto text = run_command({"plan", "deepseek-v3", "llama-3-8b"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("model deepseek-v3,"), HasSubstr("model llama-3-8b,")));
  // One that fails leaves nothing half said.
  expect_refused(run_command({"plan", "deepseek-v3", "no-such", "--json"}), HasSubstr("no-such"));
}

TEST(Plan, FirstLineAnswersAndTablesFollow) {
  const auto ran = run_command({"plan", "deepseek-v3", "--pool", "40GiB", "--context", "128k"});
  EXPECT_TRUE(
      ran.out.starts_with("61 x MLA: 611,136 tokens; 4 requests of 128k at once, "
                          "bound by blocks of group growing\n"))
      << ran.out;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("\n70,272 bytes per token; 128k tokens take 8.578 GiB\n"),
                             HasSubstr("9,210,691,584"), HasSubstr("61 x 73,728"),
                             HasSubstr("611,136 tokens; 4 sequences of 128k tokens"),
                             HasSubstr("sequence_tokens 131072")));
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
  const auto bytes = run_command({"plan", "deepseek-v3"});
  EXPECT_TRUE(
      bytes.out.starts_with("61 x MLA: 70,272 bytes per token; 128k tokens take 8.578 GiB\n"))
      << bytes.out;
  const auto layers = run_command({"plan", "gpt-oss-20b", "--per-layer"});
  EXPECT_THAT(layers.out, AllOf(HasSubstr("windows up to 3.000 MiB"), HasSubstr("kv 2,048")));
}

TEST(Plan, DefaultLengthsStayWithinTheModelsPositions) {
  const json llama = json_of({"plan", "llama-2-7b"}).at("ranks").at(0).at("bytes_per_sequence");
  EXPECT_EQ(llama.size(), 2u);
  EXPECT_EQ(llama.at("4096"), 4096u * 2 * 32 * 32 * 128 * 2);
  const auto beyond = run_command({"plan", "llama-2-7b", "--at", "8k"});
  EXPECT_THAT(beyond.out, HasSubstr("note: a sequence of 8192 tokens is longer"));
}

TEST(Plan, UnknownArchitectureIsReadWithANote) {
  const json plan = json_of({"plan", "-"}, R"({"model_type": "brand_new", "num_hidden_layers": 2,
      "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2})");
  EXPECT_EQ(plan.at("ranks").at(0).at("growing_bytes_per_token"), 2 * 2 * 2 * 16 * 2);
  ASSERT_FALSE(plan.at("notes").empty());
  EXPECT_THAT(plan.at("notes").at(0).get<std::string>(), HasSubstr("brand_new"));
}

}  // namespace
}  // namespace emblema
