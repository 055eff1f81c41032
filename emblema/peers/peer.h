// What vLLM and SGLang would do with the same memory: their own sizing rules, as of one version
// each, so that a figure here can be laid beside a line of their logs.
//
// These are other engines' decisions, not Emblema's: nothing else in the library depends on them.
// They change weekly; `PeerPlan::as_of` names the version that the rules were read from, and
// docs/internals/other-engines.md lists the rules and what each differs in from ours.
//
//   vLLM    commit 073c510c, 2026-08-09: vllm/v1/core/kv_cache_utils.py, kv_cache_interface.py,
//           vllm/platforms/cuda.py, vllm/v1/attention/backends
//   SGLang  v0.5.18, 71de97b2, 2026-08-20: sglang/srt/model_executor/pool_configurator.py,
//           sglang/srt/server_args.py
//
// All figures are of one rank. Plain values; any thread may call. A refusal of the engine's own (it
// would raise an exception) is an error whose message begins with the engine's version.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/model/model_config.h"

namespace emblema {

enum class PeerEngine { kVllm, kSglang };

std::string_view to_string(PeerEngine engine);
std::string_view peer_version(PeerEngine engine);  // "vLLM 073c510c (2026-08-09)"

// How vLLM keeps the state of recurrent layers: one (kNone), one at the last block boundary beside
// it (kAlign), or one per block (kAll).
enum class MambaCacheMode { kNone, kAlign, kAll };

// What the engine would be started with. A field that an engine does not know is not read.
struct PeerQuestion {
  std::string kv_cache_dtype = "auto";  // the engine's own spelling
  std::string gpu_arch;                 // "sm80" "sm86" "sm89" "sm90" "sm100" "sm103" "sm120"
                                        // "gfx942" "gfx950"; "": unknown, no backend is chosen
  std::uint32_t tensor = 1;
  std::uint32_t pipeline = 1;
  std::uint32_t decode_context = 1;
  std::uint64_t interleave = 1;                  // vLLM: tokens in a row on one decode-context rank
  std::uint32_t prefill_context = 1;             // vLLM: PCP; SGLang: attention context parallelism
  std::uint32_t data_attention = 1;              // SGLang: --dp-size with DP attention
  std::vector<std::uint32_t> pipeline_layers;    // of each stage; empty: the engine's own split
  std::optional<std::uint64_t> block_tokens;     // --block-size, --page-size
  std::optional<std::uint64_t> kv_memory_bytes;  // what a rank finds free; none: no capacity asked
  std::uint64_t max_model_len = 0;               // 0: the model's positions
  std::uint32_t draft_layers = 0;                // EAGLE or MTP layers, cached like full ones
  std::string ssm_dtype = "auto";  // of recurrent state: "auto" "float32" "float16" "bfloat16"

  // vLLM.
  std::uint64_t batched_tokens = 8192;  // max_num_batched_tokens
  bool async_scheduling = true;
  bool model_runner_v2 = false;
  std::optional<bool> hybrid_manager;  // none: vLLM's default, off for chunked attention
  MambaCacheMode mamba_mode = MambaCacheMode::kAlign;
  std::uint64_t mamba_chunk_tokens = 0;  // needed by kAll: the chunk of the model's scan
  std::uint64_t speculative_tokens = 0;  // extra state blocks of a request

  // SGLang.
  std::optional<Rational> swa_full_tokens_ratio;  // none: 4/5; 1/10 for DeepSeek-V4
  bool dsa_trtllm = false;                        // a TRT-LLM backend for sparse attention
  std::uint64_t max_running_requests = 0;         // 0: SGLang's default
  std::uint64_t state_slots_per_request = 0;      // of recurrent state: 1 without a radix cache, 3,
                                                  // 4 or 5 with one; 0: SGLang's default, 3 or 5
};

// Caches that share a block table (vLLM) or a pool (SGLang).
struct PeerGroup {
  std::string name;                   // "full", "window 128", "state" ...
  std::vector<std::uint32_t> layers;  // of the model, ascending; draft layers follow the last
  std::uint64_t pages = 0;            // caches in it: a layer may have several
  std::uint64_t block_tokens = 0;
  std::uint64_t page_bytes = 0;          // of its largest page
  std::uint64_t block_bytes = 0;         // of all its pages together
  std::uint64_t blocks_per_request = 0;  // what a request of max_model_len reserves; SGLang: holds
  std::optional<std::uint64_t> pool_tokens;  // SGLang's tokens of this pool
};

// What the memory that was asked about comes to.
struct PeerCapacity {
  std::uint64_t blocks = 0;           // vLLM: of the pool, the unused block 0 included;
                                      // SGLang: pages of the first pool
  std::uint64_t tokens = 0;           // as exact integers give it
  Rational concurrency;               // requests of max_model_len; SGLang does not print one:
                                      // by its tokens, at most max_requests
  std::uint64_t max_requests = 0;     // SGLang: that run side by side, whatever their length
  std::uint64_t admission_bytes = 0;  // vLLM: what it wants to see free for one request
};

struct PeerPlan {
  PeerEngine engine = PeerEngine::kVllm;
  std::string as_of;              // peer_version
  std::string backend;            // "FLASHMLA_SPARSE"; "" where the GPU is unknown
  std::string kv_cache_dtype;     // as resolved: "auto" on a sparse backend may be "fp8_ds_mla"
  std::uint64_t page_tokens = 0;  // block_size, page_size
  // What every further token of a long request adds on a rank (of the stage that holds most):
  // windows and states left out for vLLM; SGLang's cell, which counts windows at their ratio.
  Rational bytes_per_token;
  std::uint64_t max_model_len = 0;
  std::uint64_t blocks_per_request = 0;      // vLLM: over all groups
  std::uint64_t scheduler_block_tokens = 0;  // vLLM: a hit is a multiple of this ...
  std::uint64_t hash_block_tokens = 0;       // ... found by hashes of so many tokens
  std::vector<PeerGroup> groups;             // of the stage that bounds the answer
  std::vector<std::uint32_t> stage_layers;   // per pipeline stage, draft layers included
  std::optional<PeerCapacity> capacity;      // with kv_memory_bytes
  std::vector<std::string> log;              // lines that the engine logs; the size comes last
  std::vector<std::string> warnings;         // that it logs
  std::vector<std::string> notes;            // ours: what was assumed, why it differs from our plan
};

// Invalid: a value that the engine refuses, or that is out of range here. Unsupported: a cache that
// the engine, or this room, does not know. OutOfBlocks: one request of max_model_len does not fit;
// the message gives the bytes and the length that would.
Result<PeerPlan> plan_vllm(const ModelConfig& model, const PeerQuestion& question);
Result<PeerPlan> plan_sglang(const ModelConfig& model, const PeerQuestion& question);

}  // namespace emblema
