// What SGLang v0.5.18 (2026-08-20) gives, worked out by hand from the formulas of its
// pool_configurator.py.
#include "emblema/peers/peers_testing.h"

namespace emblema {
namespace {

using peers_testing::asked;
using peers_testing::has;
using peers_testing::last_line;
using peers_testing::preset;
using peers_testing::refusal;
using peers_testing::sglang;
using peers_testing::tokens;

TEST(SglangIdentities, DeepSeekV3InPagesOfSixtyFour) {
  PeerQuestion question = asked(60, 163'840);
  question.block_tokens = 64;
  const PeerPlan plan = sglang(preset("deepseek-v3"), question);
  EXPECT_EQ(plan.bytes_per_token, Rational(70'272));
  EXPECT_EQ(60 * kGiB / 70'272, 916'787u);
  EXPECT_EQ(tokens(plan), 916'736u);
  EXPECT_EQ(plan.as_of, "SGLang v0.5.18 (71de97b2, 2026-08-20)");
  // (916,736 + 64) x 70,272 / 2^30
  EXPECT_EQ(last_line(plan),
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 916736, KV size: 60.00 GB");
}

TEST(SglangIdentities, SparseLatentsCountTheirIndexKeys) {
  PeerQuestion question = asked(60, 163'840);
  PeerPlan plan = sglang(preset("deepseek-v3.2"), question);
  EXPECT_EQ(plan.page_tokens, 64u);
  EXPECT_EQ(plan.bytes_per_token, Rational(61 * (1152 + 132)));
  EXPECT_EQ(tokens(plan), 822'528u);

  question.kv_cache_dtype = "fp8_e4m3";
  plan = sglang(preset("deepseek-v3.2"), question);
  EXPECT_EQ(plan.bytes_per_token, Rational(61 * (656 + 132)));
  EXPECT_EQ(tokens(plan), 1'340'224u);

  question.dsa_trtllm = true;
  EXPECT_EQ(sglang(preset("deepseek-v3.2"), question).bytes_per_token, Rational(43'188));
}

TEST(SglangIdentities, GptOssCountsWindowsAtTheirRatio) {
  const PeerPlan plan = sglang(preset("gpt-oss-120b"), asked(10, 131'072));
  EXPECT_EQ(plan.bytes_per_token.exact(), "66355.2");
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].pool_tokens, 161'817u);
  EXPECT_EQ(plan.groups[1].pool_tokens, 129'453u);
  EXPECT_EQ(last_line(plan),
            "Use sliding window memory pool. full_layer_tokens=161817, swa_layer_tokens=129453");
}

TEST(SglangIdentities, DeepSeekV4BytesPerFullToken) {
  const PeerPlan flash = sglang(preset("deepseek-v4-flash"), PeerQuestion{});
  EXPECT_EQ(flash.bytes_per_token.exact(), "7705.45");
  EXPECT_EQ(sglang(preset("deepseek-v4-pro"), PeerQuestion{}).bytes_per_token.exact(),
            "10993.8375");
}

TEST(SglangIdentities, DeepSeekV4WithADraftLayer) {
  PeerQuestion question;
  question.draft_layers = 1;
  // 9,049.45 x 44 / 43
  EXPECT_EQ(sglang(preset("deepseek-v4-flash"), question).bytes_per_token,
            Rational::of(904'945ull * 44, 100ull * 43));
}

TEST(SglangIdentities, DeepSeekV4PoolsFollowFromTheFullOne) {
  const PeerPlan plan = sglang(preset("deepseek-v4-flash"), asked(60, 1'048'576));
  // 60 GiB / 7705.45 = 8,360,902 tokens, which is room for 512 x that / 1,048,576 = 4082 requests
  // by SGLang's rule. HCA keeps a ring of 128 rows for each and one more, and 129 rows, rounded up
  // to 128: 1024 numbers of fp32 in 20 layers.
  const std::uint64_t rows = 4083 * 128 + 256;
  const std::uint64_t left = 60 * kGiB - rows * 1024 * 4 * 20;
  const std::uint64_t full = left * 100 / 770'545 / 256 * 256;
  EXPECT_EQ(tokens(plan), full);
  EXPECT_TRUE(has(
      plan.log, "full=" + std::to_string(full) + ", swa=" + std::to_string(full / 10 / 256 * 256)));
}

TEST(SglangIdentities, DeepSeekV4LogsWhatARunLogged) {
  // A log of DeepSeek-V4-Flash on 2026-08-07, found in a public repository: "bytes_per_full_token=
  // 7705.45, available_bytes=11.89 GB, c128_state_fixed=0.11 GB, full_token=1641472", then pool
  // sizes. 0.11 GB are 1,408 rows, of 9 slots: it ran 8 requests.
  PeerQuestion question = asked(0, 131'072);
  question.max_running_requests = 8;
  question.kv_memory_bytes = 1408ull * 1024 * 4 * 20 + 1'641'500ull * 770'545 / 100;
  const PeerPlan plan = sglang(preset("deepseek-v4-flash"), question);
  ASSERT_EQ(plan.log.size(), 2u);
  EXPECT_EQ(plan.log[0],
            "DSV4 memory calculation: bytes_per_full_token=7705.45, available_bytes=11.89 GB, "
            "c128_state_fixed=0.11 GB, full_token=1641472");
  EXPECT_EQ(plan.log[1],
            "DSV4 pool sizes: full=1641472, swa=164096, c4=410368, c128=12824, c4_state=10256, "
            "c128_state=0");
}

TEST(SglangIdentities, DeepSeekV4SaysWhatItsRequestSlotsTake) {
  const PeerPlan plan = sglang(preset("deepseek-v4-flash"), asked(60, 1'048'576));
  // 4,083 slots: 522,880 rows of 4,096 bytes in 20 layers
  EXPECT_TRUE(has(plan.notes, "4,083 request slots keep 522,880 fp32 rows in each of 20 layers"));
  EXPECT_TRUE(has(plan.notes, "39.89 GiB"));
}

TEST(SglangIdentities, DeepSeekV4PagesAreThoseThatAreAllocated) {
  const PeerPlan plan = sglang(preset("deepseek-v4-flash"), PeerQuestion{});
  ASSERT_EQ(plan.groups.size(), 3u);
  // 256 x 584, 64 x 584 and 2 x 584 bytes, each rounded up to 576; index keys 64 x 132.
  EXPECT_EQ(plan.groups[0].page_bytes, 149'760u);
  EXPECT_EQ(plan.groups[0].block_bytes, 43u * 149'760);
  EXPECT_EQ(plan.groups[1].page_bytes, 37'440u);
  EXPECT_EQ(plan.groups[1].pages, 42u);
  EXPECT_EQ(plan.groups[1].block_bytes, 21u * (37'440 + 8'448));
  EXPECT_EQ(plan.groups[2].page_bytes, 1'728u);
  EXPECT_EQ(plan.groups[2].block_bytes, 20u * 1'728);
}

TEST(SglangIdentities, GroupedHeadsLogKeysAndValuesApart) {
  const PeerPlan plan = sglang(preset("llama-3.1-8b"), asked(20, 131'072));
  EXPECT_EQ(tokens(plan), 20 * kGiB / 131'072);
  EXPECT_EQ(last_line(plan),
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 163840, K size: 10.00 GB, V "
            "size: 10.00 GB");
}

TEST(SglangIdentities, Gemma3KeepsEveryLayerWhole) {
  const PeerPlan plan = sglang(preset("gemma-3-27b"), PeerQuestion{});
  EXPECT_EQ(plan.bytes_per_token, Rational(62 * 16 * 256 * 2));
  EXPECT_TRUE(has(plan.notes, "does not list this architecture as sliding"));
  EXPECT_TRUE(has(plan.notes, "Emblema's own figure is 81920 growing bytes"));
}

TEST(SglangIdentities, HybridStateIsTakenFirst) {
  const PeerPlan plan = sglang(preset("qwen3-next-80b-a3b"), asked(40, 262'144));
  // A request's state: 36 layers of 8192 x 3 bf16 and 32 x 128 x 128 fp32. 9/19 of the memory.
  const std::uint64_t state = 36ull * (8192 * 3 * 2 + 32 * 128 * 128 * 4);
  const std::uint64_t slots = 40 * kGiB * 9 / 19 / state - 1;
  EXPECT_EQ(tokens(plan), (40 * kGiB - (slots + 1) * state) / (12 * 2 * 2 * 256 * 2));
}

TEST(SglangIdentities, SlotsOfStateBoundRequestsWhateverTheTokens) {
  // Nemotron-H-56B on two ranks: 54 layers of 3 columns of (16,384 + 2 x 8 x 256) / 2 channels in
  // bf16 and 128 heads of 64 x 256 in fp32.
  const std::uint64_t state = 54ull * (3 * 10'240 * 2 + 128 * 64 * 256 * 4);
  PeerQuestion question = asked(60, 4096);
  question.tensor = 2;
  const std::uint64_t slots = (60 * kGiB * 9 / 19 - state) / state;
  EXPECT_EQ(slots, 65u);
  question.state_slots_per_request = 1;  // --disable-radix-cache
  EXPECT_EQ(sglang(preset("nemotron-h-56b"), question).capacity->concurrency, Rational(65));
  question.state_slots_per_request = 0;  // NemotronHForCausalLM tracks states in extra buffers: 5
  const PeerPlan plan = sglang(preset("nemotron-h-56b"), question);
  EXPECT_EQ(plan.capacity->concurrency, Rational(65 / 5));
  EXPECT_EQ(plan.capacity->max_requests, 13u);
  EXPECT_GT(tokens(plan) / 4096, 400u) << "tokens alone would admit more";
  EXPECT_TRUE(has(plan.notes, "65 slots of state of 456,302,592 bytes, 5 to a request"));
  question.state_slots_per_request = 66;
  EXPECT_NE(refusal(plan_sglang(preset("nemotron-h-56b"), question)).find("has 65 slots"),
            std::string::npos);
}

TEST(SglangIdentities, LightningStatesBoundRequestsToo) {
  // MiniMax-M1 on eight ranks: 70 layers of 8 heads of 128 x 128 in fp32, and no convolution.
  const std::uint64_t state = 70ull * 8 * 128 * 128 * 4;
  PeerQuestion question = asked(60, 4096);
  question.tensor = 8;
  const std::uint64_t slots = 60 * kGiB * 9 / 19 / state - 1;
  const PeerPlan plan = sglang(preset("minimax-m1"), question);
  EXPECT_EQ(plan.capacity->concurrency, Rational(slots / 3));
  question.max_model_len = 1'000'000;  // long ones are bound by tokens
  EXPECT_EQ(sglang(preset("minimax-m1"), question).capacity->concurrency,
            Rational::of(tokens(plan), 1'000'000));
}

TEST(SglangIdentities, RequestsAreNoMoreThanSglangRuns) {
  PeerQuestion question = asked(60, 16);
  const PeerPlan plan = sglang(preset("llama-3.1-8b"), question);
  EXPECT_GT(tokens(plan) / 16, 4096u);
  EXPECT_EQ(plan.capacity->concurrency, Rational(4096));
  question.max_running_requests = 100;
  question.tensor = 2;
  question.data_attention = 2;
  EXPECT_EQ(sglang(preset("llama-3.1-8b"), question).capacity->concurrency, Rational(50));
}

TEST(SglangIdentities, ChannelsOfMamba1AreDivided) {
  // Jamba-1.5-Mini: 28 of 32 layers have 8192 channels, 3 columns and 16 numbers of state each.
  PeerQuestion question = asked(60, 65'536);
  question.tensor = 2;
  const std::uint64_t state = 28ull * 4096 * (3 * 2 + 16 * 4);
  const std::uint64_t slots = 60 * kGiB * 9 / 19 / state - 1;
  EXPECT_EQ(tokens(sglang(preset("jamba-1.5-mini"), question)),
            (60 * kGiB - (slots + 1) * state) / (4 * (8 / 2) * 2 * 128 * 2));
  question.tensor = 32;
  question.data_attention = 1;
  EXPECT_TRUE(plan_sglang(preset("jamba-1.5-mini"), question)) << "256 channels a rank";
}

TEST(SglangIdentities, DraftLayersGrowTheCellByTheirShare) {
  PeerQuestion question;
  question.draft_layers = 1;
  EXPECT_EQ(sglang(preset("llama-3.1-8b"), question).bytes_per_token, Rational(131'072 / 32 * 33));
  EXPECT_EQ(sglang(preset("deepseek-v3"), question).bytes_per_token, Rational(1152 * 62));
}

TEST(SglangIdentities, FourBitCachesPayForScalesAndScratch) {
  PeerQuestion question;
  question.kv_cache_dtype = "nvfp4";
  // Llama-3.1-8B: 8 heads of 128, 32 layers: data / 2, a scale for 16, a layer of fp8 scratch.
  EXPECT_EQ(sglang(preset("llama-3.1-8b"), question).bytes_per_token,
            Rational(8 * 256 * 32 / 2 + 8 * 128 * 32 * 2 / 16 + 8 * 128 * 2));
  EXPECT_EQ(sglang(preset("deepseek-v3"), question).bytes_per_token,
            Rational(576 * 61 / 2 + 576 / 16 * 61));
  question.kv_cache_dtype = "mxfp8";
  EXPECT_EQ(sglang(preset("llama-3.1-8b"), question).bytes_per_token,
            Rational(8 * 256 * 32 + 8 * 256 * 32 / 32));
}

TEST(SglangIdentities, RanksShareHeadsNotLatents) {
  PeerQuestion question;
  question.tensor = 8;
  EXPECT_EQ(sglang(preset("llama-3-70b"), question).bytes_per_token, Rational(40'960));
  EXPECT_EQ(sglang(preset("deepseek-v3"), question).bytes_per_token, Rational(70'272));
  question.data_attention = 4;  // attention on two ranks each
  EXPECT_EQ(sglang(preset("llama-3-70b"), question).bytes_per_token, Rational(4 * 40'960));
  question.data_attention = 1;
  question.decode_context = 2;  // 8 heads over 4, tokens over 2
  EXPECT_EQ(sglang(preset("llama-3-70b"), question).bytes_per_token, Rational(2 * 40'960));
}

TEST(SglangIdentities, TheLastStagesTakeTheRest) {
  PeerQuestion question = asked(60, 163'840);
  question.pipeline = 2;
  const PeerPlan plan = sglang(preset("deepseek-v3"), question);
  EXPECT_EQ(plan.stage_layers, (std::vector<std::uint32_t>{30, 31}));
  EXPECT_EQ(tokens(plan), 60 * kGiB / (31 * 1152));
}

TEST(SglangRefusals, NameTheEngineTheFieldAndWhatIsAllowed) {
  PeerQuestion question = asked(1, 0);
  question.kv_cache_dtype = "fp4_e2m1";
  EXPECT_EQ(refusal(plan_sglang(preset("llama-3-8b"), question))
                .rfind("SGLang v0.5.18 (71de97b2, 2026-08-20) refuses: kv cache dtype is", 0),
            0u);
  question.kv_cache_dtype = "auto";
  question.tensor = 8;
  question.data_attention = 3;
  EXPECT_NE(refusal(plan_sglang(preset("llama-3-8b"), question)).find("data attention is 3"),
            std::string::npos);
  question.data_attention = 1;
  question.tensor = 6;
  EXPECT_NE(refusal(plan_sglang(preset("llama-3-8b"), question)).find("32 attention heads"),
            std::string::npos);
}

TEST(SglangRefusals, AnSwaPoolBelowOneWindow) {
  PeerQuestion question = asked(0, 0);
  question.kv_memory_bytes = 160 * 66'356ull;  // 160 tokens: 128 in the SWA pool, a window of 128
  const auto plan = plan_sglang(preset("gpt-oss-120b"), question);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::OutOfBlocks);
  EXPECT_NE(plan.error().message.find("SWA pool has 128 tokens"), std::string::npos)
      << plan.error().message;
}

TEST(SglangRefusals, NoMemoryAtAll) {
  PeerQuestion question = asked(0, 0);
  const auto plan = plan_sglang(preset("llama-3-8b"), question);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::OutOfBlocks);
}

TEST(SglangRefusals, ARatioOutsideZeroToOne) {
  PeerQuestion question;
  question.swa_full_tokens_ratio = Rational::of(3, 2);
  EXPECT_NE(refusal(plan_sglang(preset("gpt-oss-20b"), question)).find("ratio is 1.5"),
            std::string::npos);
}

}  // namespace
}  // namespace emblema
