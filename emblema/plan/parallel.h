// How a model is spread over GPUs, as far as it decides what each of them caches.
//
//   tensor           heads are shared out; latents, index keys and V4 entries are repeated
//   pipeline         each stage holds the layers of its own
//   data_attention   attention of so many groups of requests side by side, within the tensor ranks:
//                    each group has its own cache and shares heads only among its own ranks
//   decode_context   the tokens of one sequence are dealt out to so many ranks, in runs of
//                    `interleave`: tensor ranks, or those of prefill_context
//   prefill_context  so many times the tensor ranks compute a prompt together; alone it changes no
//                    cached byte
//
// Expert parallelism moves weights, not cache. Rules: vLLM 073c510c (2026-08) and SGLang v0.5.18.
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/model/model_config.h"

namespace emblema {

struct Parallelism {
  std::uint32_t tensor = 1;
  std::uint32_t pipeline = 1;
  std::vector<std::uint32_t> pipeline_layers{};  // of each stage; empty: as even as can be
  std::uint32_t data_attention = 1;
  std::uint32_t decode_context = 1;
  std::uint32_t prefill_context = 1;
  std::uint64_t interleave = 1;  // tokens in a run of decode_context

  // Ranks that share out the heads of one cache.
  std::uint32_t attention_tensor() const { return tensor / data_attention; }
  // GPUs of a stage, and of one copy of the model. In 64 bits for any sizes of 16 bits.
  std::uint64_t stage_ranks() const { return std::uint64_t{tensor} * prefill_context; }
  std::uint64_t ranks() const { return stage_ranks() * pipeline; }
};

// One stage of a pipeline.
struct Stage {
  std::uint32_t first_layer = 0;
  std::uint32_t layers = 0;
  bool is_last = false;  // holds the draft layers
};

// Every layer in exactly one stage, in order. Even: sizes differ by at most one, larger ones first.
// Invalid: more stages than layers; lists that do not add up.
Result<std::vector<Stage>> pipeline_stages(std::uint32_t layers, const Parallelism& parallel);

// Invalid: a size of 0, sizes that do not divide one another. Unsupported: tokens of a window, a
// chunk or a compressed stream dealt out to ranks; of grouped heads where ranks do not repeat them;
// prompts computed together of anything but latents, or beside groups of requests.
Status check_parallelism(const ModelGeometry& whole, const Parallelism& parallel);

// Tokens that rank `rank` of `ranks` holds of a sequence of `tokens`, dealt out in runs of
// `interleave`: token t lies on rank (t / interleave) mod ranks.
//   floor(n / (W I)) I + clamp(n mod (W I) - rank I, 0, I)
// REQUIRES: ranks and interleave at least 1, their product in 64 bits, rank < ranks.
std::uint64_t local_tokens(std::uint64_t tokens, std::uint32_t rank, std::uint32_t ranks,
                           std::uint64_t interleave);

// The rank's own row of token `token`, which lies on rank (token / interleave) mod ranks.
std::uint64_t local_row(std::uint64_t token, std::uint32_t ranks, std::uint64_t interleave);

// Tokens that a block of `block_tokens` rows on each of `ranks` stands for: block_tokens x ranks.
// Invalid past 64 bits.
Result<std::uint64_t> logical_block_tokens(std::uint64_t block_tokens, std::uint32_t ranks);

}  // namespace emblema
