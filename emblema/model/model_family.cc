#include "emblema/model/model_family.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace emblema {
namespace {

using enum WindowRule;
using Positions::kAlibi;
using Positions::kLearned;
using RecurrentMixer::kGatedDelta;
using RecurrentMixer::kKimiDelta;
using RecurrentMixer::kKvConv;
using RecurrentMixer::kLightning;
using RecurrentMixer::kMamba1;
using RecurrentMixer::kMamba2;
using RecurrentMixer::kRgLru;
using RecurrentMixer::kShortConv;
constexpr Positions kNoPositions = Positions::kNone;

// Sorted by name. "ministral3" and its like only ever slide by layer_types: kNever.
constexpr auto kFamilies = std::to_array<ModelFamily>({
    {.model_type = "afmoe",
     .windows = kAllButEveryNth,
     .full_every = 4,
     .rope_on_windows_only = true},
    {.model_type = "apertus", .windows = kNever, .rope_theta = 12e6},
    {.model_type = "baichuan", .windows = kNever},
    {.model_type = "baichuan_m1", .windows = kNever, .rope_theta = 1e6, .mixer = kKvConv},
    {.model_type = "bailing_hybrid", .windows = kNever, .interleaved = true, .mixer = kLightning},
    {.model_type = "bailing_moe", .windows = kNever},
    {.model_type = "bailing_moe_linear", .windows = kNever, .mixer = kLightning},
    {.model_type = "bailing_moe_linear_v2", .windows = kNever, .mixer = kLightning},
    {.model_type = "bailing_moe_v2", .windows = kNever},
    {.model_type = "bamba", .windows = kNever, .rotary_share = 0.5, .mixer = kMamba2},
    {.model_type = "bart", .windows = kNever, .positions = kLearned, .cross_attends = true},
    {.model_type = "beam", .windows = kNever},
    {.model_type = "blenderbot", .windows = kNever, .positions = kLearned, .cross_attends = true},
    {.model_type = "bloom", .windows = kNever, .positions = kAlibi},
    {.model_type = "chatglm", .windows = kNever, .interleaved = true, .rotary_share = 0.5},
    {.model_type = "codegen", .windows = kNever, .interleaved = true},
    {.model_type = "cohere", .windows = kNever, .interleaved = true},
    {.model_type = "cohere2",
     .windows = kAllButEveryNth,
     .full_every = 4,
     .interleaved = true,
     .rope_on_windows_only = true},
    {.model_type = "dbrx", .windows = kNever},
    {.model_type = "deci", .windows = kNever},
    {.model_type = "deepseek_v2", .windows = kNever, .interleaved = true, .latent = true},
    {.model_type = "deepseek_v3", .windows = kNever, .interleaved = true, .latent = true},
    {.model_type = "deepseek_v32", .windows = kNever, .interleaved = true, .latent = true},
    {.model_type = "deepseek_v4", .windows = kEvery, .interleaved = true, .sinks = true},
    {.model_type = "dots1", .windows = kFromLayer},
    {.model_type = "ernie4_5", .windows = kNever, .interleaved = true, .rope_theta = 500'000},
    {.model_type = "ernie4_5_moe", .windows = kNever, .interleaved = true, .rope_theta = 500'000},
    {.model_type = "exaone", .windows = kNever},
    {.model_type = "exaone4",
     .windows = kAllButEveryNth,
     .full_every = 4,
     .rope_on_windows_only = true,
     .windows_optional = true},
    {.model_type = "falcon", .windows = kNever},
    {.model_type = "falcon_h1", .windows = kNever, .mixer = kMamba2},
    {.model_type = "falcon_mamba", .windows = kNever, .positions = kNoPositions, .mixer = kMamba1},
    {.model_type = "gemma", .windows = kNever, .head_dim = 256},
    {.model_type = "gemma2", .windows = kEvenLayers, .head_dim = 256},
    {.model_type = "gemma3",
     .windows = kAllButEveryNth,
     .full_every = 6,
     .rope_theta = 1e6,
     .head_dim = 256},
    {.model_type = "gemma3_text",
     .windows = kAllButEveryNth,
     .full_every = 6,
     .rope_theta = 1e6,
     .head_dim = 256},
    {.model_type = "gemma3n",
     .windows = kAllButEveryNth,
     .full_every = 5,
     .rope_theta = 1e6,
     .head_dim = 256,
     .unit_scale = true},
    {.model_type = "gemma3n_text",
     .windows = kAllButEveryNth,
     .full_every = 5,
     .rope_theta = 1e6,
     .head_dim = 256,
     .unit_scale = true},
    {.model_type = "gemma4",
     .windows = kAllButEveryNth,
     .full_every = 6,
     .rope_theta = 1e6,
     .head_dim = 256,
     .unit_scale = true},
    {.model_type = "gemma4_text",
     .windows = kAllButEveryNth,
     .full_every = 6,
     .rope_theta = 1e6,
     .head_dim = 256,
     .unit_scale = true},
    {.model_type = "gemma4_unified",
     .windows = kAllButEveryNth,
     .full_every = 6,
     .rope_theta = 1e6,
     .head_dim = 256,
     .unit_scale = true},
    {.model_type = "gemma4_unified_text",
     .windows = kAllButEveryNth,
     .full_every = 6,
     .rope_theta = 1e6,
     .head_dim = 256,
     .unit_scale = true},
    {.model_type = "glm", .windows = kNever, .interleaved = true, .rotary_share = 0.5},
    {.model_type = "glm4", .windows = kNever, .interleaved = true, .rotary_share = 0.5},
    {.model_type = "glm4_moe", .windows = kNever, .rotary_share = 0.5},
    {.model_type = "glm4_moe_lite", .windows = kNever, .interleaved = true, .latent = true},
    {.model_type = "glm_moe_dsa", .windows = kNever, .interleaved = true, .latent = true},
    {.model_type = "gpt2", .windows = kNever, .positions = kLearned},
    {.model_type = "gpt_bigcode", .windows = kNever, .positions = kLearned},
    {.model_type = "gpt_neo", .windows = kNever, .positions = kLearned},
    {.model_type = "gpt_neox", .windows = kNever, .rotary_share = 0.25},
    {.model_type = "gpt_oss", .windows = kEvenLayers, .rope_theta = 150'000, .sinks = true},
    {.model_type = "gptj", .windows = kNever, .interleaved = true},
    {.model_type = "granite", .windows = kNever},
    {.model_type = "granitemoe", .windows = kNever},
    {.model_type = "granitemoehybrid", .windows = kNever, .mixer = kMamba2},
    {.model_type = "helium", .windows = kNever, .interleaved = true},
    {.model_type = "hunyuan", .windows = kNever},
    {.model_type = "hunyuan_v1_dense", .windows = kNever},
    {.model_type = "hunyuan_v1_moe", .windows = kNever},
    {.model_type = "internlm", .windows = kNever},
    {.model_type = "internlm2", .windows = kNever},
    {.model_type = "internlm3", .windows = kNever},
    {.model_type = "jamba", .windows = kNever, .positions = kNoPositions, .mixer = kMamba1},
    {.model_type = "kimi_k2", .windows = kNever, .interleaved = true, .latent = true},
    {.model_type = "kimi_linear",
     .windows = kNever,
     .interleaved = true,
     .mixer = kKimiDelta,
     .latent = true},
    {.model_type = "laguna", .windows = kNever},
    {.model_type = "lfm2", .windows = kNever, .rope_theta = 1e6, .mixer = kShortConv},
    {.model_type = "lfm2_moe", .windows = kNever, .rope_theta = 1e6, .mixer = kShortConv},
    {.model_type = "llama", .windows = kNever},
    {.model_type = "llama4", .windows = kChunks, .interleaved = true, .rope_theta = 500'000},
    {.model_type = "llama4_text", .windows = kChunks, .interleaved = true, .rope_theta = 500'000},
    {.model_type = "longcat_flash", .windows = kNever, .interleaved = true, .latent = true},
    {.model_type = "longcat_flash_ngram", .windows = kNever, .interleaved = true, .latent = true},
    {.model_type = "longt5",
     .windows = kNever,
     .positions = kLearned,
     .unit_scale = true,
     .cross_attends = true},
    {.model_type = "m2m_100", .windows = kNever, .positions = kLearned, .cross_attends = true},
    {.model_type = "mamba", .windows = kNever, .positions = kNoPositions, .mixer = kMamba1},
    {.model_type = "mamba2", .windows = kNever, .positions = kNoPositions, .mixer = kMamba2},
    {.model_type = "marian", .windows = kNever, .positions = kLearned, .cross_attends = true},
    {.model_type = "mbart", .windows = kNever, .positions = kLearned, .cross_attends = true},
    {.model_type = "mimo", .windows = kFromLayer},
    {.model_type = "mimo_v2_flash", .windows = kNever},
    {.model_type = "minicpm", .windows = kNever},
    {.model_type = "minicpm3", .windows = kNever, .latent = true},
    {.model_type = "minimax", .windows = kNever, .rope_theta = 1e6, .mixer = kLightning},
    {.model_type = "minimax_m1", .windows = kNever, .rope_theta = 1e6, .mixer = kLightning},
    {.model_type = "minimax_m2", .windows = kNever},
    {.model_type = "minimax_m3", .windows = kNever},
    {.model_type = "minimax_text_01", .windows = kNever, .rope_theta = 1e6, .mixer = kLightning},
    {.model_type = "ministral", .windows = kEvery},
    {.model_type = "ministral3", .windows = kNever},
    {.model_type = "mistral", .windows = kEvery},
    {.model_type = "mistral4", .windows = kNever, .interleaved = true, .latent = true},
    {.model_type = "mixtral", .windows = kEvery, .rope_theta = 1e6},
    {.model_type = "mllama", .windows = kNever, .rope_theta = 500'000},
    {.model_type = "mllama_text_model", .windows = kNever, .rope_theta = 500'000},
    {.model_type = "mpt", .windows = kNever, .positions = kLearned},
    {.model_type = "mt5",
     .windows = kNever,
     .positions = kLearned,
     .unit_scale = true,
     .cross_attends = true},
    {.model_type = "nemotron", .windows = kNever, .rotary_share = 0.5},
    {.model_type = "nemotron-nas", .windows = kNever},
    {.model_type = "nemotron_h", .windows = kNever, .positions = kNoPositions, .mixer = kMamba2},
    {.model_type = "olmo", .windows = kNever},
    {.model_type = "olmo2", .windows = kNever},
    {.model_type = "olmo3", .windows = kAllButEveryNth, .full_every = 4},
    {.model_type = "olmo_hybrid", .windows = kNever, .rope_theta = 500'000, .mixer = kGatedDelta},
    {.model_type = "olmoe", .windows = kNever},
    {.model_type = "openelm", .windows = kNever},
    {.model_type = "opt", .windows = kNever, .positions = kLearned},
    {.model_type = "pegasus", .windows = kNever, .positions = kLearned, .cross_attends = true},
    {.model_type = "persimmon", .windows = kNever, .rotary_share = 0.5},
    {.model_type = "phi", .windows = kNever, .rotary_share = 0.5},
    {.model_type = "phi-msft", .windows = kNever, .rotary_share = 0.5},
    {.model_type = "phi3", .windows = kEvery},
    {.model_type = "phi3small", .windows = kNever, .rope_theta = 1e6},
    {.model_type = "phimoe", .windows = kEvery, .rope_theta = 1e6},
    {.model_type = "plbart", .windows = kNever, .positions = kLearned, .cross_attends = true},
    {.model_type = "qwen", .windows = kNever},
    {.model_type = "qwen2", .windows = kFromLayer},
    {.model_type = "qwen2_5_vl", .windows = kFromLayer, .rope_theta = 1e6},
    {.model_type = "qwen2_5_vl_text", .windows = kFromLayer, .rope_theta = 1e6},
    {.model_type = "qwen2_moe", .windows = kFromLayer},
    {.model_type = "qwen2_vl", .windows = kFromLayer, .rope_theta = 1e6},
    {.model_type = "qwen2_vl_text", .windows = kFromLayer, .rope_theta = 1e6},
    {.model_type = "qwen3", .windows = kFromLayer},
    {.model_type = "qwen3_5", .windows = kNever, .rotary_share = 0.25, .mixer = kGatedDelta},
    {.model_type = "qwen3_5_moe", .windows = kNever, .rotary_share = 0.25, .mixer = kGatedDelta},
    {.model_type = "qwen3_5_moe_text",
     .windows = kNever,
     .rotary_share = 0.25,
     .mixer = kGatedDelta},
    {.model_type = "qwen3_5_text", .windows = kNever, .rotary_share = 0.25, .mixer = kGatedDelta},
    {.model_type = "qwen3_moe", .windows = kFromLayer},
    {.model_type = "qwen3_next", .windows = kNever, .rotary_share = 0.25, .mixer = kGatedDelta},
    {.model_type = "qwen3_vl_moe_text", .windows = kNever, .rope_theta = 5e6},
    {.model_type = "qwen3_vl_text", .windows = kNever, .rope_theta = 5e6},
    {.model_type = "recurrent_gemma", .windows = kEvery, .rotary_share = 0.5, .mixer = kRgLru},
    {.model_type = "seed_oss", .windows = kNever},
    {.model_type = "smollm3", .windows = kFromLayer, .rope_theta = 2e6},
    {.model_type = "speech_to_text",
     .windows = kNever,
     .positions = kLearned,
     .cross_attends = true},
    {.model_type = "stablelm", .windows = kNever, .rotary_share = 0.25},
    {.model_type = "starcoder2", .windows = kEvery},
    {.model_type = "step3_text", .windows = kNever, .rope_theta = 500'000},
    {.model_type = "step3p5", .windows = kNever},
    {.model_type = "t5",
     .windows = kNever,
     .positions = kLearned,
     .unit_scale = true,
     .cross_attends = true},
    {.model_type = "umt5",
     .windows = kNever,
     .positions = kLearned,
     .unit_scale = true,
     .cross_attends = true},
    {.model_type = "whisper", .windows = kNever, .positions = kLearned, .cross_attends = true},
    {.model_type = "zamba", .windows = kNever, .positions = kNoPositions, .mixer = kMamba1},
    {.model_type = "zamba2", .windows = kNever, .mixer = kMamba2},
});

constexpr ModelFamily kUnknownFamily = {};

// "DeepseekV3ForCausalLM" and "deepseek_v3" both become "deepseekv3".
std::string letters_of(std::string_view name) {
  for (const std::string_view suffix :
       {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model"}) {
    if (name.ends_with(suffix)) {
      name.remove_suffix(suffix.size());
      break;
    }
  }
  std::string letters;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) continue;
    letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

}  // namespace

std::span<const ModelFamily> model_families() {
  return kFamilies;
}

const ModelFamily& find_model_family(std::string_view model_type,
                                     const std::vector<std::string>& architectures) {
  for (const ModelFamily& family : kFamilies) {
    if (family.model_type == model_type) return family;
  }
  for (const std::string& architecture : architectures) {
    const std::string letters = letters_of(architecture);
    for (const ModelFamily& family : kFamilies) {
      if (letters_of(family.model_type) == letters) return family;
    }
  }
  return kUnknownFamily;
}

}  // namespace emblema
