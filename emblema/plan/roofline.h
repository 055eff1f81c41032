// How much one decode step of attention computes and reads, and which of the two bounds it.
//
// One step: one new token of one sequence attends to what its cache holds, in every layer. Counted
// is the attention itself: scores q.k and sums of values over the rows that are visible, and the
// scores of sparse attention's indexer. Not counted: projections, softmax, recurrent mixers, and
// what a kernel reads twice.
//
//   FLOP of a layer    2 x query heads x (key dim + value dim) x rows read
//   bytes of a layer   bytes of an entry x rows read (each row once for all heads)
//
// For latents this is the absorbed form: key dim = r + d_rope, value dim = r, on one row for all
// heads. Sequences of a batch have rows of their own: FLOP and bytes both grow with the batch, and
// their ratio does not. In full layers the context's length cancels too.
//
// FLOP/s are those of bf16 whatever the cache's type: kernels widen fp8 rows before they multiply.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/plan/hardware.h"

namespace emblema {

struct AttentionStep {
  std::uint64_t context_tokens = 0;  // rows of one sequence, the new token's included
  std::uint64_t flop = 0;            // all of it
  std::uint64_t bytes = 0;           // all of it
  std::uint64_t indexer_flop = 0;    // of `flop`
  std::uint64_t indexer_bytes = 0;   // of `bytes`
};

// Of the rank that `rank` describes: its query heads, its KV heads, its layers.
//   window, chunk   the rows inside; a layer that shares reads the other layer's rows
//   DSA             the indexer, which every rank runs whole, scores every key; attention reads
//                   min(index_topk, visible) rows
//   DeepSeek-V4     floor(L / ratio) compressed rows (CSA: at most index_topk, chosen by scoring
//                   floor(L / 4) index keys) and the window's
//   cross           the encoder's rows
// Blocks that MiniMax-M3 selects have a size that its geometry does not hold: all visible rows are
// counted, which is an upper bound.
// Invalid: context_tokens is 0 or above 2^40, or a figure past 64 bits.
Result<AttentionStep> attention_step(const ModelGeometry& rank, std::uint64_t context_tokens);

enum class Bound : std::uint8_t {
  kNothing,    // no attention: nothing is read
  kBandwidth,  // intensity below the ridge
  kCompute,
};
std::string_view to_string(Bound bound);  // "nothing", "memory bandwidth", "compute"

struct RooflinePoint {
  Rational intensity;                  // FLOP per byte; 0 where nothing is read
  Rational ridge;                      // FLOP per byte at which both take equally long
  std::uint64_t attainable_flops = 0;  // per second: min(peak, intensity x bandwidth), rounded down
  Rational least_seconds;              // per step and sequence: max(bytes / bandwidth, FLOP / peak)
  Bound bound = Bound::kNothing;
};

// Invalid: hardware without bandwidth or FLOP/s, or a figure past 64 bits.
Result<RooflinePoint> place_on_roofline(const AttentionStep& step, const Hardware& hardware);

// FLOP per byte. Invalid: hardware without bandwidth or FLOP/s.
Result<Rational> ridge_of(const Hardware& hardware);

// FLOP per byte; 0 where nothing is read.
Result<Rational> intensity_of(const AttentionStep& step);

}  // namespace emblema
