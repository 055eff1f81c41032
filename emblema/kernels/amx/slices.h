// Values as tile operands, 32 columns of a block at a time.
//
//   slice   [piece of 32 rows][half][16 pairs of rows][16 columns] bf16: 16 KiB for a block, which
//           stay in the first-level cache while all queries pass
//
// Packing interleaves rows t and 16 + t of a piece within 128-bit lanes, so columns come out in
// another order (column_place).
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

#include "emblema/kernels/amx/rows.h"
#include "emblema/kernels/amx/tiles.h"

namespace emblema::amx_kernels {

inline constexpr std::size_t kOutBytes = 2 * kTileBytes;  // of 16 queries and 32 columns
inline constexpr std::size_t kSliceBytes = kPieces * kOutBytes;

// Where column c of a slice lies: half, then column of it. The low four of each eight columns are
// in the first half.
constexpr std::uint32_t column_place(std::uint32_t c) {
  return c / 4 % 2 * kTileRows + c / 8 * 4 + c % 4;
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

}  // namespace emblema::amx_kernels
