// accumulate_rows: out = out * correction + weights . values, 32 columns of the values at a time.
//
//   out     [slice of 32 columns][16 queries][half of the columns][16 queries][16 columns] fp32
//
// One slice of the values (slices.h) stays in the first-level cache while all queries pass; the
// next is packed meanwhile.
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

#include "emblema/kernels/amx/prefetch.h"
#include "emblema/kernels/amx/rows.h"
#include "emblema/kernels/amx/slices.h"
#include "emblema/kernels/amx/tiles.h"

namespace emblema::amx_kernels {

inline std::size_t out_bytes(const TileWidths& w, std::uint32_t query_count) {
  return parts_of(w.value_dim, kStep) * (parts_of(query_count, kTileRows) * kOutBytes);
}

inline void read_out(const TileWidths& w, const std::byte* out, std::uint32_t query_count,
                     std::uint32_t query, float* to) {
  const std::uint32_t tiles = parts_of(query_count, kTileRows);
  for (std::uint32_t c = 0; c < w.value_dim; c += 4) {
    const std::uint32_t place = column_place(c % kStep);
    const std::size_t tile =
        (std::size_t{c / kStep} * tiles + query / kTileRows) * 2 + place / kTileRows;
    const std::byte* from = out + tile * kTileBytes + query % kTileRows * kTileStride +
                            place % kTileRows * sizeof(float);
    std::memcpy(to + c, from, std::min(4U, w.value_dim - c) * sizeof(float));
  }
}

// Rows that one query or another sees, and those that all see.
struct RaggedRows {
  std::uint32_t first = kBlockRows;
  std::uint32_t end = 0;
  std::uint32_t whole_first = 0;
  std::uint32_t whole_end = kBlockRows;

  void include(const AccumulateTask& task, std::uint32_t query) {
    const std::uint32_t query_first = task.first_rows[query];
    const std::uint32_t query_end = task.end_rows[query];
    whole_first = std::max(whole_first, query_first);
    whole_end = std::min(whole_end, query_end);
    if (query_first == query_end) return;
    first = std::min(first, query_first);
    end = std::max(end, query_end);
  }
};

class Accumulator {
 public:
  explicit Accumulator(const AccumulateTask& task)
      : task_(task),
        packer_(task),
        slices_(parts_of(task.widths.value_dim, kStep)),
        steps_(parts_of(parts_of(task.end_query, kTileRows) - task.first_query / kTileRows, 2) *
               packer_.pieces()),
        // Behind the chunk's last query a tile holds nobody's.
        whole_end_(task.end_query == task.query_count
                       ? parts_of(task.end_query, kTileRows) * kTileRows
                       : task.end_query),
        prefetch_(task.prefetch, std::uint64_t{slices_} * steps_) {}
  void run();
  // Between two products.
  void step() {
    prefetch_.step();
    units_due_ += packer_.pieces() * SlicePacker::kUnits;
    for (; units_due_ >= steps_; units_due_ -= steps_) packer_.pack_unit();
  }

 private:
  void finish_packing() {
    while (!packer_.is_done()) packer_.pack_unit();
  }
  void multiply_slice(std::uint32_t slice, const std::byte* values);
  template <bool kTwoTiles>
  void multiply_tiles(std::uint32_t tile, const std::byte* values, std::byte* out);
  // Pieces that a pair of tiles of queries takes part in, counted from the task's first.
  struct Pieces {
    std::uint32_t first = 0;
    std::uint32_t end = 0;
  };
  Pieces pieces_of(std::uint32_t tile) const;
  void find_corrections();
  void correct(std::uint32_t tile, std::byte* out) const;
  bool is_whole(std::uint32_t tile) const {
    return tile * kTileRows >= task_.first_query && (tile + 1) * kTileRows <= whole_end_;
  }

  const AccumulateTask& task_;
  SlicePacker packer_;
  std::uint32_t slices_;
  std::uint32_t steps_;          // of a slice
  std::uint32_t whole_end_;      // queries up to here may be written in whole tiles
  std::uint32_t corrected_ = 0;  // bits: tiles of queries that a correction changes
  RowStreams prefetch_;
  std::uint32_t units_due_ = 0;  // in parts of a step: packing is spread evenly over the steps
};

// As weigh_rows cut them: it left out pieces that none of a pair's queries sees.
inline Accumulator::Pieces Accumulator::pieces_of(std::uint32_t tile) const {
  if (task_.first_rows == nullptr) return {0, packer_.pieces()};
  const std::uint32_t end = std::min((tile + 2) * kTileRows, task_.query_count);
  RaggedRows rows;
  for (std::uint32_t q = tile * kTileRows; q < end; ++q) rows.include(task_, q);
  if (rows.first >= rows.end) return {};
  return {rows.first / kStep - packer_.first_piece(),
          parts_of(rows.end, kStep) - packer_.first_piece()};
}

inline void Accumulator::find_corrections() {
  for (std::uint32_t q = task_.first_query; q < task_.end_query; ++q) {
    if (task_.corrections[q] != 1.0F) corrected_ |= 1U << q / kTileRows;
  }
}

// Multiplies the out rows of a tile's queries, where that changes them.
inline void Accumulator::correct(std::uint32_t tile, std::byte* out) const {
  if ((corrected_ >> tile & 1U) == 0) return;
  const std::uint32_t first = std::max(tile * kTileRows, task_.first_query);
  const std::uint32_t end = std::min((tile + 1) * kTileRows, task_.end_query);
  for (std::uint32_t q = first; q < end; ++q) {
    if (task_.corrections[q] == 1.0F) continue;
    const __m512 factor = _mm512_set1_ps(task_.corrections[q]);
    for (std::size_t half = 0; half < 2; ++half) {
      std::byte* at = out + half * kTileBytes + q % kTileRows * kTileStride;
      _mm512_store_ps(at, _mm512_mul_ps(_mm512_load_ps(at), factor));
    }
  }
}

// Two tiles of queries and both halves of the slice: four accumulators.
template <bool kTwoTiles>
inline void Accumulator::multiply_tiles(std::uint32_t tile, const std::byte* values,
                                        std::byte* out) {
  const std::byte* weights = task_.weights + (tile * kPieces + packer_.first_piece()) * kTileBytes;
  const std::byte* more_weights = weights + kPieces * kTileBytes;
  const Pieces pieces = pieces_of(tile);
  correct(tile, out);
  if constexpr (kTwoTiles) correct(tile + 1, out + 2 * kTileBytes);
  order_memory();
  _tile_loadd(0, out, kTileStride);
  _tile_loadd(1, out + kTileBytes, kTileStride);
  if constexpr (kTwoTiles) {
    _tile_loadd(2, out + 2 * kTileBytes, kTileStride);
    _tile_loadd(3, out + 3 * kTileBytes, kTileStride);
  }
  for (std::uint32_t p = pieces.first; p < pieces.end; ++p) {
    _tile_stream_loadd(4, weights + p * kTileBytes, kTileStride);
    _tile_loadd(6, values + p * kOutBytes, kTileStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, values + p * kOutBytes + kTileBytes, kTileStride);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kTwoTiles) {
      _tile_stream_loadd(5, more_weights + p * kTileBytes, kTileStride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    step();
  }
  alignas(64) std::byte part[4 * kTileBytes];
  const bool is_part = !is_whole(tile) || (kTwoTiles && !is_whole(tile + 1));
  std::byte* to = is_part ? part : out;
  _tile_stored(0, to, kTileStride);
  _tile_stored(1, to + kTileBytes, kTileStride);
  if constexpr (kTwoTiles) {
    _tile_stored(2, to + 2 * kTileBytes, kTileStride);
    _tile_stored(3, to + 3 * kTileBytes, kTileStride);
  }
  order_memory();
  if (!is_part) return;
  // The other queries of these tiles keep what they have.
  const std::uint32_t first = std::max(tile * kTileRows, task_.first_query);
  const std::uint32_t end = std::min((tile + (kTwoTiles ? 2 : 1)) * kTileRows, task_.end_query);
  for (std::uint32_t q = first; q < end; ++q) {
    const std::uint32_t at = q - tile * kTileRows;
    const std::size_t row = at / kTileRows * kOutBytes + at % kTileRows * kTileStride;
    std::memcpy(out + row, part + row, kTileStride);
    std::memcpy(out + row + kTileBytes, part + row + kTileBytes, kTileStride);
  }
}

inline void Accumulator::multiply_slice(std::uint32_t slice, const std::byte* values) {
  const std::size_t tiles = parts_of(task_.query_count, kTileRows);
  std::byte* out = task_.out + slice * tiles * kOutBytes;
  const std::uint32_t end = parts_of(task_.end_query, kTileRows);
  for (std::uint32_t tile = task_.first_query / kTileRows; tile < end; tile += 2) {
    std::byte* at = out + tile * kOutBytes;
    if (tile + 1 < end) {
      multiply_tiles<true>(tile, values, at);
    } else {
      multiply_tiles<false>(tile, values, at);
    }
  }
}

inline void Accumulator::run() {
  alignas(64) std::byte slices[2][kSliceBytes];
  find_corrections();
  const TileSession session;
  packer_.begin(0, slices[0]);
  finish_packing();
  for (std::uint32_t slice = 0; slice < slices_; ++slice) {
    if (slice + 1 < slices_) packer_.begin(slice + 1, slices[(slice + 1) % 2]);
    multiply_slice(slice, slices[slice % 2]);
    finish_packing();
  }
}

inline bool has_finite_values(const AccumulateTask& task, std::uint32_t row) {
  const RowGroup& group = rows_of(task.rows).groups[row / kTileRows];
  const std::byte* at = group.values + row % kTileRows * group.stride;
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  for (std::uint32_t c = 0; c < task.widths.value_dim; c += kStep, at += kTileStride) {
    const std::uint32_t left = task.widths.value_dim - c;
    const __mmask32 columns = left >= kStep ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
    const __m512i numbers = _mm512_maskz_loadu_epi16(columns, at);
    if (_mm512_cmpeq_epi16_mask(_mm512_and_si512(numbers, exponent), exponent) != 0) return false;
  }
  return true;
}

// Queries that see the same rows, one run after the other.
inline void accumulate_runs(const AccumulateTask& ragged) {
  AccumulateTask task = ragged;
  task.first_rows = task.end_rows = nullptr;
  task.prefetch = {};
  for (task.end_query = 0; task.end_query < task.query_count;) {
    task.first_query = task.end_query;
    task.first_row = ragged.first_rows[task.first_query];
    task.end_row = ragged.end_rows[task.first_query];
    while (task.end_query < task.query_count &&
           ragged.first_rows[task.end_query] == task.first_row &&
           ragged.end_rows[task.end_query] == task.end_row) {
      ++task.end_query;
    }
    if (task.first_row < task.end_row) Accumulator(task).run();
  }
}

// Weights of rows that a query does not see are 0: all queries may go together unless 0 times what
// such a row holds is not 0.
inline void accumulate_rows(const AccumulateTask& task) {
  if (task.first_rows == nullptr) return Accumulator(task).run();
  RaggedRows rows;
  for (std::uint32_t q = 0; q < task.query_count; ++q) rows.include(task, q);
  bool is_finite = true;
  for (std::uint32_t row = rows.first; row < rows.end && is_finite; ++row) {
    const bool all_see = row >= rows.whole_first && row < rows.whole_end;
    is_finite = all_see || has_finite_values(task, row);
  }
  if (!is_finite) return accumulate_runs(task);
  AccumulateTask hull = task;
  hull.first_row = rows.first;
  hull.end_row = rows.end;
  Accumulator(hull).run();
}

}  // namespace emblema::amx_kernels
