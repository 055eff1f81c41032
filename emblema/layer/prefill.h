// Attention of many queries of one sequence over its paged rows, by matrix products.
//
// The rows that the queries can see are read from their blocks a tile at a time and turned into
// fp32; in the expanded form a tile's keys (W_UK c_kv, k_rope) and values (W_UV c_kv) are made per
// head, used and forgotten. Softmax runs online over the tiles. Nothing is written to the cache,
// and each thread's scratch stays below kPrefillLaneBytes whatever the lengths (for the widths of
// known models).
//
// A span with delta != 0 is read with the queries' rotary channels turned by -delta; its bytes are
// left as they are (layout/rope_table.h).
//
// Few queries over many keys are cheaper absorbed, long chunks expanded: prefill_cost says. The
// layer's threads share the heads; bits do not depend on their number. One call at a time per
// scratch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emblema/contract/bytes.h"
#include "emblema/contract/result.h"
#include "emblema/layer/attention_layer.h"
#include "emblema/layout/attention_inputs.h"

namespace emblema {

inline constexpr std::uint64_t kPrefillLaneBytes = 16 * kMiB;

// Memory that calls reuse.
struct PrefillScratch {
  struct Lane {                   // of one thread
    std::vector<float> rows;      // a tile of cache rows
    std::vector<float> keys;      // expanded, for some of the heads
    std::vector<float> values;    // likewise
    std::vector<float> queries;   // turned for the span being read
    std::vector<float> scores;    // of one head
    std::vector<double> weights;  // sums of exponentials, [queries][heads of the lane]
    Rotation rotation;
  };
  std::vector<Lane> lanes;

  std::uint64_t held_bytes() const;
};

// The contract of kernels/attention.h for one sequence:
//   queries [tokens][query_heads][query_dim(form)], as project() gives them
//   out     [tokens][query_heads][result_dim(form)]
//   lse     [tokens][query_heads], natural logarithm, without the sinks
// Only the sequence's own queries, `first_query` and those after it, are read and written.
// Invalid, before any work: sizes that do not fit, and what check_attention_inputs refuses.
// Unsupported: delta != 0 where the rotary frequencies depend on the length.
[[nodiscard]] Status prefill_by_gemm(const AttentionLayer& layer, AttentionForm form,
                                     std::span<const float> queries, const SequenceInputs& sequence,
                                     const PagedRows& rows, std::span<float> out,
                                     std::span<float> lse, PrefillScratch& scratch);

// Multiplications per layer for `queries` new tokens over `keys` rows, all visible, from the
// unabsorbed queries to the result per head [H][value_dim]:
//   expanded  keys H r (d_n + d_v)  +  queries keys H (d_n + d_r + d_v)
//   absorbed  queries H r (d_n + d_v)  +  queries keys H (2 r + d_r)
// In double: they steer a choice. Equal for grouped layers.
struct PrefillCost {
  double expanded = 0;
  double absorbed = 0;

  AttentionForm cheaper() const {
    return absorbed < expanded ? AttentionForm::kAbsorbed : AttentionForm::kExpanded;
  }
};
PrefillCost prefill_cost(const LayerDims& dims, std::uint64_t queries, std::uint64_t keys);

}  // namespace emblema
