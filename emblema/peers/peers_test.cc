// Both engines over every preset and at the edges: an answer, or one line that says who refuses and
// why. The split into stages: vLLM's get_pp_indices and SGLang's.
#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "emblema/peers/peers_testing.h"
#include "emblema/peers/question.h"

namespace emblema {
namespace {

using peers_testing::asked;
using peers_testing::has;
using peers_testing::preset;
using peers_testing::refusal;
using peers_testing::sglang;
using peers_testing::vllm;

void expect_one_line(const Result<PeerPlan>& plan, const std::string& what) {
  if (plan) return;
  EXPECT_EQ(plan.error().message.find('\n'), std::string::npos) << what;
  EXPECT_NE(plan.error().message.find("allowed"), std::string::npos)
      << what << ": " << plan.error().message;
}

TEST(Peers, EveryPresetGetsAnAnswerOrAReason) {
  // What is refused, and by whom: an encoder's rows, index keys beside grouped heads.
  const std::set<std::string> unknown = {"llama-3.2-11b-vision", "minimax-m3"};
  for (const Preset& entry : presets()) {
    const std::string name(entry.name);
    const ModelConfig model = preset(name);
    PeerQuestion question = asked(640, 32'768);
    if (model.family == AttentionFamily::kCompressed) question.kv_cache_dtype = "fp8";
    const auto by_vllm = plan_vllm(model, question);
    question.kv_cache_dtype = "auto";
    const auto by_sglang = plan_sglang(model, question);
    EXPECT_EQ(!by_vllm, unknown.contains(name)) << name << (by_vllm ? "" : by_vllm.error().message);
    EXPECT_EQ(!by_sglang, unknown.contains(name))
        << name << (by_sglang ? "" : by_sglang.error().message);
    expect_one_line(by_vllm, name);
    expect_one_line(by_sglang, name);
  }
}

TEST(Peers, CapacityGrowsWithMemory) {
  for (const Preset& entry : presets()) {
    const ModelConfig model = preset(std::string(entry.name));
    PeerQuestion less = asked(320, 32'768);
    less.kv_cache_dtype = model.family == AttentionFamily::kCompressed ? "fp8" : "auto";
    PeerQuestion more = less;
    more.kv_memory_bytes = 640 * kGiB;
    const auto small = plan_vllm(model, less);
    const auto large = plan_vllm(model, more);
    if (!small || !large) continue;
    EXPECT_GE(large->capacity->blocks, 2 * small->capacity->blocks) << entry.name;
    EXPECT_GE(large->capacity->tokens, small->capacity->tokens) << entry.name;
  }
}

TEST(Peers, AModelThatVllmDoesNotKnowAsMlaIsExpanded) {
  const PeerPlan plan = vllm(preset("minicpm3-4b"), PeerQuestion{});
  // MiniCPM3-4B: 62 layers, 40 heads, 64 + 32 wide; values padded to 96 (vLLM's minicpm3.py).
  EXPECT_EQ(plan.bytes_per_token, Rational(62 * 40 * (96 + 96) * 2));
  EXPECT_TRUE(has(plan.notes, "does not know model type 'minicpm3' as MLA"));
  EXPECT_EQ(sglang(preset("minicpm3-4b"), PeerQuestion{}).bytes_per_token,
            Rational(62 * (256 + 32) * 2));
}

TEST(Peers, ChunkedAttentionTurnsTheHybridManagerOff) {
  const PeerPlan plan = vllm(preset("llama-4-scout"), asked(640, 131'072));
  EXPECT_EQ(plan.groups.size(), 1u);
  EXPECT_TRUE(has(plan.notes, "hybrid cache manager is off"));
}

// Llama-3.1-8B's shape as a quantised checkpoint has it.
ModelConfig quantised(const std::string& quantization) {
  return peers_testing::parsed(
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
          "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
          "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
          "torch_dtype": "bfloat16", "quantization_config": )" +
      quantization + "}");
}

TEST(Peers, AutoFollowsTheSchemeOfTheCheckpoint) {
  const std::string fp8 =
      R"("kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": false}})";
  const ModelConfig modelopt =
      quantised(R"({"quant_method": "modelopt", "quant_algo": "FP8", )" + fp8);
  PeerPlan plan = vllm(modelopt, PeerQuestion{});
  EXPECT_EQ(plan.kv_cache_dtype, "fp8_e4m3");
  EXPECT_EQ(plan.bytes_per_token, Rational(65'536));
  EXPECT_TRUE(has(plan.notes, "asks for a cache in fp8, which 'auto' follows: fp8_e4m3"));
  plan = sglang(modelopt, PeerQuestion{});
  EXPECT_EQ(plan.kv_cache_dtype, "fp8_e4m3");
  EXPECT_EQ(plan.bytes_per_token, Rational(65'536));

  // compressed-tensors: a matter of vLLM's layers, which SGLang does not read.
  const ModelConfig by_layer = quantised(R"({"quant_method": "compressed-tensors", )" + fp8);
  EXPECT_EQ(vllm(by_layer, PeerQuestion{}).kv_cache_dtype, "fp8");
  EXPECT_EQ(sglang(by_layer, PeerQuestion{}).kv_cache_dtype, "auto");
  EXPECT_EQ(sglang(by_layer, PeerQuestion{}).bytes_per_token, Rational(131'072));

  const ModelConfig nvfp4 =
      quantised(R"({"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"})");
  EXPECT_EQ(vllm(nvfp4, PeerQuestion{}).bytes_per_token, Rational(32 * 8 * 144));
  EXPECT_EQ(sglang(nvfp4, PeerQuestion{}).kv_cache_dtype, "auto");
}

TEST(Peers, WhatIsAskedGoesBeforeTheScheme) {
  const ModelConfig model =
      quantised(R"({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"})");
  PeerQuestion question;
  question.kv_cache_dtype = "bfloat16";
  const PeerPlan plan = vllm(model, question);
  EXPECT_EQ(plan.bytes_per_token, Rational(131'072));
  EXPECT_FALSE(has(plan.notes, "quantization_config"));
}

TEST(Peers, ASharedLayerHasNoCacheOfItsOwn) {
  const PeerPlan plan = vllm(preset("gemma-3n-e4b"), PeerQuestion{});
  std::size_t caches = 0;
  for (const PeerGroup& group : plan.groups) caches += group.pages;
  EXPECT_EQ(caches, 20u);  // of 35 layers the last 15 share (model card)
}

TEST(Peers, DiffersFromOursOnlyWhereANoteSaysSo) {
  EXPECT_FALSE(has(vllm(preset("llama-3-70b"), PeerQuestion{}).notes, "own figure"));
  EXPECT_FALSE(has(sglang(preset("deepseek-v3"), PeerQuestion{}).notes, "own figure"));
  const PeerPlan sparse = vllm(preset("deepseek-v3.2"), PeerQuestion{});
  EXPECT_TRUE(has(sparse.notes, "own figure is 85888"));
  EXPECT_TRUE(has(sparse.notes, "index keys in fp8"));
}

// Numbers at the edges of what a question may hold, and past them.
std::uint64_t edge() {
  return *rc::gen::element<std::uint64_t>(0, 1, 2, 3, 7, 16, 64, 100, 256, 4096, 1u << 20,
                                          std::uint64_t{1} << 40, UINT64_MAX);
}

PeerQuestion random_question() {
  PeerQuestion question;
  question.kv_cache_dtype = *rc::gen::element<std::string>(
      "auto", "fp8", "fp8_e4m3", "fp8_ds_mla", "nvfp4", "int4_per_token_head", "mxfp8", "");
  question.gpu_arch =
      *rc::gen::element<std::string>("", "sm80", "sm90", "sm100", "sm120", "gfx942");
  question.tensor = static_cast<std::uint32_t>(edge());
  question.pipeline = static_cast<std::uint32_t>(edge());
  question.decode_context = *rc::gen::element(1u, 1u, 2u, 8u);
  question.data_attention = *rc::gen::element(1u, 1u, 2u, 8u);
  question.prefill_context = *rc::gen::element(1u, 1u, 2u, 8u);
  if (*rc::gen::arbitrary<bool>()) question.block_tokens = edge();
  if (*rc::gen::arbitrary<bool>()) question.kv_memory_bytes = edge();
  question.max_model_len = edge();
  question.draft_layers = *rc::gen::element(0u, 0u, 1u, 3u, 2000u);
  question.interleave = *rc::gen::element<std::uint64_t>(1, 1, 16, edge());
  question.state_slots_per_request = edge();
  question.batched_tokens = edge();
  question.mamba_mode =
      *rc::gen::element(MambaCacheMode::kNone, MambaCacheMode::kAlign, MambaCacheMode::kAll);
  question.mamba_chunk_tokens = edge();
  question.speculative_tokens = edge();
  if (*rc::gen::arbitrary<bool>()) question.hybrid_manager = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) {
    question.swa_full_tokens_ratio = Rational::of(edge(), std::max<std::uint64_t>(1, edge()));
  }
  question.max_running_requests = edge();
  return question;
}

RC_GTEST_PROP(PeersProperty, AnyQuestionGetsAnAnswerOrOneLine, ()) {
  const std::string name = *rc::gen::element<std::string>(
      "llama-3.1-8b", "deepseek-v3", "deepseek-v3.2", "deepseek-v4-flash", "gpt-oss-20b",
      "gemma-3-27b", "llama-4-scout", "qwen3-next-80b-a3b", "mimo-v2-flash", "longcat-flash");
  const ModelConfig model = preset(name);
  const PeerQuestion question = random_question();
  for (const auto& plan : {plan_vllm(model, question), plan_sglang(model, question)}) {
    if (plan) {
      RC_ASSERT(!plan->groups.empty());
      RC_ASSERT(plan->capacity.has_value() == question.kv_memory_bytes.has_value());
    } else {
      RC_ASSERT(plan.error().message.find('\n') == std::string::npos);
    }
  }
}

struct Refusal {
  std::string model;
  std::string part;  // of the message
  PeerQuestion question;
};

std::vector<Refusal> vllm_refusals() {
  std::vector<Refusal> all;
  const auto ask = [&all](std::string model, std::string part) -> PeerQuestion& {
    all.push_back({std::move(model), std::move(part), {}});
    return all.back().question;
  };
  ask("llama-3-8b", "32 attention heads").tensor = 3;
  ask("llama-3-8b", "kv cache dtype is 'fp7'").kv_cache_dtype = "fp7";
  ask("llama-3-8b", "fp8_ds_mla, which has no meaning").kv_cache_dtype = "fp8_ds_mla";
  ask("deepseek-v3", "nvfp4, which has no meaning").kv_cache_dtype = "nvfp4";
  ask("llama-3-8b", "turboquant").kv_cache_dtype = "turboquant_k8v4";
  ask("llama-3-8b", "gpu arch is 'h100'").gpu_arch = "h100";
  ask("llama-3-8b", "ssm dtype is 'fp8'").ssm_dtype = "fp8";
  ask("llama-3-8b", "pipeline is 33").pipeline = 33;
  ask("deepseek-v4-flash", "kv cache dtype is auto");
  ask("deepseek-v4-flash", "block size is 128").block_tokens = 128;
  all.back().question.kv_cache_dtype = "fp8";
  ask("llama-3-8b", "tensor above 8 KV heads").decode_context = 2;
  all.back().question.tensor = 8;
  ask("deepseek-v3", "divisors of tensor 8").decode_context = 3;
  all.back().question.tensor = 8;
  ask("deepseek-v3", "interleave is 32; allowed: divisors of block size 16").interleave = 32;
  all.back().question.tensor = 8;
  all.back().question.decode_context = 8;
  ask("deepseek-v3", "interleave is 24; allowed: divisors of block size 64").interleave = 24;
  all.back().question.tensor = 8;
  all.back().question.decode_context = 8;
  all.back().question.block_tokens = 64;
  ask("llama-3-8b", "prefill context is 2").prefill_context = 2;
  ask("deepseek-v3", "prefill context 2: 1, 2, 8").prefill_context = 2;
  all.back().question.tensor = 4;
  all.back().question.decode_context = 4;
  all.back().question.model_runner_v2 = true;
  ask("gpt-oss-20b", "DCP not support sliding window").decode_context = 2;
  all.back().question.tensor = 16;
  ask("qwen3-next-80b-a3b", "mamba chunk tokens is 0").mamba_mode = MambaCacheMode::kAll;
  ask("llama-3-8b", "pipeline layers are 16,15").pipeline_layers = {16, 15};
  all.back().question.pipeline = 2;
  ask("llama-3-8b", "pipeline layers are 32,0").pipeline_layers = {32, 0};
  all.back().question.pipeline = 2;
  ask("llama-3-8b", "no memory is available").kv_memory_bytes = 0;
  return all;
}

TEST(VllmRefusals, NameTheFieldItsValueAndWhatIsAllowed) {
  for (const Refusal& row : vllm_refusals()) {
    const auto plan = plan_vllm(preset(row.model), row.question);
    const std::string message = refusal(plan);
    EXPECT_NE(message.find(row.part), std::string::npos) << row.part << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(VllmRefusals, DecodeContextOfGroupedHeadsNeedsReplication) {
  PeerQuestion question;
  question.tensor = 16;  // 8 KV heads twice, 4 queries each
  question.decode_context = 2;
  const PeerPlan plan = vllm(preset("llama-3-8b"), question);
  EXPECT_EQ(plan.bytes_per_token, Rational(131'072 / 8 / 2));
}

TEST(VllmRefusals, AnInterleaveThatDividesTheBlockIsFine) {
  PeerQuestion question;
  question.interleave = 16;
  question.tensor = 8;
  question.decode_context = 8;
  EXPECT_EQ(vllm(preset("deepseek-v3"), question).bytes_per_token, Rational(70'272 / 8));
  question.interleave = 24;  // not read where tokens are not dealt out
  question.decode_context = 1;
  EXPECT_TRUE(plan_vllm(preset("deepseek-v3"), question));
}

TEST(Peers, TheBlockSizeIsAGuessOnlyWhereNobodyGaveIt) {
  PeerQuestion question;
  EXPECT_TRUE(has(vllm(preset("deepseek-v3.2"), question).notes, "without a backend to choose it"));
  question.block_tokens = 64;
  EXPECT_FALSE(has(vllm(preset("deepseek-v3.2"), question).notes, "the GPU is unknown"));
}

TEST(Peers, AnAmdGpuGetsFiguresWithoutABackend) {
  PeerQuestion question = asked(60, 163'840);
  question.gpu_arch = "gfx942";
  const PeerPlan plan = vllm(preset("deepseek-v3"), question);
  EXPECT_EQ(plan.backend, "");
  EXPECT_EQ(plan.bytes_per_token, Rational(70'272));
  EXPECT_TRUE(has(plan.notes, "which backends vLLM has on gfx942 is not known here"));
}

TEST(VllmRefusals, DecodeContextMaySpanPrefillContext) {
  PeerQuestion question;
  question.tensor = 4;
  question.prefill_context = 2;
  question.decode_context = 8;
  question.model_runner_v2 = true;
  EXPECT_EQ(vllm(preset("deepseek-v3"), question).bytes_per_token, Rational(70'272 / 8));
}

TEST(StateBytes, OneHeadIsDividedByItsChannels) {
  RecurrentFacts mamba1;  // Jamba-1.5-Mini: 8192 channels, 3 columns and 16 numbers of each
  mamba1.mixer = RecurrentMixer::kMamba1;
  mamba1.conv_channels = 8192;
  mamba1.conv_columns = 3;
  mamba1.state_heads = 1;
  mamba1.state_rows = 8192;
  mamba1.state_columns = 16;
  const auto half = state_bytes(PeerEngine::kVllm, mamba1, 2, 2, 4);
  ASSERT_TRUE(half) << half.error().message;
  EXPECT_EQ(half->convolution, 4096u * 3 * 2);
  EXPECT_EQ(half->state, 4096u * 16 * 4);
  const auto third = state_bytes(PeerEngine::kVllm, mamba1, 3, 2, 4);
  ASSERT_FALSE(third);
  EXPECT_NE(third.error().message.find("vLLM 073c510c (2026-08-09) refuses: tensor_parallel is 3; "
                                       "allowed: a divisor of 8192, the channels"),
            std::string::npos)
      << third.error().message;
}

TEST(StateBytes, JambaRunsOnTwoRanksOfVllm) {
  PeerQuestion question = asked(60, 65'536);
  question.tensor = 2;
  const PeerPlan plan = vllm(preset("jamba-1.5-mini"), question);
  // Attention pages grow to hold a state: 4096 x (3 + 16) bf16 numbers over 4 heads x 256.
  EXPECT_EQ(plan.page_tokens, (4096u * 19 + 4 * 256 * 16 - 1) / (4 * 256 * 16) * 16);
}

RC_GTEST_PROP(PipelineSplit, EveryLayerIsInOneStageAndStagesDifferByOne, ()) {
  ModelConfig model;
  model.num_hidden_layers = *rc::gen::inRange<std::uint32_t>(1, 98);
  PeerQuestion question;
  question.pipeline = *rc::gen::inRange<std::uint32_t>(1, 9);
  for (const PeerEngine engine : {PeerEngine::kVllm, PeerEngine::kSglang}) {
    const auto split = pipeline_split(engine, model, question);
    RC_ASSERT(split.has_value() == (question.pipeline <= model.num_hidden_layers));
    if (!split) continue;
    RC_ASSERT(std::accumulate(split->begin(), split->end(), 0u) == model.num_hidden_layers);
    const auto [least, most] = std::minmax_element(split->begin(), split->end());
    RC_ASSERT(*most - *least <= 1);
  }
}

TEST(PipelineSplit, TheRestGoesToTheMiddleOrTheEnd) {
  ModelConfig model;
  model.num_hidden_layers = 62;
  PeerQuestion question;
  question.pipeline = 4;
  using Split = std::vector<std::uint32_t>;
  EXPECT_EQ(pipeline_split(PeerEngine::kVllm, model, question).value(), (Split{15, 16, 16, 15}));
  EXPECT_EQ(pipeline_split(PeerEngine::kSglang, model, question).value(), (Split{15, 15, 16, 16}));
  question.pipeline_layers = {20, 20, 20, 2};
  EXPECT_EQ(pipeline_split(PeerEngine::kVllm, model, question).value(), (Split{20, 20, 20, 2}));
}

}  // namespace
}  // namespace emblema
