#include "emblema/model/weight_class.h"

#include <algorithm>
#include <array>

#include "emblema/model/model_family.h"

namespace emblema {
namespace {

using enum QkNorm;
constexpr DraftRule kDeepSeek = DraftRule::kDeepSeek;

// Sorted by name.
constexpr auto kClasses = std::to_array<WeightClass>({
    {.model_type = "deepseek_v2"},
    {.model_type = "deepseek_v3", .correction_bias = true, .drafts = kDeepSeek},
    {.model_type = "deepseek_v32", .correction_bias = true, .drafts = kDeepSeek},
    {.model_type = "deepseek_v4", .correction_bias = true, .drafts = DraftRule::kDeepSeekV4},
    {.model_type = "falcon_h1"},
    {.model_type = "gemma", .tied = true},
    {.model_type = "gemma2", .norms = 4, .tied = true},
    {.model_type = "gemma3", .norms = 4, .tied = true, .qk_norm = kPerHead},
    {.model_type = "gemma3_text", .norms = 4, .tied = true, .qk_norm = kPerHead},
    {.model_type = "gemma3n",
     .norms = 4,
     .tied = true,
     .qk_norm = kPerHead,
     .alternates = true,
     .unused_keys = true},
    {.model_type = "gemma3n_text",
     .norms = 4,
     .tied = true,
     .qk_norm = kPerHead,
     .alternates = true,
     .unused_keys = true},
    {.model_type = "gemma4",
     .norms = 4,
     .tied = true,
     .qk_norm = kPerHead,
     .dense_beside_experts = true,
     .scaled_router = true,
     .expert_norms = 3,
     .layer_scale = true},
    {.model_type = "gemma4_text",
     .norms = 4,
     .tied = true,
     .qk_norm = kPerHead,
     .dense_beside_experts = true,
     .scaled_router = true,
     .expert_norms = 3,
     .layer_scale = true},
    {.model_type = "glm4_moe",
     .output_bias = false,
     .qk_norm = kPerHead,
     .qk_norm_by_flag = true,
     .correction_bias = true,
     .drafts = kDeepSeek},
    {.model_type = "glm4_moe_lite", .correction_bias = true, .drafts = kDeepSeek},
    {.model_type = "glm_moe_dsa", .correction_bias = true, .drafts = kDeepSeek},
    {.model_type = "gpt_oss", .qkv_bias = true, .expert_bias = true},
    {.model_type = "jamba"},
    {.model_type = "kimi_k2", .correction_bias = true},
    {.model_type = "kimi_linear", .correction_bias = true},
    {.model_type = "llama"},
    {.model_type = "llama4"},
    {.model_type = "llama4_text"},
    {.model_type = "longcat_flash",
     .correction_bias = true,
     .dense_beside_experts = true,
     .experts_every = 2,
     .drafts = DraftRule::kLongCat},
    {.model_type = "mimo_v2_flash", .correction_bias = true, .drafts_unsaid = true},
    {.model_type = "minicpm3", .tied = true},
    {.model_type = "minimax_m1"},
    {.model_type = "minimax_m2",
     .qk_norm = kWhole,
     .qk_norm_by_flag = true,
     .correction_bias = true},
    {.model_type = "minimax_m3", .qk_norm = kPerHead, .correction_bias = true, .router_bytes = 4},
    {.model_type = "minimax_text_01"},
    {.model_type = "ministral"},
    {.model_type = "ministral3", .tied = true},
    {.model_type = "mistral"},
    {.model_type = "mixtral"},
    {.model_type = "mllama", .extra_embeddings = 8},
    {.model_type = "mllama_text_model", .extra_embeddings = 8},
    {.model_type = "nemotron_h",
     .norms = 1,
     .gated = false,
     .correction_bias = true,
     .mixer_norm = true},
    {.model_type = "olmo2", .qk_norm = kWhole},
    {.model_type = "olmo3", .qk_norm = kWhole},
    {.model_type = "phi3"},
    {.model_type = "qwen2", .qkv_bias = true, .output_bias = false},
    {.model_type = "qwen2_5_vl", .qkv_bias = true, .output_bias = false},
    {.model_type = "qwen2_5_vl_text", .qkv_bias = true, .output_bias = false},
    {.model_type = "qwen2_moe", .qkv_bias = true, .output_bias = false, .shared_gate = true},
    {.model_type = "qwen2_vl", .qkv_bias = true, .output_bias = false},
    {.model_type = "qwen2_vl_text", .qkv_bias = true, .output_bias = false},
    {.model_type = "qwen3", .qk_norm = kPerHead},
    {.model_type = "qwen3_5", .qk_norm = kPerHead, .output_gate = true, .drafts = kDeepSeek},
    {.model_type = "qwen3_5_moe",
     .qk_norm = kPerHead,
     .output_gate = true,
     .shared_gate = true,
     .drafts = kDeepSeek},
    {.model_type = "qwen3_5_moe_text",
     .qk_norm = kPerHead,
     .output_gate = true,
     .shared_gate = true,
     .drafts = kDeepSeek},
    {.model_type = "qwen3_5_text", .qk_norm = kPerHead, .output_gate = true, .drafts = kDeepSeek},
    {.model_type = "qwen3_moe", .qk_norm = kPerHead},
    {.model_type = "qwen3_next",
     .qk_norm = kPerHead,
     .output_gate = true,
     .shared_gate = true,
     .drafts = kDeepSeek,
     .drafts_unsaid = true},
    {.model_type = "qwen3_vl_moe_text", .qk_norm = kPerHead},
    {.model_type = "qwen3_vl_text", .qk_norm = kPerHead},
    {.model_type = "seed_oss", .qkv_bias = true, .output_bias = false},
    {.model_type = "smollm3", .tied = true},
    {.model_type = "zamba2", .norms = 1, .tied = true, .mixer_norm = true, .shares_blocks = true},
});

}  // namespace

std::optional<WeightClass> find_weight_class(std::string_view model_type) {
  for (const WeightClass& row : kClasses) {
    if (row.model_type == model_type) return row;
  }
  const auto families = model_families();
  const bool known = std::any_of(families.begin(), families.end(), [&](const ModelFamily& family) {
    return family.model_type == model_type;
  });
  return known ? std::nullopt : std::optional<WeightClass>(WeightClass{});
}

}  // namespace emblema
