// What is asked of the planner: how a model's cache is stored, on how many GPUs, how much memory
// there is, and for which lengths. Plain values; any thread may read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emblema/contract/rational.h"
#include "emblema/geometry/encoding.h"
#include "emblema/layout/profile.h"
#include "emblema/plan/hardware.h"
#include "emblema/plan/parallel.h"

namespace emblema {

struct Deployment {
  KvDtype kv_dtype = KvDtype::kBf16;
  std::optional<IndexerDtype> indexer_dtype{};  // none: default_indexer_dtype
  bool speculative_mtp = false;                 // draft layers cached too
  std::uint64_t block_tokens = 0;               // 0: derived from the geometry
  std::uint32_t layers = 0;                     // 0: all; else the first so many
  std::optional<StateDtype> state_dtype{};      // of recurrent state; none: as the config says,
                                                // fp32 where it does not
  std::uint64_t encoder_tokens = 0;  // rows of cross-attention; 0: what the model fixes, else none
  Profile profile = Profile::kNative;  // layout of a block; must fit the data types

  std::vector<std::uint64_t> at_tokens{};  // lengths to give bytes for, 1 to 2^40
  std::uint64_t sequences = 0;             // 0: not asked; else how many, and how many arena slots

  // Of each GPU. None: what its memory has beside the weights, if both are known; else there is no
  // answer about blocks, tokens and concurrency.
  std::optional<std::uint64_t> pool_bytes{};
  std::uint64_t context_tokens = 0;  // length that concurrency is for; 0: the longest that
                                     // fits alone, at most the model's max positions
  std::uint64_t step_tokens = 2048;  // most tokens of one sequence written in one step
  std::optional<std::uint64_t>
      snapshot_bytes{};  // none: 1/8 of the pool with arena streams, else 0

  Parallelism parallel{};
  std::uint64_t gpus = 0;  // 0: those of one copy; else a multiple: so many copies of the model
  // What one GPU offers; a figure that is absent is not known, and nothing is answered from it.
  std::optional<Hardware> hardware{};
  // The share of a GPU's memory that is used at all, in weights, cache and `reserve_bytes`; 23/25
  // is vLLM's default (073c510c, 2026-08).
  Rational memory_share = Rational::of(23, 25);
  std::uint64_t reserve_bytes = 0;  // of each GPU: activations, the runtime's own; not known here
  std::optional<std::uint64_t> weight_bytes{};  // of the whole model; none: estimated (weights.h)
  std::string weights_source{};  // where they were read, for people; without weight_bytes: a file
                                 // that should have said them and does not
};

}  // namespace emblema
