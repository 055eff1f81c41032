// One row of numbers -> its bytes in paged memory, and back: formats, scales and places. The inner
// loops are an instruction set's (row_primitives.h). Shared by append and convert; lives for one
// call, on its stack; what it views must outlive it. Any thread may call the const functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "emblema/kernels/attention.h"
#include "emblema/kernels/row_places.h"
#include "emblema/kernels/row_primitives.h"

namespace emblema {

// A key or a value of one head, or a whole row of a fixed format.
inline constexpr std::uint32_t kPieceNumbersMax = AttentionLimits::kHeadWidthMax;

struct RowWidths {
  std::uint32_t keys = 0;    // kv_heads * key_dim
  std::uint32_t values = 0;  // kv_heads * value_dim of grouped rows; latent: 0

  explicit RowWidths(const AttentionShape& shape)
      : keys(shape.kv_heads * shape.key_dim),
        values(shape.kind == RowKind::kGrouped ? shape.kv_heads * shape.value_dim : 0) {}
  std::uint64_t numbers() const { return std::uint64_t{keys} + values; }
};

std::uint32_t plain_bytes(Encoding encoding);  // of one number; REQUIRES: one that rows have
// Bytes of a row that hold numbers or their scales; of kDeepSeekV4 without the scales.
std::uint64_t packed_row_bytes(const RowWidths& widths, const PagedRows& layout);

// Where one row lies. scales: of kDeepSeekV4, else null.
template <class Byte>
struct RowBytes {
  Byte* row = nullptr;
  Byte* scales = nullptr;
};

template <class Byte>
RowBytes<Byte> row_at(Byte* base, const PagedRows& layout, std::span<const std::uint32_t> blocks,
                      std::uint64_t index) {
  Byte* page = base + blocks[index / layout.block_rows] * layout.block_bytes;
  const std::uint64_t row = index % layout.block_rows;
  Byte* scales =
      layout.format == RowFormat::kDeepSeekV4 ? page + layout.scales_offset + row * 8 : nullptr;
  return {page + row * layout.row_bytes, scales};
}

class RowWriter {
 public:
  // REQUIRES: all of it passed the checks of its call.
  RowWriter(const AttentionShape& shape, const RowTarget& target, const RowOptions& options,
            const RowPrimitives& primitives);

  std::uint32_t key_dim() const { return key_dim_; }
  const RowWidths& widths() const { return widths_; }
  RowBytes<std::byte> at(std::uint64_t row) const {
    return row_at(target_->base, target_->layout, target_->blocks, target_->first_row + row);
  }

  // Numbers [first, first + count) of a plain row: all of them keys, or all of them values.
  void write_plain(const float* numbers, std::uint32_t first, std::uint32_t count,
                   std::byte* row) const;
  // A whole row of a fixed format.
  void write_fixed(const float* numbers, RowBytes<std::byte> to) const;
  // A whole row of any format, its keys turned if `turn` is given.
  void write(const float* numbers, const PairTurn* turn, std::uint32_t rotary_offset,
             RowBytes<std::byte> to) const;
  // Zeroes what the row has behind its numbers.
  void fill_gap(RowBytes<std::byte> to) const;

 private:
  void write_turned(const float* numbers, const PairTurn& turn, std::uint32_t rotary_offset,
                    RowBytes<std::byte> to) const;
  void write_values(const float* numbers, std::byte* row) const;

  RowWidths widths_;
  std::uint32_t key_dim_ = 0;
  const RowTarget* target_;
  const RowPrimitives* primitives_;
  ScaleRule rule_;
  std::uint64_t packed_bytes_ = 0;
};

// Numbers [first, first + count) of a plain row, likewise; every NaN as in settle_nans.
void read_plain(const RowPrimitives& primitives, const RowWidths& widths, const PagedRows& layout,
                const std::byte* row, std::uint32_t first, std::uint32_t count, float* to);
// A whole row of a fixed format.
void read_fixed(const RowPrimitives& primitives, const PagedRows& layout,
                RowBytes<const std::byte> from, float* to);

// REQUIRES: an encoding checked. Invalid, Unsupported: as append_rows has it, of isa and rule.
[[nodiscard]] Status check_row_options(const RowOptions& options);
// Shape, layout and place of `rows` rows.
[[nodiscard]] Status check_row_target(const AttentionShape& shape, const RowTarget& target,
                                      std::uint64_t rows);

}  // namespace emblema
