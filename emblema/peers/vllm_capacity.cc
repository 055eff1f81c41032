#include "emblema/peers/vllm_capacity.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "emblema/contract/bytes.h"

namespace emblema {
namespace {

using Wide = unsigned __int128;  // products of blocks, pages and layers, before they must fit

// Blocks of one layer for one request: each spec's max_memory_usage_bytes over its page.
std::uint64_t layer_blocks(const LayerSpec& spec, const RequestReach& reach) {
  switch (spec.kind) {
    case SpecKind::kFull:
    case SpecKind::kLatent:
      return ceil_div(ceil_div(reach.model_len, reach.decode_context), spec.block_tokens);
    case SpecKind::kWindow:
    case SpecKind::kWindowLatent: {
      // One block more: a window rarely begins where a block does.
      const std::uint64_t held =
          std::min(spec.window_tokens - 1 + reach.in_flight_tokens, reach.model_len);
      return ceil_div(held, spec.block_tokens) + 1;
    }
    case SpecKind::kChunk:
      return ceil_div(std::min(spec.chunk_tokens + reach.in_flight_tokens, reach.model_len),
                      spec.block_tokens);
    case SpecKind::kState:
      break;
  }
  switch (reach.mamba_mode) {
    case MambaCacheMode::kNone:
      return 1 + spec.speculative_blocks;
    case MambaCacheMode::kAlign:
      return 2 + spec.speculative_blocks;
    case MambaCacheMode::kAll:
      break;
  }
  return ceil_div(reach.model_len, spec.block_tokens) + spec.speculative_blocks;
}

std::vector<LayerSpec> of_stage(const SpecGroup& group, std::uint32_t stage) {
  std::vector<LayerSpec> layers;
  for (const LayerSpec& spec : group.layers) {
    if (spec.stage == stage) layers.push_back(spec);
  }
  return layers;
}

std::uint64_t sum_of_pages(const std::vector<LayerSpec>& layers) {
  std::uint64_t bytes = 0;
  for (const LayerSpec& spec : layers) bytes += page_bytes(spec);
  return bytes;
}

bool is_packed(const Grouping& grouping) {
  return std::all_of(grouping.groups.begin(), grouping.groups.end(),
                     [](const SpecGroup& group) { return group.uniform_type; });
}

// The groups of V4 are laid over each other; what it asks for is not the stride of that but, for
// each group's blocks, a tuple of all page sizes of group 0, as often as the largest group has one.
Wide packed_admission(const Grouping& grouping, std::uint32_t stage, const RequestReach& reach) {
  std::set<std::uint64_t> sizes;
  for (const LayerSpec& spec : of_stage(grouping.groups.front(), stage)) {
    sizes.insert(page_bytes(spec));
  }
  std::uint64_t tuples = 0;
  for (const SpecGroup& group : grouping.groups) {
    tuples = std::max(tuples, layer_tuples(of_stage(group, stage)));
  }
  const std::uint64_t tuple_bytes = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  return Wide{tuples} * tuple_bytes * blocks_per_request(grouping, reach);
}

Wide wide_admission(const Grouping& grouping, std::uint32_t stage, const RequestReach& reach) {
  if (is_packed(grouping) && grouping.groups.size() > 1) {
    return packed_admission(grouping, stage, reach);
  }
  if (is_packed(grouping)) {
    Wide bytes = 0;
    for (const LayerSpec& spec : of_stage(grouping.groups.front(), stage)) {
      bytes += Wide{layer_blocks(spec, reach)} * page_bytes(spec);
    }
    return bytes;
  }
  return Wide{block_bytes(grouping, stage)} * blocks_per_request(grouping, reach);
}

}  // namespace

std::uint64_t in_flight_tokens(const PeerQuestion& question) {
  std::uint64_t batches = question.pipeline;
  if (question.async_scheduling && question.pipeline == 1) batches = 2;
  if (question.async_scheduling && question.model_runner_v2) batches = question.pipeline + 1;
  return batches * question.batched_tokens;
}

std::uint64_t blocks_per_request(const SpecGroup& group, const RequestReach& reach) {
  std::uint64_t blocks = 0;
  for (const LayerSpec& spec : group.layers) {
    blocks = std::max(blocks, layer_blocks(spec, reach));
    if (!group.uniform_type) break;  // all are like the first
  }
  return blocks;
}

std::uint64_t blocks_per_request(const Grouping& grouping, const RequestReach& reach) {
  std::uint64_t blocks = 0;
  for (const SpecGroup& group : grouping.groups) blocks += blocks_per_request(group, reach);
  return blocks;
}

std::uint64_t block_bytes(const Grouping& grouping, std::uint32_t stage) {
  std::uint64_t bytes = 0;
  for (const SpecGroup& group : grouping.groups) {
    bytes = std::max(bytes, sum_of_pages(of_stage(group, stage)));
  }
  return bytes;  // pages are equal where groups are not packed: the largest group decides
}

Result<std::uint64_t> admission_bytes(const Grouping& grouping, std::uint32_t stage,
                                      const RequestReach& reach) {
  const Wide bytes = wide_admission(grouping, stage, reach);
  if (bytes > UINT64_MAX) {
    return fail(ErrorCode::Invalid, "bytes of one request do not fit 64 bits");
  }
  return static_cast<std::uint64_t>(bytes);
}

std::uint64_t longest_that_fits(const Grouping& grouping, std::uint32_t stage,
                                std::uint64_t memory_bytes, RequestReach reach) {
  std::uint64_t fits = 0;
  std::uint64_t low = 1;
  std::uint64_t high = reach.model_len;
  while (low <= high) {
    reach.model_len = low + (high - low) / 2;
    if (wide_admission(grouping, stage, reach) <= memory_bytes) {
      fits = reach.model_len;
      low = reach.model_len + 1;
    } else {
      high = reach.model_len - 1;
    }
  }
  return fits;
}

Result<HitBlocks> hit_blocks(const Grouping& grouping, const RequestReach& reach) {
  HitBlocks blocks{1, 0};
  bool states_unaligned = false;
  for (const SpecGroup& group : grouping.groups) {
    const LayerSpec& spec = group.layers.front();
    const bool is_state = spec.kind == SpecKind::kState;
    const std::uint64_t tokens = spec.block_tokens * (is_state ? 1 : reach.decode_context);
    states_unaligned |= is_state && reach.mamba_mode != MambaCacheMode::kAlign;
    const std::uint64_t common = std::gcd(blocks.scheduler_tokens, tokens);
    const auto multiple =
        mul_bytes(blocks.scheduler_tokens / common, tokens, "the scheduler's block");
    if (!multiple) return propagate(multiple);
    blocks.scheduler_tokens = *multiple;
    blocks.hash_tokens = std::gcd(blocks.hash_tokens, tokens);
  }
  if (states_unaligned) blocks.hash_tokens = blocks.scheduler_tokens;
  return blocks;
}

}  // namespace emblema
