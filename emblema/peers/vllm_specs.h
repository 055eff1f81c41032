// What vLLM says about the cache of each layer: a "KVCacheSpec", from which pages, groups and the
// number of blocks follow. One model layer may have several (a latent and an index key; in
// DeepSeek-V4 up to five).
//
// Source: vLLM 073c510c (2026-08-09), vllm/v1/kv_cache_interface.py and the model classes that
// return the specs. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/model/model_config.h"
#include "emblema/peers/attention_backends.h"
#include "emblema/peers/peer.h"

namespace emblema {

// How vLLM stores numbers for a value of --kv-cache-dtype.
enum class VllmQuant {
  kPlain,             // element_bytes each
  kDsMla,             // 656-byte latents, 584-byte DeepSeek-V4 entries
  kNvfp4,             // two numbers in a byte, and one fp8 scale for every 16
  kInt4PerTokenHead,  // two numbers in a byte, and an fp32 scale per token, head and K/V
  kBytePerTokenHead,  // int8 or fp8, likewise
};

struct VllmCacheDtype {
  std::string name;
  VllmQuant quant = VllmQuant::kPlain;
  std::uint64_t element_bytes = 2;
};

// Invalid: a word that --kv-cache-dtype does not have. Unsupported: turboquant, whose slots are not
// written down here.
Result<VllmCacheDtype> parse_vllm_cache_dtype(std::string_view word, const ModelConfig& model);

enum class SpecKind {
  kFull,          // FullAttentionSpec
  kLatent,        // MLAAttentionSpec: latents, index keys, V4's compressed entries
  kWindow,        // SlidingWindowSpec
  kWindowLatent,  // SlidingWindowMLASpec: V4's windows and the rows it has not compressed yet
  kChunk,         // ChunkedLocalAttentionSpec
  kState,         // MambaSpec
};

struct LayerSpec {
  std::string name;         // "12.attn", "12.indexer", "12.window", "12.state" ...: unique
  std::uint32_t layer = 0;  // of the model; draft layers follow the last
  std::uint32_t stage = 0;  // pipeline stage that holds it
  SpecKind kind = SpecKind::kFull;
  std::uint64_t block_tokens = 0;
  std::uint64_t row_bytes = 0;           // of one entry; kState: the whole state
  std::uint64_t tokens_per_entry = 1;    // compress_ratio
  std::uint64_t align_bytes = 1;         // a page is rounded up to a multiple
  std::uint64_t padded_bytes = 0;        // what the page was padded to; 0: not padded
  std::uint64_t window_tokens = 0;       // also of a full spec that was a window
  std::uint64_t chunk_tokens = 0;        // likewise
  std::uint64_t speculative_blocks = 0;  // kState
  std::string shape;                     // of a row, in words: specs of one group have the same
};

// Bytes of one block of one layer.
std::uint64_t page_bytes(const LayerSpec& spec);

// The same cache, whatever layer it is of.
bool same_spec(const LayerSpec& a, const LayerSpec& b);

// Kept for every token of a sequence.
inline bool is_full_family(const LayerSpec& spec) {
  return spec.kind == SpecKind::kFull || spec.kind == SpecKind::kLatent;
}

// What decides the specs of a model beside its config.
struct VllmSpecOptions {
  VllmCacheDtype dtype;
  std::uint64_t block_tokens = 16;
  std::uint64_t max_model_len = 0;       // the block of a state that is kept once
  std::uint64_t padded_state_bytes = 0;  // HybridBlock::padded_bytes
};

// What a backend has to read in this model. A latent model whose type vLLM does not know as MLA
// (MiniCPM3) is cached as expanded heads.
CacheShape vllm_cache_shape(const ModelConfig& model);

// A hybrid's block: so many tokens of attention are as large as one state, rounded up to `align`.
struct HybridBlock {
  std::uint64_t block_tokens = 0;
  std::uint64_t state_bytes = 0;   // of the largest state
  std::uint64_t padded_bytes = 0;  // the page that it is padded to; 0: it fits exactly
};

// REQUIRES: the model has layers with state and layers with attention. Invalid: kAll without
// mamba_chunk_tokens.
Result<HybridBlock> hybrid_block(const ModelConfig& model, const PeerQuestion& question,
                                 const VllmSpecOptions& options);

bool has_recurrent_state(const ModelConfig& model);
bool has_attention(const ModelConfig& model);

// One spec per cache, in layer order, draft layers last. `stages` gives each layer's stage.
// Invalid: heads that tensor parallelism does not divide, a dtype without meaning for the
// attention, a page past PeerLimits::kPageBytesMax.
Result<std::vector<LayerSpec>> vllm_layer_specs(const ModelConfig& model,
                                                const PeerQuestion& question,
                                                const VllmSpecOptions& options,
                                                const std::vector<std::uint32_t>& stages);

}  // namespace emblema
