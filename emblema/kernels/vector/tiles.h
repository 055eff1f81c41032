// The products of the vector kernels: one micro-tile of accumulators for scores (query lanes, one
// row's channel broadcast) and one for values (channel lanes, one query's probability broadcast).
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

namespace emblema::vector_kernels {

// scores[row][query] (+)= queries . rows, for kRows rows and kVectors vectors of queries.
//   panel [channels][kVectors * lanes]   rows [..][stride]   scores [..][score_stride]
template <class L, std::uint32_t kRows, std::uint32_t kVectors>
inline void score_tile(const float* panel, const float* rows, std::size_t stride,
                       std::uint32_t channels, bool continues, float* scores,
                       std::size_t score_stride) {
  using Vector = typename L::Vector;
  Vector sums[kRows][kVectors];
#pragma GCC unroll 16
  for (std::uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      sums[r][v] = continues ? L::load(scores + r * score_stride + v * L::kLanes) : L::set1(0.0F);
    }
  }
  for (std::uint32_t c = 0; c < channels; ++c) {
    Vector queries[kVectors];
#pragma GCC unroll 2
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      queries[v] = L::load(panel + (std::size_t{c} * kVectors + v) * L::kLanes);
    }
#pragma GCC unroll 16
    for (std::uint32_t r = 0; r < kRows; ++r) {
      const Vector key = L::set1(rows[r * stride + c]);
#pragma GCC unroll 2
      for (std::uint32_t v = 0; v < kVectors; ++v) {
        sums[r][v] = L::fma(queries[v], key, sums[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (std::uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      L::store(scores + r * score_stride + v * L::kLanes, sums[r][v]);
    }
  }
}

struct RowSpan {
  const float* rows;
  std::size_t stride;
  std::uint32_t count;
};

inline constexpr std::uint32_t kChannelRun = 256;

// Micro-tiles of score_panel, each of which is a step of the prefetch.
template <class L>
constexpr std::uint64_t score_steps(std::uint32_t channels, std::uint32_t row_count) {
  const std::uint64_t runs = (channels + kChannelRun - 1) / kChannelRun;
  return runs * ((row_count + L::kTileRows - 1) / L::kTileRows);
}

// All rows of a block for one panel of queries. Channels come in runs whose panel stays in the
// first-level cache; sums wait in `scores` meanwhile, so their order is that of the channels.
template <class L, std::uint32_t kVectors>
inline void score_panel(const float* panel, std::uint32_t channels, const RowSpan& span,
                        float* scores, std::size_t score_stride, RowPrefetch& prefetch) {
  const float* rows = span.rows;
  const std::size_t stride = span.stride;
  const std::uint32_t row_count = span.count;
  constexpr std::uint32_t kRun = kChannelRun;
  for (std::uint32_t c = 0; c < channels; c += kRun) {
    const std::uint32_t run = std::min(kRun, channels - c);
    const float* from = panel + std::size_t{c} * kVectors * L::kLanes;
    const bool continues = c > 0;
    // One vector leaves registers for twice the rows.
    constexpr std::uint32_t kRows = kVectors == 1 ? 12 : L::kTileRows;
    std::uint32_t r = 0;
    for (; r + kRows <= row_count; r += kRows) {
      prefetch.step();
      score_tile<L, kRows, kVectors>(from, rows + r * stride + c, stride, run, continues,
                                     scores + r * score_stride, score_stride);
    }
    prefetch.step();
    for (; r + 4 <= row_count; r += 4) {
      score_tile<L, 4, kVectors>(from, rows + r * stride + c, stride, run, continues,
                                 scores + r * score_stride, score_stride);
    }
    for (; r < row_count; ++r) {
      score_tile<L, 1, kVectors>(from, rows + r * stride + c, stride, run, continues,
                                 scores + r * score_stride, score_stride);
    }
  }
}

// What accumulate_tile reads and writes: probabilities [row][query], values [row][channel], out
// [query][channel], each with its stride.
struct ValueSpan {
  const float* weights;
  std::size_t weight_stride;
  const float* values;
  std::size_t value_stride;
  std::uint32_t row_count;
  const float* corrections;  // [query]
  float* out;
  std::size_t out_stride;
};

// out = out * correction + sum over rows, for kQueries queries and kVectors vectors of channels.
template <class L, std::uint32_t kQueries, std::uint32_t kVectors>
inline void accumulate_tile(const ValueSpan& span, std::uint32_t channel) {
  using Vector = typename L::Vector;
  Vector sums[kQueries][kVectors];
#pragma GCC unroll 16
  for (std::uint32_t q = 0; q < kQueries; ++q) {
#pragma GCC unroll 8
    for (std::uint32_t v = 0; v < kVectors; ++v) sums[q][v] = L::set1(0.0F);
  }
  const float* weights = span.weights;
  const float* values = span.values + channel;
  for (std::uint32_t r = 0; r < span.row_count; ++r) {
    Vector value[kVectors];
#pragma GCC unroll 8
    for (std::uint32_t v = 0; v < kVectors; ++v) value[v] = L::load(values + v * L::kLanes);
#pragma GCC unroll 16
    for (std::uint32_t q = 0; q < kQueries; ++q) {
      const Vector weight = L::set1(weights[q]);
#pragma GCC unroll 8
      for (std::uint32_t v = 0; v < kVectors; ++v) {
        sums[q][v] = L::fma(weight, value[v], sums[q][v]);
      }
    }
    weights += span.weight_stride;
    values += span.value_stride;
  }
#pragma GCC unroll 16
  for (std::uint32_t q = 0; q < kQueries; ++q) {
    const Vector correction = L::set1(span.corrections[q]);
    float* out = span.out + q * span.out_stride + channel;
#pragma GCC unroll 8
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      float* to = out + v * L::kLanes;
      L::store(to, L::fma(L::load(to), correction, sums[q][v]));
    }
  }
}

// kQueries queries over channels [channel, end), a multiple of the lanes.
template <class L, std::uint32_t kQueries, std::uint32_t kVectors>
inline void accumulate_channels(const ValueSpan& span, std::uint32_t channel, std::uint32_t end,
                                RowPrefetch& prefetch) {
  for (; channel + kVectors * L::kLanes <= end; channel += kVectors * L::kLanes) {
    prefetch.step();
    accumulate_tile<L, kQueries, kVectors>(span, channel);
  }
  if constexpr (kVectors > 1) {
    accumulate_channels<L, kQueries, kVectors / 2>(span, channel, end, prefetch);
  }
}

template <class L>
inline ValueSpan from_query(const ValueSpan& span, std::uint32_t query) {
  ValueSpan moved = span;
  moved.weights += query;
  moved.corrections += query;
  moved.out += query * span.out_stride;
  return moved;
}

// Queries of the next micro-tile: the largest first, but never so that one or two are left over
// where two tiles of four would do.
template <class L>
constexpr std::uint32_t tile_queries(std::uint32_t left) {
  if (L::kTileRows >= 12 && left >= 8) return left >= 12 ? 12 : 8;
  if (left == 7 || left == 8) return 4;
  return left >= 6 ? 6 : std::min(left, 4U);
}

// All queries over channels [channel, end).
template <class L>
inline void accumulate_queries(const ValueSpan& span, std::uint32_t query_count,
                               std::uint32_t channel, std::uint32_t end, RowPrefetch& prefetch) {
  std::uint32_t count = 0;
  for (std::uint32_t q = 0; q < query_count; q += count) {
    const ValueSpan at = from_query<L>(span, q);
    count = tile_queries<L>(query_count - q);
    if constexpr (L::kTileRows >= 12) {
      if (count == 12) accumulate_channels<L, 12, 2>(at, channel, end, prefetch);
      if (count == 8) accumulate_channels<L, 8, 2>(at, channel, end, prefetch);
    }
    if (count == 6) accumulate_channels<L, 6, 2>(at, channel, end, prefetch);
    if (count == 4) accumulate_channels<L, 4, 2>(at, channel, end, prefetch);
    if (count == 3) accumulate_channels<L, 3, 2>(at, channel, end, prefetch);
    if (count == 2) accumulate_channels<L, 2, 4>(at, channel, end, prefetch);
    if (count == 1) accumulate_channels<L, 1, 8>(at, channel, end, prefetch);
  }
}

}  // namespace emblema::vector_kernels
