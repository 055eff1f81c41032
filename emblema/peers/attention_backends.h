// Which attention kernels each engine picks on a GPU, as data: what a backend runs on, which pages
// and cache types it reads, and the order in which they are tried.
//
// Sources: vLLM 073c510c (2026-08-09), vllm/platforms/cuda.py (orders) and
// vllm/v1/attention/backends (what each accepts), vLLM's page on attention backends (DeepSeek-V4's
// default); SGLang v0.5.18 (2026-08-20), sglang/srt/server_args.py. Left out: backends that stand
// behind one which accepts everything they do (vLLM's FLEX_ATTENTION), and TURBOQUANT.
//
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/model/model_config.h"

namespace emblema {

// What a backend must be able to read.
enum class CacheShape {
  kGrouped,       // keys and values per head
  kLatent,        // one row for all heads (MLA)
  kSparseLatent,  // the same, of the tokens that index keys select (DSA)
  kCompressed,    // DeepSeek-V4's windows and compressed entries
};

std::string_view to_string(CacheShape shape);

struct BackendRow {
  std::string_view name;  // "FLASHMLA_SPARSE"
  CacheShape shape;
  std::string_view majors;             // compute capabilities, "9 10"; "any"
  std::string_view blocks;             // pages that its kernels read, smallest first: "32 64"
  bool multiples = false;              // ... and any multiple of the first
  std::string_view dtypes;             // values of --kv-cache-dtype
  std::string_view head_dims = "any";  // "64 128", or "any": see head_dim_max
  std::uint32_t head_dim_max = 0;      // with head_dims "any": multiples of 8 up to this; 0: no end
  std::string_view sink_majors = "none";  // where it takes attention sinks
  std::string_view fp8_majors = "any";    // where the fp8 words among dtypes hold
};

std::span<const BackendRow> vllm_backends();

// What is to be read, and where.
struct BackendNeed {
  CacheShape shape = CacheShape::kGrouped;
  std::string gpu_arch;              // "sm90"
  std::string kv_cache_dtype;        // vLLM's word
  std::uint32_t head_dim = 0;        // width of a cached key
  std::uint32_t heads_per_rank = 0;  // of queries
  std::uint32_t qk_nope_dim = 0;     // kSparseLatent
  std::uint32_t index_topk = 0;      // kSparseLatent
  bool sinks = false;
  std::optional<std::uint64_t> block_tokens;  // --block-size; none: the backend's choice
};

// What `model` needs of a backend; of its widest key where layers differ.
BackendNeed backend_need(const ModelConfig& model, CacheShape shape);

struct BackendChoice {
  std::string name;
  std::uint64_t block_tokens = 0;     // as asked, else what it prefers: 16, or its smallest page
  std::string kv_cache_dtype;         // fp8 may have become fp8_ds_mla
  std::vector<std::string> rejected;  // "FLASH_ATTN_MLA: cache type fp8", in the order tried
};

// The names in the order in which vLLM tries them on this GPU, whatever they accept.
std::vector<std::string_view> vllm_backend_order(const BackendNeed& need);

// The first that accepts. Unsupported: none does (the message gives each one's reason), or a GPU
// without rows here (AMD). REQUIRES: need.gpu_arch is not "".
Result<BackendChoice> choose_vllm_backend(const BackendNeed& need);

// SGLang's default, and the page that it forces.
struct SglangBackend {
  std::string_view name;  // "" where the GPU is unknown
  std::uint64_t page_tokens = 1;
  bool forced = false;  // `page_tokens` overrides what was asked for (SGLang warns)
};

struct SglangNeed {
  CacheShape shape = CacheShape::kGrouped;
  std::string_view gpu_arch;
  bool deepseek_v3_arch = false;  // DeepseekV3ForCausalLM
  bool sinks = false;
  bool unequal_widths = false;  // of keys and values
  std::uint32_t query_heads = 0;
  std::optional<std::uint64_t> page_tokens;  // --page-size; none: 1
};

SglangBackend choose_sglang_backend(const SglangNeed& need);

}  // namespace emblema
