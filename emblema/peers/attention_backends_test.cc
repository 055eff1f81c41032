// Which backend each engine takes on a GPU, with its page and what becomes of the cache's type.
// Right values: vLLM 073c510c (2026-08-09), platforms/cuda.py and the backends' own lists, walked
// by hand; vLLM's page on attention backends for DeepSeek-V4; SGLang v0.5.18, server_args.py.
#include "emblema/peers/attention_backends.h"

#include <map>
#include <set>

#include "emblema/peers/peers_testing.h"

namespace emblema {
namespace {

using peers_testing::has;
using peers_testing::preset;
using peers_testing::refusal;
using peers_testing::sglang;
using peers_testing::vllm;

struct Chosen {
  std::string backend;
  std::uint64_t page_tokens = 0;
  std::string kv_cache_dtype;
  friend bool operator==(const Chosen&, const Chosen&) = default;
};

std::ostream& operator<<(std::ostream& out, const Chosen& chosen) {
  return out << chosen.backend << " " << chosen.page_tokens << " " << chosen.kv_cache_dtype;
}

Chosen by_vllm(const std::string& model, const std::string& arch, const std::string& dtype,
               std::uint32_t tensor = 1) {
  PeerQuestion question;
  question.gpu_arch = arch;
  question.kv_cache_dtype = dtype;
  question.tensor = tensor;
  const PeerPlan plan = vllm(preset(model), question);
  return {plan.backend, plan.page_tokens, plan.kv_cache_dtype};
}

TEST(VllmBackends, DenseLatents) {
  using C = Chosen;
  EXPECT_EQ(by_vllm("deepseek-v3", "sm90", "auto"), (C{"FLASH_ATTN_MLA", 16, "auto"}));
  EXPECT_EQ(by_vllm("deepseek-v3", "sm90", "fp8"), (C{"FLASHMLA", 64, "fp8"}));
  EXPECT_EQ(by_vllm("deepseek-v3", "sm100", "auto"), (C{"FLASHINFER_MLA", 32, "auto"}));
  EXPECT_EQ(by_vllm("deepseek-v3", "sm103", "fp8"), (C{"FLASHINFER_MLA", 32, "fp8"}));
  EXPECT_EQ(by_vllm("deepseek-v3", "sm120", "auto"), (C{"TRITON_MLA", 16, "auto"}));
  EXPECT_EQ(by_vllm("deepseek-v3", "sm80", "auto"), (C{"TRITON_MLA", 16, "auto"}));
}

TEST(VllmBackends, SparseLatents) {
  using C = Chosen;
  EXPECT_EQ(by_vllm("deepseek-v3.2", "sm90", "auto"), (C{"FLASH_ATTN_MLA_SPARSE", 64, "auto"}));
  EXPECT_EQ(by_vllm("deepseek-v3.2", "sm90", "fp8"), (C{"FLASHMLA_SPARSE", 64, "fp8_ds_mla"}));
  // Blackwell: FlashInfer first for fp8, and for 16 heads a rank or fewer.
  EXPECT_EQ(by_vllm("deepseek-v3.2", "sm100", "fp8"), (C{"FLASHINFER_MLA_SPARSE", 32, "fp8"}));
  EXPECT_EQ(by_vllm("deepseek-v3.2", "sm100", "auto"), (C{"FLASHMLA_SPARSE", 64, "auto"}));
  EXPECT_EQ(by_vllm("deepseek-v3.2", "sm100", "auto", 8), (C{"FLASHINFER_MLA_SPARSE", 32, "auto"}));
  EXPECT_EQ(by_vllm("deepseek-v3.2", "sm120", "auto"),
            (C{"FLASHINFER_MLA_SPARSE_SM120", 64, "fp8_ds_mla"}));
}

TEST(VllmBackends, GroupedHeads) {
  using C = Chosen;
  EXPECT_EQ(by_vllm("llama-3-70b", "sm90", "auto"), (C{"FLASH_ATTN", 16, "auto"}));
  EXPECT_EQ(by_vllm("llama-3-70b", "sm90", "fp8"), (C{"FLASH_ATTN", 16, "fp8"}));
  EXPECT_EQ(by_vllm("llama-3-70b", "sm80", "auto"), (C{"FLASH_ATTN", 16, "auto"}));
  EXPECT_EQ(by_vllm("llama-3-70b", "sm89", "fp8"), (C{"FLASHINFER", 16, "fp8"}));
  EXPECT_EQ(by_vllm("llama-3-70b", "sm100", "auto"), (C{"FLASHINFER", 16, "auto"}));
  EXPECT_EQ(by_vllm("llama-3-70b", "sm100", "nvfp4"), (C{"FLASHINFER", 16, "nvfp4"}));
  EXPECT_EQ(by_vllm("llama-3-70b", "sm90", "int8_per_token_head"),
            (C{"TRITON_ATTN", 16, "int8_per_token_head"}));
}

TEST(VllmBackends, AttentionSinks) {
  using C = Chosen;
  EXPECT_EQ(by_vllm("gpt-oss-120b", "sm90", "auto"), (C{"FLASH_ATTN", 16, "auto"}));
  EXPECT_EQ(by_vllm("gpt-oss-120b", "sm100", "auto"), (C{"FLASHINFER", 16, "auto"}));
  EXPECT_EQ(by_vllm("gpt-oss-120b", "sm80", "auto"), (C{"TRITON_ATTN", 16, "auto"}));
  EXPECT_EQ(by_vllm("gpt-oss-120b", "sm120", "auto"), (C{"TRITON_ATTN", 16, "auto"}));
}

TEST(VllmBackends, DeepSeekV4) {
  using C = Chosen;
  EXPECT_EQ(by_vllm("deepseek-v4-flash", "sm90", "fp8"),
            (C{"FLASHMLA_SPARSE_DSV4", 256, "fp8_ds_mla"}));
  EXPECT_EQ(by_vllm("deepseek-v4-flash", "sm100", "fp8"),
            (C{"FLASHMLA_SPARSE_DSV4", 256, "fp8_ds_mla"}));
  EXPECT_EQ(by_vllm("deepseek-v4-flash", "sm120", "fp8_e4m3"),
            (C{"FLASHINFER_MLA_SPARSE_DSV4", 256, "fp8_ds_mla"}));
}

TEST(VllmBackends, SomeGpusHaveNone) {
  PeerQuestion question;
  question.gpu_arch = "sm80";
  EXPECT_NE(refusal(plan_vllm(preset("deepseek-v3.2"), question)).find("compute 8.0"),
            std::string::npos);
  question.kv_cache_dtype = "fp8";  // no kernel of Ampere reads it for latents with these pages
  question.block_tokens = 24;
  EXPECT_NE(refusal(plan_vllm(preset("deepseek-v3"), question)).find("block size 24"),
            std::string::npos);
  question.gpu_arch = "sm90";
  question.kv_cache_dtype = "auto";
  question.block_tokens.reset();
  EXPECT_NE(refusal(plan_vllm(preset("deepseek-v4-flash"), question)).find("cache type auto"),
            std::string::npos);
}

TEST(VllmBackends, AnAskedBlockMustBeWholeKernelPages) {
  PeerQuestion question;
  question.gpu_arch = "sm90";
  question.block_tokens = 128;
  EXPECT_EQ(vllm(preset("deepseek-v3"), question).page_tokens, 128u);
  question.kv_cache_dtype = "fp8";
  question.block_tokens = 16;  // FLASHMLA reads 64; TRITON_MLA any 16
  EXPECT_EQ(vllm(preset("deepseek-v3"), question).backend, "TRITON_MLA");
}

TEST(VllmBackends, TheChoiceIsLoggedAsVllmDoes) {
  PeerQuestion question;
  question.gpu_arch = "sm90";
  question.kv_cache_dtype = "fp8";
  EXPECT_EQ(vllm(preset("deepseek-v3"), question).log.at(0),
            "Setting kv cache block size to 64 tokens for FLASHMLA backend.");
}

TEST(VllmBackends, EveryNameInAnOrderHasARow) {
  std::set<std::string_view> names;
  for (const BackendRow& row : vllm_backends()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is there twice";
  }
  for (const char* arch : {"sm80", "sm86", "sm89", "sm90", "sm100", "sm103", "sm120"}) {
    for (const CacheShape shape : {CacheShape::kGrouped, CacheShape::kLatent,
                                   CacheShape::kSparseLatent, CacheShape::kCompressed}) {
      BackendNeed need;
      need.shape = shape;
      need.gpu_arch = arch;
      for (const std::string_view name : vllm_backend_order(need)) {
        EXPECT_TRUE(names.contains(name)) << name << " on " << arch;
      }
    }
  }
}

Chosen by_sglang(const std::string& model, const std::string& arch) {
  PeerQuestion question;
  question.gpu_arch = arch;
  const PeerPlan plan = sglang(preset(model), question);
  return {plan.backend, plan.page_tokens, plan.kv_cache_dtype};
}

TEST(SglangBackends, Defaults) {
  using C = Chosen;
  EXPECT_EQ(by_sglang("llama-3-70b", "sm90"), (C{"fa3", 1, "auto"}));
  EXPECT_EQ(by_sglang("llama-3-70b", "sm100"), (C{"trtllm_mha", 64, "auto"}));
  EXPECT_EQ(by_sglang("llama-3-70b", "sm80"), (C{"flashinfer", 1, "auto"}));
  EXPECT_EQ(by_sglang("llama-3-70b", "gfx942"), (C{"aiter", 1, "auto"}));
  EXPECT_EQ(by_sglang("gpt-oss-120b", "sm120"), (C{"triton", 1, "auto"}));
  EXPECT_EQ(by_sglang("mimo-v2-flash", "sm100"), (C{"fa4", 128, "auto"}));
  EXPECT_EQ(by_sglang("deepseek-v3", "sm90"), (C{"fa3", 1, "auto"}));
  EXPECT_EQ(by_sglang("deepseek-v3", "sm100"), (C{"trtllm_mla", 64, "auto"}));
  EXPECT_EQ(by_sglang("deepseek-v2", "sm100"), (C{"flashinfer", 1, "auto"}));
  EXPECT_EQ(by_sglang("deepseek-v3", "sm80"), (C{"triton", 1, "auto"}));
  EXPECT_EQ(by_sglang("deepseek-v3", "gfx950"), (C{"aiter", 1, "auto"}));
  EXPECT_EQ(by_sglang("deepseek-v3.2", "sm90"), (C{"dsa", 64, "auto"}));
  EXPECT_EQ(by_sglang("deepseek-v4-flash", "sm90"), (C{"dsv4", 256, "auto"}));
}

TEST(SglangBackends, AnotherPageIsOverriddenWithAWarning) {
  PeerQuestion question;
  question.gpu_arch = "sm100";
  question.block_tokens = 1;
  const PeerPlan plan = sglang(preset("deepseek-v3"), question);
  EXPECT_EQ(plan.page_tokens, 64u);
  EXPECT_TRUE(has(plan.warnings, "page size 1 becomes 64: trtllm_mla"));
  question.block_tokens = 32;
  EXPECT_EQ(sglang(preset("deepseek-v3"), question).page_tokens, 32u);
}

}  // namespace
}  // namespace emblema
