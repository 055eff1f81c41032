// Plans of models that remember otherwise than by keys and values of every token, after public
// reports of wrong sizes (named per test).
#include <string>

#include <gtest/gtest.h>

#include "emblema/contract/bytes.h"
#include "emblema/plan/capacity_plan.h"

namespace emblema {
namespace {

CapacityPlan plan_of(const std::string& json, const Deployment& deployment) {
  const auto model = parse_model_config(json, "test");
  EXPECT_TRUE(model) << model.error().describe();
  if (!model) return {};
  auto plan = plan_capacity(*model, deployment);
  EXPECT_TRUE(plan) << plan.error().describe();
  return plan ? *plan : CapacityPlan{};
}

// TensorRT-LLM pull 5371, aisimulate pull 176, inference-sim issue 1552: all 14 blocks of a Mamba
// hybrid counted as attention (57,344 B/token), its state not at all.
TEST(HybridPlan, AMambaHybridGrowsByItsAttentionAloneAndHoldsItsState) {
  const std::string json = R"({"model_type": "nemotron_h", "num_hidden_layers": 14,
      "hybrid_override_pattern": "M-M-M*-M-M-M*-", "hidden_size": 4096, "num_attention_heads": 32,
      "num_key_value_heads": 8, "head_dim": 128, "mamba_num_heads": 64, "mamba_head_dim": 64,
      "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "torch_dtype": "bfloat16"})";
  const CapacityPlan fp32 = plan_of(json, {.at_tokens = {1, 4096}});
  EXPECT_EQ(fp32.ranks[0].growing_bytes_per_token, Rational(8'192));
  EXPECT_EQ(fp32.ranks[0].state_bytes_per_sequence, 12'804'096u);
  EXPECT_EQ(fp32.ranks[0].fixed_bytes_per_sequence, 0u);
  EXPECT_EQ(fp32.ranks[0].at[1].payload_bytes, 8'192u * 4096) << "without state";
  EXPECT_GE(fp32.ranks[0].arena_slot_bytes, 12'804'096u);
  EXPECT_EQ(fp32.ranks[0].at[0].allocated_bytes, 16u * 8'192 + fp32.ranks[0].arena_slot_bytes);
  const CapacityPlan bf16 = plan_of(json, {.state_dtype = StateDtype::kBf16, .at_tokens = {1}});
  EXPECT_EQ(bf16.ranks[0].state_bytes_per_sequence, 6'512'640u);
}

// vLLM takes Qwen3.5's mamba_ssm_dtype where its own option is "auto"
// (Qwen3_5ForConditionalGenerationConfig, 2026-08).
TEST(HybridPlan, TheStateIsAsTheConfigSaysUnlessTheDeploymentDoes) {
  const std::string json = R"({"model_type": "nemotron_h", "num_hidden_layers": 2,
      "hybrid_override_pattern": "M*", "hidden_size": 4096, "num_attention_heads": 32,
      "num_key_value_heads": 8, "head_dim": 128, "mamba_num_heads": 64, "mamba_head_dim": 64,
      "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4,
      "mamba_ssm_cache_dtype": "bfloat16"})";
  const std::uint64_t convolution = std::uint64_t{4096 + 2 * 8 * 128} * 3 * 2;
  const std::uint64_t numbers = std::uint64_t{64} * 64 * 128;
  EXPECT_EQ(plan_of(json, {}).ranks[0].state_bytes_per_sequence, numbers * 2 + convolution);
  EXPECT_EQ(plan_of(json, {.state_dtype = StateDtype::kFp32}).ranks[0].state_bytes_per_sequence,
            numbers * 4 + convolution);
}

// gemma.cpp pull 1012, candle pull 3488: 20 of 35 layers reuse another's cache; giving them one of
// their own made 43,008 B at one token.
TEST(HybridPlan, LayersThatReuseACacheTakeNothingAndSayWhose) {
  const CapacityPlan plan = plan_of(R"({"model_type": "gemma4_text", "num_hidden_layers": 35,
      "num_kv_shared_layers": 20, "hidden_size": 1536, "num_attention_heads": 8,
      "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512, "sliding_window": 512,
      "sliding_window_pattern": 5, "torch_dtype": "bfloat16"})",
                                    {.at_tokens = {1, 2048}});
  EXPECT_EQ(plan.ranks[0].at[0].payload_bytes, 18'432u);
  EXPECT_EQ(plan.ranks[0].at[1].payload_bytes, 18'874'368u);
  std::size_t sharing = 0;
  for (const LayerCapacity& layer : plan.layers) {
    EXPECT_EQ(layer.shares_with.has_value(), layer.index >= 15);
    EXPECT_EQ(layer.streams.empty(), layer.index >= 15);
    if (!layer.shares_with) continue;
    ++sharing;
    EXPECT_EQ(*layer.shares_with, layer.index % 5 == 4 ? 14u : 13u);
    EXPECT_EQ(layer.growing_bytes_per_token, Rational(0));
  }
  EXPECT_EQ(sharing, 20u);
}

// nano-vllm pull 184, vllm issue 40388: the scales of an 8-bit cache were forgotten (57,344
// B/token).
TEST(HybridPlan, AnEightBitCacheHoldsItsScalesToo) {
  const std::string json = R"({"model_type": "qwen3", "num_hidden_layers": 28,
      "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128})";
  const std::uint64_t pool = 500ull * 256 * 59'136;
  const CapacityPlan plan = plan_of(json, {.kv_dtype = KvDtype::kInt8PerTokenHead,
                                           .block_tokens = 256,
                                           .pool_bytes = pool,
                                           .context_tokens = 256});
  EXPECT_EQ(plan.ranks[0].growing_bytes_per_token, Rational(59'136));
  EXPECT_EQ(plan.ranks[0].pool->groups[0].blocks, 500u);
  EXPECT_EQ(4 * pool, 4 * 7218 * kMiB + 3 * kMiB) << "7,218.75 MiB";
  EXPECT_EQ(plan_of(json, {.kv_dtype = KvDtype::kFp16}).ranks[0].growing_bytes_per_token,
            Rational(114'688));
}

TEST(HybridPlan, ChunksSayTheirLengthAndRetention) {
  const auto model = load_model_config("llama-4-scout");
  ASSERT_TRUE(model);
  const auto plan = plan_capacity(*model, {.at_tokens = {8192, 131'072}, .pool_bytes = 64 * kGiB});
  ASSERT_TRUE(plan) << plan.error().describe();
  EXPECT_EQ(plan->layers[0].window_tokens, 8192u);
  EXPECT_EQ(plan->layers[0].streams[0].retention, Retention::kChunk);
  EXPECT_EQ(plan->layers[3].window_tokens, std::nullopt);
  EXPECT_EQ(plan->ranks[0].fixed_bytes_per_sequence, 1'207'959'552u);
  EXPECT_EQ(plan->ranks[0].pool->snapshot_bytes, 0u) << "no state, no snapshots";
}

TEST(HybridPlan, EncoderRowsAreCountedByTheTokensGiven) {
  const std::string bart = R"({"model_type": "bart", "d_model": 1024, "decoder_layers": 12,
      "encoder_layers": 12, "num_hidden_layers": 12, "decoder_attention_heads": 16,
      "is_encoder_decoder": true, "max_position_embeddings": 1024})";
  const CapacityPlan none = plan_of(bart, {.at_tokens = {100}, .pool_bytes = kGiB});
  EXPECT_EQ(none.ranks[0].growing_bytes_per_token, Rational(49'152));
  EXPECT_EQ(none.ranks[0].fixed_bytes_per_sequence, 0u);
  EXPECT_EQ(none.ranks[0].pool->snapshot_bytes, 0u);
  const CapacityPlan given = plan_of(bart, {.encoder_tokens = 1000, .at_tokens = {100}});
  EXPECT_EQ(given.ranks[0].fixed_bytes_per_sequence, 49'152'000u);
  EXPECT_EQ(given.ranks[0].at[0].payload_bytes, 49'152u * 100 + 49'152'000);
}

}  // namespace
}  // namespace emblema
