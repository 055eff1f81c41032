// Stored rows as the tile kernels read them: bf16, in groups of 16 at a constant stride. Groups
// that lie so in their page stay there; others are copied.
//
// Numbers under one scale keep it apart (Rows::key_scale): e4m3 codes are bf16 numbers, their
// products with a scale are not.
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

#include "emblema/kernels/amx/lanes.h"
#include "emblema/kernels/amx/packing.h"

namespace emblema::amx_kernels {

inline constexpr std::uint32_t kBlockRows = 256;
// Rows of all heads in turn: a block and the next one, of a few KiB a row, have to leave room in a
// second-level cache of 2 MiB.
inline std::uint32_t block_rows(const TileWidths& stored) {
  return stored.value_in_key ? kBlockRows : kBlockRows / 2;
}
inline constexpr std::uint32_t kGroups = kBlockRows / kTileRows;
inline constexpr std::uint32_t kPieces = kBlockRows / kStep;  // two groups each

struct RowGroup {
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  std::ptrdiff_t stride = 0;
};

// What load_rows and expand_rows leave in the driver's memory; copies of rows follow.
struct alignas(64) Rows {
  float key_scale = 1.0F;
  float value_scale = 1.0F;
  RowGroup groups[kGroups];
};

// Copies: [key, zeros up to a whole step] [value likewise, where it is apart]. An odd number of
// cache lines apart, so that 16 of them do not fall into the same few sets.
struct CopyLayout {
  std::size_t key_bytes;
  std::size_t value_at;
  std::size_t stride;

  explicit CopyLayout(const TileWidths& w)
      : key_bytes(parts_of(w.key_dim, kStep) * kTileStride),
        value_at(w.value_in_key ? 0 : key_bytes),
        stride(key_bytes + (w.value_in_key ? 0 : parts_of(w.value_dim, kStep) * kTileStride)) {
    if (stride % 128 == 0) stride += 64;
  }
};

inline Rows& rows_of(std::byte* memory) {
  return *reinterpret_cast<Rows*>(memory);
}
inline const Rows& rows_of(const std::byte* memory) {
  return *reinterpret_cast<const Rows*>(memory);
}
inline std::byte* copies_of(std::byte* memory) {
  return memory + sizeof(Rows);
}

inline std::size_t row_bytes(const TileWidths& w) {
  return sizeof(Rows) + kBlockRows * CopyLayout(w).stride;
}

// Row groups of the copies themselves.
inline RowGroup copied_group(const CopyLayout& copy, std::byte* memory, std::uint32_t group) {
  const std::byte* at = copies_of(memory) + group * (kTileRows * copy.stride);
  return {at, at + copy.value_at, static_cast<std::ptrdiff_t>(copy.stride)};
}

// The stride of 16 rows; 0: none, or not of rows that tiles can read where they are.
inline std::ptrdiff_t direct_stride(const TileWidths& w, const StoredRows& from,
                                    std::uint32_t first) {
  const PagedRows& layout = *from.layout;
  const bool is_bf16 = layout.format == RowFormat::kPlain && layout.encoding == Encoding::kBf16;
  if (!is_bf16 || w.key_dim % kStep != 0 || first + kTileRows > from.count) return 0;
  const std::byte* const* rows = from.rows + first;
  const auto stride = static_cast<std::ptrdiff_t>(layout.row_bytes);
  for (std::uint32_t r = 1; r < kTileRows; ++r) {
    if (rows[r] != rows[r - 1] + stride) return 0;
  }
  return stride;
}

// Numbers of a plain row, without their scale.
inline void copy_plain(const std::byte* from, Encoding encoding, std::uint32_t count,
                       std::uint32_t padded, std::byte* to) {
  if (encoding == Encoding::kBf16) {
    std::memcpy(to, from, count * sizeof(std::uint16_t));
    std::memset(to + count * sizeof(std::uint16_t), 0, (padded - count) * sizeof(std::uint16_t));
    return;
  }
  alignas(64) float numbers[AttentionLimits::kHeadWidthMax];
  vector_kernels::load_plain<TileLanes>(from, encoding, count, 1.0F, numbers);
  store_bf16(numbers, count, padded, to);
}

inline void copy_row(const TileWidths& w, const StoredRows& from, std::uint32_t row,
                     const CopyLayout& copy, std::byte* to) {
  const PagedRows& layout = *from.layout;
  const auto padded = static_cast<std::uint32_t>(copy.key_bytes / sizeof(std::uint16_t));
  if (layout.format != RowFormat::kPlain) {
    alignas(64) float numbers[AttentionLimits::kHeadWidthMax];
    if (layout.format == RowFormat::kFp8DsMla) {
      vector_kernels::load_fp8_ds_mla<TileLanes>(from.rows[row], numbers);
    } else {
      vector_kernels::load_v4<TileLanes>(from.rows[row], from.scales[row], numbers);
    }
    return store_bf16(numbers, w.key_dim, padded, to);
  }
  const std::byte* bytes = from.rows[row];
  copy_plain(bytes + from.key_offset, layout.encoding, w.key_dim, padded, to);
  if (w.value_in_key) return;
  copy_plain(bytes + from.value_offset, layout.encoding, w.value_dim,
             parts_of(w.value_dim, kStep) * kStep, to + copy.value_at);
}

// Scales that all rows share; the other formats' have been multiplied in.
inline void set_scales(const TileWidths& w, const PagedRows& layout, Rows& rows) {
  const bool has_scale =
      layout.format == RowFormat::kPlain && layout.encoding == Encoding::kFp8E4m3;
  rows.key_scale = has_scale ? layout.key_scale : 1.0F;
  const float value_scale = w.value_in_key ? layout.key_scale : layout.value_scale;
  rows.value_scale = has_scale ? value_scale : 1.0F;
}

inline void load_rows(const TileWidths& w, const StoredRows& from, std::byte* to) {
  const CopyLayout copy(w);
  Rows& rows = rows_of(to);
  set_scales(w, *from.layout, rows);
  for (std::uint32_t first = 0; first < from.count; first += kTileRows) {
    RowGroup& group = rows.groups[first / kTileRows];
    const std::ptrdiff_t stride = direct_stride(w, from, first);
    if (stride != 0) {
      const std::byte* row = from.rows[first];
      group = {row + from.key_offset, row + (w.value_in_key ? from.key_offset : from.value_offset),
               stride};
      continue;
    }
    group = copied_group(copy, to, first / kTileRows);
    std::byte* at = copies_of(to) + first * copy.stride;
    for (std::uint32_t r = first; r < first + kTileRows; ++r, at += copy.stride) {
      if (r < from.count) {
        copy_row(w, from, r, copy, at);
      } else {
        std::memset(at, 0, copy.stride);
      }
    }
  }
}

}  // namespace emblema::amx_kernels
