// From vLLM's groups to its number of blocks, to the blocks that one request reserves, and to the
// longest request that would fit.
//
// Source: vLLM 073c510c (2026-08-09), vllm/v1/core/kv_cache_utils.py: get_kv_cache_config_from_
// groups, get_max_concurrency_for_kv_cache_config, _max_memory_usage_bytes_from_groups.
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "emblema/contract/result.h"
#include "emblema/peers/peer.h"
#include "emblema/peers/vllm_groups.h"

namespace emblema {

// What one request may hold.
struct RequestReach {
  std::uint64_t model_len = 0;         // tokens
  std::uint64_t in_flight_tokens = 0;  // scheduled and not yet settled: windows hold them, too
  std::uint64_t decode_context = 1;    // ranks that share its tokens
  MambaCacheMode mamba_mode = MambaCacheMode::kAlign;
};

// max_num_batched_tokens in every batch that may be under way at once: one per pipeline stage; with
// async scheduling 2 on one stage, and one more than stages with model runner V2.
std::uint64_t in_flight_tokens(const PeerQuestion& question);

// Blocks that a request reserves of one group, and of all.
std::uint64_t blocks_per_request(const SpecGroup& group, const RequestReach& reach);
std::uint64_t blocks_per_request(const Grouping& grouping, const RequestReach& reach);

// Bytes of one block of the pool on a stage, all that a block id stands for. 0: the stage caches
// nothing.
std::uint64_t block_bytes(const Grouping& grouping, std::uint32_t stage);

// What vLLM asks to be free on a stage before it starts: one request's blocks, padding included.
// Invalid: past 64 bits.
Result<std::uint64_t> admission_bytes(const Grouping& grouping, std::uint32_t stage,
                                      const RequestReach& reach);

// vLLM's own estimate: the longest request up to reach.model_len whose admission_bytes fit. 0:
// none.
std::uint64_t longest_that_fits(const Grouping& grouping, std::uint32_t stage,
                                std::uint64_t memory_bytes, RequestReach reach);

// A hit is a multiple of the scheduler's block and is found by hashes of so many tokens.
struct HitBlocks {
  std::uint64_t scheduler_tokens = 0;
  std::uint64_t hash_tokens = 0;
};

// Invalid: a common multiple past 64 bits.
Result<HitBlocks> hit_blocks(const Grouping& grouping, const RequestReach& reach);

}  // namespace emblema
