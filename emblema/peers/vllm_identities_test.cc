// What vLLM's own planner gives. The figures were produced by running get_kv_cache_groups and
// get_kv_cache_configs of vLLM 073c510c (2026-08-09) with torch stubbed out, with
// max_num_batched_tokens 8192, async scheduling on and block 16 unless a test says otherwise; the
// sums beside them are worked out by hand.
#include <numeric>

#include "emblema/peers/peers_testing.h"

namespace emblema {
namespace {

using peers_testing::asked;
using peers_testing::blocks;
using peers_testing::has;
using peers_testing::last_line;
using peers_testing::parsed;
using peers_testing::preset;
using peers_testing::refusal;
using peers_testing::size_line;
using peers_testing::vllm;

TEST(VllmIdentities, Llama70bOnEightRanks) {
  PeerQuestion question = asked(40, 8192);
  question.tensor = 8;
  const PeerPlan plan = vllm(preset("llama-3-70b"), question);
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_EQ(plan.groups[0].page_bytes, 16u * 1 * (128 + 128) * 2);
  EXPECT_EQ(plan.groups[0].page_bytes, 8192u);
  EXPECT_EQ(plan.groups[0].layers.size(), 80u);
  EXPECT_EQ(plan.bytes_per_token, Rational(40'960));
  EXPECT_EQ(blocks(plan), 65'536u);
  EXPECT_EQ(last_line(plan), size_line("1,048,576", "8,192", "128.00"));
  EXPECT_EQ(plan.as_of, "vLLM 073c510c (2026-08-09)");
}

TEST(VllmIdentities, Llama70bOnOneRank) {
  const PeerPlan plan = vllm(preset("llama-3-70b"), PeerQuestion{});
  EXPECT_EQ(plan.groups.at(0).page_bytes, 65'536u);
  EXPECT_EQ(plan.bytes_per_token, Rational(327'680));
  EXPECT_FALSE(plan.capacity);
}

TEST(VllmIdentities, Llama70bInFp8) {
  PeerQuestion question = asked(40, 8192);
  question.tensor = 8;
  question.kv_cache_dtype = "fp8";
  const PeerPlan plan = vllm(preset("llama-3-70b"), question);
  EXPECT_EQ(plan.groups.at(0).page_bytes, 4096u);
  EXPECT_EQ(blocks(plan), 131'072u);
  EXPECT_EQ(last_line(plan), size_line("2,097,152", "8,192", "256.00"));
}

TEST(VllmIdentities, HeadsAreReplicatedBelowOneARank) {
  PeerQuestion question;
  question.tensor = 16;
  EXPECT_EQ(vllm(preset("llama-3-70b"), question).groups.at(0).page_bytes, 8192u);
}

TEST(VllmIdentities, Llama8bHoldsLessThanTwoFullContexts) {
  const PeerPlan plan = vllm(preset("llama-3.1-8b"), asked(20, 131'072));
  EXPECT_EQ(blocks(plan), 10'240u);
  EXPECT_EQ(last_line(plan), size_line("163,840", "131,072", "1.25"));
}

TEST(VllmIdentities, Llama8bInHalfThatIsRefusedWithTheLengthThatFits) {
  const auto plan = plan_vllm(preset("llama-3.1-8b"), asked(10, 131'072));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::OutOfBlocks);
  for (const char* part : {"16.0 GiB", "10.0 GiB", "81920", "131072"}) {
    EXPECT_NE(plan.error().message.find(part), std::string::npos) << plan.error().message;
  }
}

TEST(VllmIdentities, ScalesOfNvfp4AndPerTokenHeadAreCounted) {
  PeerQuestion question = asked(20, 131'072);
  question.kv_cache_dtype = "nvfp4";
  PeerPlan plan = vllm(preset("llama-3.1-8b"), question);
  EXPECT_EQ(plan.groups.at(0).page_bytes, 16u * 8 * 2 * (128 / 2 + 128 / 16));
  EXPECT_EQ(plan.groups.at(0).page_bytes, 18'432u);
  EXPECT_EQ(blocks(plan), 36'408u);
  EXPECT_EQ(last_line(plan), size_line("582,528", "131,072", "4.44"));

  question.kv_cache_dtype = "int8_per_token_head";
  plan = vllm(preset("llama-3.1-8b"), question);
  EXPECT_EQ(plan.groups.at(0).page_bytes, 16u * 8 * 256 + 2 * 16 * 8 * 4);
  EXPECT_EQ(blocks(plan), 19'859u);
  EXPECT_EQ(last_line(plan), size_line("317,744", "131,072", "2.42"));
}

TEST(VllmIdentities, LatentsAreTheSameOnEveryRank) {
  const ModelConfig model = preset("deepseek-v3");
  for (const std::uint32_t tensor : {1u, 8u}) {
    PeerQuestion question;
    question.tensor = tensor;
    EXPECT_EQ(vllm(model, question).bytes_per_token, Rational(61 * 576 * 2)) << tensor;
    question.kv_cache_dtype = "fp8";
    EXPECT_EQ(vllm(model, question).bytes_per_token, Rational(35'136)) << tensor;
    question.kv_cache_dtype = "fp8_ds_mla";
    EXPECT_EQ(vllm(model, question).bytes_per_token, Rational(61 * 656)) << tensor;
  }
}

PeerQuestion deepseek() {
  PeerQuestion question = asked(60, 163'840);
  question.block_tokens = 64;
  return question;
}

TEST(VllmIdentities, DeepSeekV3InPagesOfSixtyFour) {
  const PeerPlan plan = vllm(preset("deepseek-v3"), deepseek());
  EXPECT_EQ(plan.groups.at(0).page_bytes, 73'728u);
  EXPECT_EQ(blocks(plan), 14'324u);
  EXPECT_EQ(last_line(plan), size_line("916,736", "163,840", "5.60"));
}

TEST(VllmIdentities, DecodeContextSharesOutTokens) {
  PeerQuestion question = deepseek();
  question.tensor = 8;
  question.decode_context = 8;
  const PeerPlan plan = vllm(preset("deepseek-v3"), question);
  EXPECT_EQ(blocks(plan), 14'324u);
  EXPECT_EQ(plan.blocks_per_request, 320u);
  EXPECT_EQ(last_line(plan), size_line("7,333,888", "163,840", "44.76"));
  EXPECT_EQ(plan.scheduler_block_tokens, 512u);
  EXPECT_EQ(plan.hash_block_tokens, 512u);
}

TEST(VllmIdentities, TheStageWithMoreLayersDecides) {
  PeerQuestion question = deepseek();
  question.pipeline = 2;
  const PeerPlan plan = vllm(preset("deepseek-v3"), question);
  EXPECT_EQ(plan.stage_layers, (std::vector<std::uint32_t>{31, 30}));
  EXPECT_EQ(60 * kGiB / 73'728 / 31, 28'187u);
  EXPECT_EQ(60 * kGiB / 73'728 / 30, 29'127u);
  EXPECT_EQ(blocks(plan), 28'187u);
  EXPECT_EQ(plan.groups.at(0).layers.size(), 31u);
}

TEST(VllmIdentities, DeepSeekV32IsOneGroupOfLatentsAndIndexKeys) {
  PeerQuestion question = deepseek();
  question.kv_cache_dtype = "fp8_ds_mla";
  const PeerPlan packed = vllm(preset("deepseek-v3.2"), question);
  ASSERT_EQ(packed.groups.size(), 1u);
  EXPECT_EQ(packed.bytes_per_token, Rational(48'068));
  EXPECT_EQ(packed.groups[0].pages, 122u);
  EXPECT_EQ(packed.groups[0].block_bytes, 3'076'352u);
  EXPECT_EQ(blocks(packed), 20'941u);
  EXPECT_EQ(last_line(packed), size_line("1,340,224", "163,840", "8.18"));

  question.kv_cache_dtype = "auto";
  const PeerPlan plain = vllm(preset("deepseek-v3.2"), question);
  EXPECT_EQ(plain.bytes_per_token, Rational(78'324));
  EXPECT_EQ(plain.groups.at(0).block_bytes, 5'012'736u);
  EXPECT_EQ(blocks(plain), 12'852u);
  EXPECT_EQ(last_line(plain), size_line("822,528", "163,840", "5.02"));
}

TEST(VllmIdentities, Gemma27bIsSevenGroupsOfTen) {
  const PeerPlan plan = vllm(preset("gemma-3-27b"), asked(40, 131'072));
  ASSERT_EQ(plan.groups.size(), 7u);
  std::vector<std::size_t> sizes;
  for (const PeerGroup& group : plan.groups) {
    EXPECT_EQ(group.page_bytes, 131'072u);
    sizes.push_back(group.layers.size());
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{9, 9, 9, 9, 8, 8, 10}));
  EXPECT_TRUE(has(plan.warnings, "Add 8 padding layers, may waste at most 15.38%"));
  EXPECT_EQ(blocks(plan), 32'768u);
  EXPECT_EQ(plan.blocks_per_request, 8192u + 6 * 1089);
  EXPECT_EQ(last_line(plan), size_line("291,658", "131,072", "2.23"));
}

TEST(VllmIdentities, WithoutAsyncSchedulingHalfIsInFlight) {
  PeerQuestion question = asked(40, 131'072);
  question.async_scheduling = false;
  const PeerPlan plan = vllm(preset("gemma-3-27b"), question);
  EXPECT_EQ(plan.blocks_per_request, 8192u + 6 * 577);
  EXPECT_EQ(last_line(plan), size_line("368,540", "131,072", "2.81"));
}

TEST(VllmIdentities, Gemma27bWithoutTheHybridManagerDoesNotFit) {
  PeerQuestion question = asked(40, 131'072);
  question.hybrid_manager = false;
  const std::string message = refusal(plan_vllm(preset("gemma-3-27b"), question));
  EXPECT_NE(message.find("62.0 GiB"), std::string::npos) << message;
  EXPECT_NE(message.find("84560"), std::string::npos) << message;
}

// Gemma-3-12B (model card): 48 layers of 8 KV heads of 256.
constexpr const char* kGemma12b = R"({
  "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 3840,
  "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
  "sliding_window": 1024, "sliding_window_pattern": 6, "max_position_embeddings": 131072,
  "torch_dtype": "bfloat16"})";

TEST(VllmIdentities, Gemma12bDividesWithoutPadding) {
  const PeerPlan plan = vllm(parsed(kGemma12b), asked(20, 131'072));
  ASSERT_EQ(plan.groups.size(), 6u);
  for (const PeerGroup& group : plan.groups) EXPECT_EQ(group.layers.size(), 8u);
  EXPECT_TRUE(plan.warnings.empty());
  EXPECT_EQ(plan.groups[0].page_bytes, 131'072u);
  EXPECT_EQ(blocks(plan), 20'480u);
  EXPECT_EQ(plan.blocks_per_request, 13'637u);
  EXPECT_EQ(last_line(plan), size_line("196,843", "131,072", "1.50"));
}

TEST(VllmIdentities, GptOssIsTwoGroups) {
  PeerQuestion question = asked(10, 131'072);
  PeerPlan plan = vllm(preset("gpt-oss-120b"), question);
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].page_bytes, 32'768u);
  EXPECT_EQ(plan.groups[0].layers.size(), 18u);
  EXPECT_EQ(blocks(plan), 18'204u);
  EXPECT_EQ(plan.blocks_per_request, 8192u + 1033);
  EXPECT_EQ(last_line(plan), size_line("258,648", "131,072", "1.97"));

  question.tensor = 8;
  plan = vllm(preset("gpt-oss-120b"), question);
  EXPECT_EQ(plan.groups[0].page_bytes, 4096u);
  EXPECT_EQ(blocks(plan), 145'635u);
  EXPECT_EQ(last_line(plan), size_line("2,069,232", "131,072", "15.79"));

  question.tensor = 1;
  plan = vllm(preset("gpt-oss-20b"), question);
  EXPECT_EQ(blocks(plan), 27'306u);
  EXPECT_EQ(last_line(plan), size_line("387,973", "131,072", "2.96"));
}

TEST(VllmIdentities, AnEagleLayerMakesTheLargerBucketTheSize) {
  PeerQuestion question = asked(10, 131'072);
  question.draft_layers = 1;
  const PeerPlan plan = vllm(preset("gpt-oss-20b"), question);
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].layers.size(), 12u);
  EXPECT_EQ(plan.groups[1].layers.size(), 13u);
  EXPECT_TRUE(has(plan.warnings, "Add 1 padding layers, may waste at most 8.33%"));
  EXPECT_EQ(blocks(plan), 25'206u);
  EXPECT_EQ(last_line(plan), size_line("358,135", "131,072", "2.73"));
}

TEST(VllmIdentities, Llama4ChunksWhereTheHybridManagerIsForced) {
  PeerQuestion question = asked(20, 1'048'576);
  question.tensor = 8;
  question.hybrid_manager = true;
  const PeerPlan plan = vllm(preset("llama-4-scout"), question);
  ASSERT_EQ(plan.groups.size(), 4u);
  for (const PeerGroup& group : plan.groups) EXPECT_EQ(group.layers.size(), 12u);
  EXPECT_EQ(plan.groups[0].page_bytes, 8192u);
  EXPECT_EQ(blocks(plan), 218'453u);
  EXPECT_EQ(plan.blocks_per_request, 65'536u + 3 * 1536);
  EXPECT_EQ(last_line(plan), size_line("3,265,633", "1,048,576", "3.11"));
}

TEST(VllmIdentities, MistralSlidesInEveryLayer) {
  const PeerPlan plan = vllm(preset("mistral-7b"), asked(10, 32'768));
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_EQ(blocks(plan), 5120u);
  EXPECT_EQ(plan.blocks_per_request, 1281u);
  EXPECT_EQ(last_line(plan), size_line("130,969", "32,768", "4.00"));
  EXPECT_EQ(plan.bytes_per_token, Rational(0)) << "nothing grows behind the window";
}

TEST(VllmIdentities, QwenNextPagesAreAsLargeAsAState) {
  const PeerPlan plan = vllm(preset("qwen3-next-80b-a3b"), PeerQuestion{});
  const std::uint64_t state = 8192 * 3 * 2 + 32 * 128 * 128 * 2;
  EXPECT_EQ(state, 1'097'728u);
  EXPECT_EQ(plan.page_tokens, 544u);
  for (const PeerGroup& group : plan.groups) EXPECT_EQ(group.page_bytes, 1'114'112u);
  EXPECT_EQ(plan.bytes_per_token, Rational(12 * 2 * 256 * 2 * 2));
  EXPECT_TRUE(has(plan.log, "Setting attention block size to 544 tokens"));
  EXPECT_TRUE(has(plan.log, "Padding mamba page size by 1.49%"));
}

TEST(VllmIdentities, QwenNextBlocksFollowHeadsPerRank) {
  PeerQuestion question;
  question.tensor = 2;
  EXPECT_EQ(vllm(preset("qwen3-next-80b-a3b"), question).page_tokens, 544u);
  question.tensor = 4;  // two KV heads on four ranks: one each
  EXPECT_EQ(vllm(preset("qwen3-next-80b-a3b"), question).page_tokens, 272u);
  question.tensor = 1;
  question.ssm_dtype = "float32";
  const PeerPlan wide = vllm(preset("qwen3-next-80b-a3b"), question);
  EXPECT_EQ(wide.page_tokens, 1056u);
  EXPECT_TRUE(has(wide.log, "Padding mamba page size by 0.76%"));
}

TEST(VllmIdentities, NemotronsStateIsAsItsConfigSays) {
  // A page as large as a state: 256 x 64 x 256 numbers and 20,480 x 3 bf16 columns, over 16 tokens
  // of 4,096 bytes.
  ModelConfig model = preset("nemotron-h-56b");
  model.state_dtype = "";
  EXPECT_EQ(vllm(model, PeerQuestion{}).page_tokens, 16u * 258) << "fp32: 16,900,096 bytes";
  model.state_dtype = "bfloat16";
  EXPECT_EQ(vllm(model, PeerQuestion{}).page_tokens, 16u * 130) << "8,511,488 bytes";
}

TEST(VllmIdentities, QwenNextHoldsOneOrTwoStates) {
  PeerQuestion question = asked(40, 262'144);
  question.mamba_mode = MambaCacheMode::kNone;
  const PeerPlan once = vllm(preset("qwen3-next-80b-a3b"), question);
  ASSERT_EQ(once.groups.size(), 4u);
  for (const PeerGroup& group : once.groups) EXPECT_EQ(group.layers.size(), 12u);
  EXPECT_EQ(blocks(once), 3212u);
  EXPECT_EQ(once.blocks_per_request, 482u + 3);
  EXPECT_EQ(last_line(once), size_line("1,736,095", "262,144", "6.62"));

  question.mamba_mode = MambaCacheMode::kAlign;
  const PeerPlan aligned = vllm(preset("qwen3-next-80b-a3b"), question);
  EXPECT_EQ(aligned.blocks_per_request, 482u + 6);
  EXPECT_EQ(last_line(aligned), size_line("1,725,423", "262,144", "6.58"));
  EXPECT_EQ(aligned.hash_block_tokens, 544u);
}

TEST(VllmIdentities, UnequalHeadsStretchTheSmallerPages) {
  const PeerPlan plan = vllm(preset("mimo-v2-flash"), asked(20, 262'144));
  ASSERT_EQ(plan.groups.size(), 6u);
  for (const PeerGroup& group : plan.groups) EXPECT_EQ(group.page_bytes, 81'920u) << group.name;
  EXPECT_EQ(plan.groups[0].name, "full");
  EXPECT_EQ(plan.groups[0].block_tokens, 32u);
  EXPECT_EQ(plan.groups[1].block_tokens, 16u);
  EXPECT_EQ(plan.scheduler_block_tokens, 32u);
  EXPECT_EQ(plan.hash_block_tokens, 16u);
  EXPECT_EQ(blocks(plan), 29'127u);
  EXPECT_EQ(last_line(plan), size_line("571,645", "262,144", "2.18"));
}

TEST(VllmIdentities, DeepSeekV4FlashIsFiveGroupsOverEachOther) {
  PeerQuestion question = asked(20, 1'048'576);
  question.kv_cache_dtype = "fp8";
  const PeerPlan plan = vllm(preset("deepseek-v4-flash"), question);
  ASSERT_EQ(plan.groups.size(), 5u);
  std::vector<std::uint64_t> pages;
  std::vector<std::uint64_t> bytes;
  std::uint64_t tensors = 0;
  for (const PeerGroup& group : plan.groups) {
    pages.push_back(group.pages);
    bytes.push_back(group.block_bytes);
    tensors += group.pages;
  }
  EXPECT_EQ(pages, (std::vector<std::uint64_t>{62, 22, 21, 42, 20}));
  EXPECT_EQ(bytes, (std::vector<std::uint64_t>{1'002'240, 823'680, 786'240, 870'912, 656'640}));
  EXPECT_EQ(bytes[0], 21u * 37'440 + 21u * 8'640 + 20u * 1'728);
  EXPECT_EQ(tensors, 62u + 43 + 42 + 20);
  EXPECT_EQ(plan.bytes_per_token, Rational(3915));
  EXPECT_EQ(blocks(plan), 21'426u);
  EXPECT_EQ(plan.blocks_per_request, 4096u + 2 * 259 + 4099 + 2065);
  EXPECT_EQ(plan.capacity->admission_bytes, 11'336'041'728u);
  EXPECT_EQ(last_line(plan), size_line("2,084,504", "1,048,576", "1.99"));
  EXPECT_EQ(plan.scheduler_block_tokens, 256u);
  EXPECT_EQ(plan.hash_block_tokens, 4u);
  EXPECT_EQ(plan.kv_cache_dtype, "fp8_ds_mla");
}

TEST(VllmIdentities, DeepSeekV4ProGrowsByFivePointSixThousandBytes) {
  PeerQuestion question;
  question.kv_cache_dtype = "fp8";
  const PeerPlan plan = vllm(preset("deepseek-v4-pro"), question);
  EXPECT_EQ(plan.groups.at(0).block_bytes, 1'435'968u);
  EXPECT_EQ(plan.bytes_per_token.exact(), "5609.25");
}

}  // namespace
}  // namespace emblema
