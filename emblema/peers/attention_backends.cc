#include "emblema/peers/attention_backends.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace emblema {
namespace {

constexpr std::string_view kSixteenBit = "auto float16 bfloat16";
constexpr std::string_view kWithFp8 = "auto float16 bfloat16 fp8 fp8_e4m3";
constexpr std::string_view kPackedOnly = "fp8 fp8_e4m3 fp8_ds_mla";

constexpr std::array kRows = {
    // Grouped heads. Flash-attention reads fp8 with its third version (Hopper) and fourth.
    BackendRow{.name = "FLASHINFER",
               .shape = CacheShape::kGrouped,
               .majors = "8 9 10 12",
               .blocks = "16 32 64",
               .dtypes = "auto float16 bfloat16 fp8 fp8_e4m3 fp8_e5m2 nvfp4",
               .head_dims = "64 128 256 512",
               .sink_majors = "10"},
    BackendRow{.name = "FLASH_ATTN",
               .shape = CacheShape::kGrouped,
               .majors = "8 9 10 12",
               .blocks = "16",
               .multiples = true,
               .dtypes = kWithFp8,
               .head_dim_max = 256,
               .sink_majors = "9",
               .fp8_majors = "9 10"},
    BackendRow{.name = "TRITON_ATTN",
               .shape = CacheShape::kGrouped,
               .majors = "any",
               .blocks = "16",
               .multiples = true,
               .dtypes = "auto float16 bfloat16 fp8 fp8_e4m3 fp8_e5m2 int4_per_token_head "
                         "int8_per_token_head fp8_per_token_head",
               .sink_majors = "any",
               .fp8_majors = "8.9 9 10 12"},
    // Latents. FLASHMLA lists Blackwell, but its dense kernels refuse everything except Hopper.
    BackendRow{.name = "FLASHINFER_MLA",
               .shape = CacheShape::kLatent,
               .majors = "10",
               .blocks = "32 64",
               .dtypes = kWithFp8},
    BackendRow{.name = "TOKENSPEED_MLA",
               .shape = CacheShape::kLatent,
               .majors = "10",
               .blocks = "32 64",
               .dtypes = "fp8 fp8_e4m3",
               .head_dims = "576"},
    BackendRow{.name = "CUTLASS_MLA",
               .shape = CacheShape::kLatent,
               .majors = "10",
               .blocks = "128",
               .dtypes = kWithFp8},
    BackendRow{.name = "FLASH_ATTN_MLA",
               .shape = CacheShape::kLatent,
               .majors = "9",
               .blocks = "16",
               .multiples = true,
               .dtypes = kSixteenBit},
    BackendRow{.name = "FLASHMLA",
               .shape = CacheShape::kLatent,
               .majors = "9",
               .blocks = "64",
               .dtypes = kWithFp8},
    BackendRow{.name = "TRITON_MLA",
               .shape = CacheShape::kLatent,
               .majors = "any",
               .blocks = "16",
               .multiples = true,
               .dtypes = kWithFp8},
    // Latents of selected tokens.
    BackendRow{.name = "FLASH_ATTN_MLA_SPARSE",
               .shape = CacheShape::kSparseLatent,
               .majors = "9",
               .blocks = "64",
               .dtypes = kSixteenBit},
    BackendRow{.name = "FLASHMLA_SPARSE",
               .shape = CacheShape::kSparseLatent,
               .majors = "9 10",
               .blocks = "64",
               .dtypes = "auto bfloat16 fp8 fp8_ds_mla"},
    BackendRow{.name = "FLASHINFER_MLA_SPARSE",
               .shape = CacheShape::kSparseLatent,
               .majors = "10",
               .blocks = "32 64",
               .dtypes = kWithFp8},
    BackendRow{.name = "FLASHINFER_MLA_SPARSE_SM120",
               .shape = CacheShape::kSparseLatent,
               .majors = "12",
               .blocks = "64 256",
               .dtypes = "auto fp8 fp8_e4m3 fp8_ds_mla"},
    // DeepSeek-V4. FlashMLA's rows are the packed 584 bytes: its cache type must begin with fp8.
    BackendRow{.name = "FLASHMLA_SPARSE_DSV4",
               .shape = CacheShape::kCompressed,
               .majors = "9 10",
               .blocks = "256",
               .dtypes = kPackedOnly,
               .sink_majors = "any"},
    BackendRow{.name = "FLASHINFER_MLA_SPARSE_DSV4",
               .shape = CacheShape::kCompressed,
               .majors = "10 12",
               .blocks = "256",
               .dtypes = "auto bfloat16 fp8 fp8_e4m3 fp8_ds_mla",
               .sink_majors = "any"},
};

// The words of a table cell.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool has_word(std::string_view text, std::string_view word) {
  const auto words = words_of(text);
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::uint64_t number_of(std::string_view word) {
  std::uint64_t number = 0;
  std::from_chars(word.data(), word.data() + word.size(), number);
  return number;
}

// "sm89" is "8.9", "sm103" is "10.3".
struct Capability {
  std::string major;
  std::string exact;
};

Capability capability_of(std::string_view arch) {
  const std::string_view digits = arch.substr(std::min<std::size_t>(2, arch.size()));
  if (digits.empty()) return {};
  const std::string major(digits.substr(0, digits.size() - 1));
  return {major, major + "." + std::string(digits.substr(digits.size() - 1))};
}

bool runs_on(std::string_view cell, const Capability& capability) {
  return cell == "any" || has_word(cell, capability.major) || has_word(cell, capability.exact);
}

const BackendRow* row_of(std::string_view name) {
  const auto row = std::find_if(kRows.begin(), kRows.end(),
                                [name](const BackendRow& r) { return r.name == name; });
  return row == kRows.end() ? nullptr : &*row;
}

bool reads_blocks_of(const BackendRow& row, std::uint64_t block_tokens) {
  // A block may be any number of the kernel's own pages: the block table is then expanded.
  const auto blocks = words_of(row.blocks);
  return std::any_of(blocks.begin(), blocks.end(), [block_tokens](std::string_view word) {
    return block_tokens % number_of(word) == 0;
  });
}

bool takes_head_dim(const BackendRow& row, std::uint32_t head_dim) {
  if (row.head_dims != "any") return has_word(row.head_dims, fmt::format("{}", head_dim));
  return row.head_dim_max == 0 || (head_dim % 8 == 0 && head_dim <= row.head_dim_max);
}

// Why a sparse backend of FlashInfer refuses a model; "" where it does not.
std::string sparse_refusal(const BackendRow& row, const BackendNeed& need) {
  if (row.name == "FLASHINFER_MLA_SPARSE" && need.qk_nope_dim != 128 && need.qk_nope_dim != 192) {
    return fmt::format("qk_nope_head_dim {}", need.qk_nope_dim);
  }
  if (row.name == "FLASHINFER_MLA_SPARSE_SM120" && need.index_topk != 2048) {
    return fmt::format("index_topk {}", need.index_topk);
  }
  // There it reads the packed rows, whose cache type must begin with fp8.
  if (row.name == "FLASHINFER_MLA_SPARSE_DSV4" && capability_of(need.gpu_arch).major == "12" &&
      !has_word(kPackedOnly, need.kv_cache_dtype)) {
    return fmt::format("cache type {}", need.kv_cache_dtype);
  }
  return "";
}

std::string refusal(const BackendRow& row, const BackendNeed& need) {
  const Capability capability = capability_of(need.gpu_arch);
  if (row.shape != need.shape) return fmt::format("reads {}", to_string(row.shape));
  if (!runs_on(row.majors, capability)) return fmt::format("compute {}", capability.exact);
  if (!has_word(row.dtypes, need.kv_cache_dtype)) {
    return fmt::format("cache type {}", need.kv_cache_dtype);
  }
  if (need.kv_cache_dtype.starts_with("fp8") && !runs_on(row.fp8_majors, capability)) {
    return fmt::format("fp8 on compute {}", capability.exact);
  }
  if (row.name == "FLASHINFER" && need.kv_cache_dtype == "nvfp4" && capability.major != "10") {
    return fmt::format("nvfp4 on compute {}", capability.exact);
  }
  if (!takes_head_dim(row, need.head_dim)) return fmt::format("head size {}", need.head_dim);
  if (need.sinks && !runs_on(row.sink_majors, capability)) return "attention sinks";
  if (need.block_tokens && !reads_blocks_of(row, *need.block_tokens)) {
    return fmt::format("block size {}", *need.block_tokens);
  }
  return sparse_refusal(row, need);
}

// 16 where the backend reads it, else its smallest page.
std::uint64_t preferred_block(const BackendRow& row) {
  constexpr std::uint64_t kDefaultBlock = 16;
  return reads_blocks_of(row, kDefaultBlock) ? kDefaultBlock
                                             : number_of(words_of(row.blocks).front());
}

// The packed rows that some backends make of a plain word.
std::string resolved_dtype(const BackendRow& row, const BackendNeed& need, bool on_sm12) {
  const std::string& word = need.kv_cache_dtype;
  const bool packs = row.name == "FLASHMLA_SPARSE_DSV4" ||
                     row.name == "FLASHINFER_MLA_SPARSE_SM120" ||
                     (row.name == "FLASHINFER_MLA_SPARSE_DSV4" && on_sm12) ||
                     (row.name == "FLASHMLA_SPARSE" && word == "fp8");
  return packs ? "fp8_ds_mla" : word;
}

}  // namespace

std::string_view to_string(CacheShape shape) {
  switch (shape) {
    case CacheShape::kGrouped:
      return "grouped heads";
    case CacheShape::kLatent:
      return "latents";
    case CacheShape::kSparseLatent:
      return "latents of selected tokens";
    case CacheShape::kCompressed:
      break;
  }
  return "DeepSeek-V4 entries";
}

std::span<const BackendRow> vllm_backends() {
  return kRows;
}

BackendNeed backend_need(const ModelConfig& model, CacheShape shape) {
  BackendNeed need;
  need.shape = shape;
  need.heads_per_rank = model.num_attention_heads;
  need.qk_nope_dim = model.qk_nope_head_dim;
  need.index_topk = model.index_topk;
  need.sinks = model.has_attention_sinks;
  if (shape == CacheShape::kLatent || shape == CacheShape::kSparseLatent) {
    need.head_dim = model.kv_lora_rank + model.qk_rope_head_dim;
    return need;
  }
  for (const LayerFacts& layer : model.layers) {
    need.head_dim = std::max(need.head_dim, layer.head_dim);
  }
  if (model.family == AttentionFamily::kLatent) {
    need.head_dim = model.qk_nope_head_dim + model.qk_rope_head_dim;
  }
  return need;
}

std::vector<std::string_view> vllm_backend_order(const BackendNeed& need) {
  const std::string major = capability_of(need.gpu_arch).major;
  if (need.shape == CacheShape::kCompressed) {
    // V4 has one default for each GPU; another is used only where it is asked for by name.
    if (major == "12") return {"FLASHINFER_MLA_SPARSE_DSV4"};
    return {"FLASHMLA_SPARSE_DSV4"};
  }
  if (need.shape == CacheShape::kGrouped) {
    if (major == "10") return {"FLASHINFER", "FLASH_ATTN", "TRITON_ATTN"};
    return {"FLASH_ATTN", "FLASHINFER", "TRITON_ATTN"};
  }
  if (major == "12") return {"TRITON_MLA", "FLASHINFER_MLA_SPARSE_SM120"};
  if (major != "10") {
    return {"FLASH_ATTN_MLA",        "FLASHMLA",       "FLASHINFER_MLA", "TRITON_MLA",
            "FLASH_ATTN_MLA_SPARSE", "FLASHMLA_SPARSE"};
  }
  std::vector<std::string_view> order = {"FLASHINFER_MLA", "TOKENSPEED_MLA", "CUTLASS_MLA",
                                         "FLASH_ATTN_MLA", "FLASHMLA",       "TRITON_MLA"};
  // FlashMLA pads heads to 64, which costs most where a rank has few.
  constexpr std::uint32_t kFewHeads = 16;
  const bool flashinfer_first =
      need.kv_cache_dtype.starts_with("fp8") || need.heads_per_rank <= kFewHeads;
  order.push_back(flashinfer_first ? "FLASHINFER_MLA_SPARSE" : "FLASHMLA_SPARSE");
  order.push_back(flashinfer_first ? "FLASHMLA_SPARSE" : "FLASHINFER_MLA_SPARSE");
  return order;
}

Result<BackendChoice> choose_vllm_backend(const BackendNeed& need) {
  if (!need.gpu_arch.starts_with("sm")) {
    return fail(ErrorCode::Unsupported,
                fmt::format("gpu arch is '{}', whose vLLM backends are not in the table; allowed: "
                            "sm80 to sm120, or no gpu arch",
                            need.gpu_arch));
  }
  BackendChoice choice;
  for (const std::string_view name : vllm_backend_order(need)) {
    const BackendRow* row = row_of(name);
    const std::string reason = row == nullptr ? "not in the table" : refusal(*row, need);
    if (!reason.empty()) {
      choice.rejected.push_back(fmt::format("{}: {}", name, reason));
      continue;
    }
    choice.name = row->name;
    choice.block_tokens = need.block_tokens.value_or(preferred_block(*row));
    choice.kv_cache_dtype = resolved_dtype(*row, need, capability_of(need.gpu_arch).major == "12");
    return choice;
  }
  return fail(ErrorCode::Unsupported,
              fmt::format("vLLM has no backend for {} in {} on {} ({})", to_string(need.shape),
                          need.kv_cache_dtype, need.gpu_arch, fmt::join(choice.rejected, "; ")));
}

}  // namespace emblema
