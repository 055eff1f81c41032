// Tiles as the kernels use them: always whole ones, 16 rows of 64 bytes.
//
//   product   C [16][16] fp32 += A [16][32] bf16 . B [32][16] bf16
//   B         lies as 16 rows of 16 pairs: row k holds, for each column, two numbers of the sum
//
// The intrinsics' memory is unknown to the compiler: order_memory stands between plain stores and
// tile loads of the same bytes, and between tile stores and plain loads.
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

namespace emblema::amx_kernels {

inline constexpr std::uint32_t kTileRows = 16;
inline constexpr std::uint32_t kStep = 32;      // bf16 numbers that one product sums up
inline constexpr std::size_t kTileStride = 64;  // bytes from one row of a tile to the next
inline constexpr std::size_t kTileBytes = kTileRows * kTileStride;
inline constexpr std::uint32_t kTileFloats = kTileBytes / sizeof(float);

constexpr std::uint32_t parts_of(std::uint32_t width, std::uint32_t part) {
  return (width + part - 1) / part;
}

inline void order_memory() {
  __asm__ volatile("" ::: "memory");
}

// The operand of ldtilecfg.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

// Constant memory: of a local one, the intrinsic makes the compiler store the first word only.
inline constexpr TileShapes kWholeTiles;

// Tiles are usable while one lives; the machine's tile state is given back, for it would make every
// context switch dearer.
class TileSession {
 public:
  TileSession() { _tile_loadconfig(&kWholeTiles); }
  ~TileSession() { _tile_release(); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
};

// Two groups of 16 rows against two packed operands of 16 columns (packing.h).
struct RowOperands {
  const std::byte* rows[2] = {};
  std::ptrdiff_t strides[2] = {};
  const std::byte* columns[2] = {};
};

// products [column operand][row group][16 rows][16 columns] = rows . columns, over `steps` times 32
// numbers. Rows pass through once and must not push the columns out of the first-level cache: they
// are loaded with the hint for that. work.step() runs between products.
template <bool kTwoGroups, bool kTwoColumns, class Work>
inline void multiply_rows(const RowOperands& o, std::uint32_t steps, Work& work, float* products) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  order_memory();
  for (std::uint32_t k = 0; k < steps; ++k) {
    _tile_loadd(6, o.columns[0] + k * kTileBytes, kTileStride);
    _tile_stream_loadd(4, o.rows[0] + k * kTileStride, o.strides[0]);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kTwoColumns) {
      _tile_loadd(7, o.columns[1] + k * kTileBytes, kTileStride);
      _tile_dpbf16ps(2, 4, 7);
    }
    if constexpr (kTwoGroups) {
      _tile_stream_loadd(5, o.rows[1] + k * kTileStride, o.strides[1]);
      _tile_dpbf16ps(1, 5, 6);
      if constexpr (kTwoColumns) _tile_dpbf16ps(3, 5, 7);
    }
    work.step();
  }
  _tile_stored(0, products, kTileStride);
  if constexpr (kTwoGroups) _tile_stored(1, products + kTileFloats, kTileStride);
  if constexpr (kTwoColumns) {
    _tile_stored(2, products + std::size_t{2} * kTileFloats, kTileStride);
    if constexpr (kTwoGroups) _tile_stored(3, products + std::size_t{3} * kTileFloats, kTileStride);
  }
  order_memory();
}

template <class Work>
inline void multiply_rows(const RowOperands& o, std::uint32_t steps, Work& work, float* products) {
  const bool two_groups = o.rows[1] != nullptr;
  const bool two_columns = o.columns[1] != nullptr;
  if (two_groups && two_columns) return multiply_rows<true, true>(o, steps, work, products);
  if (two_groups) return multiply_rows<true, false>(o, steps, work, products);
  if (two_columns) return multiply_rows<false, true>(o, steps, work, products);
  return multiply_rows<false, false>(o, steps, work, products);
}

}  // namespace emblema::amx_kernels
