// The inner loops of attention, as a table: what an instruction set supplies. The driver
// (decode_attention.cc) owns everything else: spans, masks, the walk over tiles, the merge.
//
// A tile is at most kTileQueries query rows against at most kTileRows cached rows, both as fp32
// with `stride` floats per row: a multiple of kLaneFloats, the floats past the width are 0.
//
// Every primitive gives each (query, row) and each (query, channel) the same operations in the same
// order whatever else is in the tile, so a query's bits do not depend on its neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "emblema/layout/attention_inputs.h"

namespace emblema {

inline constexpr std::uint32_t kTileQueries = 16;
inline constexpr std::uint32_t kTileRows = 16;
inline constexpr std::uint32_t kLaneFloats = 8;

// One query's running softmax: exp(z - top) summed over the rows seen so far.
struct RunningSoftmax {
  float top;
  double sum;
};

struct BlockPrimitives {
  std::string_view isa;

  // Reads `width` stored numbers into to[stride].
  void (*convert_row)(const std::byte* from, Encoding encoding, std::uint32_t width,
                      std::uint32_t stride, float* to);

  // scores[q * kTileRows + r] = queries[q] . rows[r]
  void (*score_rows)(const float* queries, std::uint32_t query_count, const float* rows,
                     std::uint32_t row_count, std::uint32_t stride, float* scores);

  // Scales and softcaps `count` scores of one query, turns them into exp(z - top) in place, and
  // takes them into `state`. Returns what earlier sums over this query must be multiplied by.
  float (*softmax_rows)(float* scores, std::uint32_t count, float scale, float softcap,
                        RunningSoftmax& state);

  // out[q] = out[q] * corrections[q] + sum over r of probabilities[q * kTileRows + r] * rows[r];
  // out[q] has `width` floats.
  void (*accumulate_rows)(const float* probabilities, std::uint32_t query_count, const float* rows,
                          std::uint32_t row_count, std::uint32_t stride, std::uint32_t width,
                          const float* corrections, float* const* out);
};

// Plain fp32 C++, for every machine: four lanes that any compiler can keep in one register.
const BlockPrimitives& scalar_primitives();

}  // namespace emblema
