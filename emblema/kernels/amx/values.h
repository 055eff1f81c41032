// accumulate_rows: out = out * correction + weights . values, 32 columns of the values at a time.
//
//   out     [slice of 32 columns][16 queries][half of the columns][16 queries][16 columns] fp32
//   slice   [piece of 32 rows][half][16 pairs of rows][16 columns] bf16: 16 KiB for a block, which
//           stay in the first-level cache while all queries pass; the next slice is packed
//           meanwhile
//
// Packing interleaves rows t and 16 + t of a piece within 128-bit lanes, so columns come out in
// another order (column_place); read_out puts them back.
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

#include "emblema/kernels/amx/prefetch.h"
#include "emblema/kernels/amx/rows.h"
#include "emblema/kernels/amx/tiles.h"

namespace emblema::amx_kernels {

inline constexpr std::size_t kOutBytes = 2 * kTileBytes;  // of 16 queries and 32 columns
inline constexpr std::size_t kSliceBytes = kPieces * kOutBytes;

inline std::size_t out_bytes(const TileWidths& w, std::uint32_t query_count) {
  return parts_of(w.value_dim, kStep) * (parts_of(query_count, kTileRows) * kOutBytes);
}

// Where column c of a slice lies: half, then column of it. The low four of each eight columns are
// in the first half.
constexpr std::uint32_t column_place(std::uint32_t c) {
  return c / 4 % 2 * kTileRows + c / 8 * 4 + c % 4;
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

// Packs slices of the values, four pairs of rows at a call. Rows outside the task's come as zeros:
// 0 times what they hold might be NaN.
class SlicePacker {
 public:
  explicit SlicePacker(const AccumulateTask& task) : task_(task), rows_(rows_of(task.rows)) {}

  static constexpr std::uint32_t kUnits = kTileRows / 4;  // of a piece

  void begin(std::uint32_t slice, std::byte* to) {
    const std::uint32_t left = task_.widths.value_dim - slice * kStep;
    columns_ = left >= kStep ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
    offset_ = slice * kTileStride;
    to_ = to;
    piece_ = first_piece();
    pair_ = 0;
  }
  bool is_done() const { return piece_ == end_piece(); }
  void pack_unit();

  std::uint32_t first_piece() const { return task_.first_row / kStep; }
  std::uint32_t end_piece() const { return parts_of(task_.end_row, kStep); }
  std::uint32_t pieces() const { return end_piece() - first_piece(); }

 private:
  __m512i load(const RowGroup& group, std::uint32_t row) const {
    return _mm512_maskz_loadu_epi16(columns_, group.values + row * group.stride + offset_);
  }
  __m512i load_if_seen(std::uint32_t row) const {
    if (row < task_.first_row || row >= task_.end_row) return _mm512_setzero_si512();
    return load(rows_.groups[row / kTileRows], row % kTileRows);
  }
  static void store_pair(__m512i even, __m512i odd, std::byte* to) {
    _mm512_store_si512(to, _mm512_unpacklo_epi16(even, odd));
    _mm512_store_si512(to + kTileBytes, _mm512_unpackhi_epi16(even, odd));
  }

  const AccumulateTask& task_;
  const Rows& rows_;
  std::byte* to_ = nullptr;
  std::size_t offset_ = 0;
  __mmask32 columns_ = 0;
  std::uint32_t piece_ = 0;
  std::uint32_t pair_ = 0;
};

inline void SlicePacker::pack_unit() {
  if (is_done()) return;
  const std::uint32_t row = piece_ * kStep;
  std::byte* to = to_ + (piece_ - first_piece()) * kOutBytes + pair_ * kTileStride;
  if (row >= task_.first_row && row + kStep <= task_.end_row) {
    const RowGroup& even = rows_.groups[row / kTileRows];
    const RowGroup& odd = rows_.groups[row / kTileRows + 1];
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < 4; ++i) {
      store_pair(load(even, pair_ + i), load(odd, pair_ + i), to + i * kTileStride);
    }
  } else {
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t first = row + pair_ + i;
      store_pair(load_if_seen(first), load_if_seen(first + kTileRows), to + i * kTileStride);
    }
  }
  pair_ += 4;
  if (pair_ == kTileRows) {
    pair_ = 0;
    ++piece_;
  }
}

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
  correct(tile, out);
  if constexpr (kTwoTiles) correct(tile + 1, out + 2 * kTileBytes);
  order_memory();
  _tile_loadd(0, out, kTileStride);
  _tile_loadd(1, out + kTileBytes, kTileStride);
  if constexpr (kTwoTiles) {
    _tile_loadd(2, out + 2 * kTileBytes, kTileStride);
    _tile_loadd(3, out + 3 * kTileBytes, kTileStride);
  }
  for (std::uint32_t p = 0; p < packer_.pieces(); ++p) {
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

inline void accumulate_rows(const AccumulateTask& task) {
  Accumulator(task).run();
}

}  // namespace emblema::amx_kernels
