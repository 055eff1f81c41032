// The inner loops of append and convert, as a table: what an instruction set supplies. Formats,
// scales and places are the driver's (driver/row_writer.h). Every one gives the same bits from
// every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emblema/geometry/encoding.h"
#include "emblema/kernels/isa.h"

namespace emblema {

// One position's angles and which channels turn together (layout/rotation.h).
struct PairTurn {
  const float* cosines = nullptr;  // [pairs]
  const float* sines = nullptr;
  std::uint32_t pairs = 0;
  bool interleaved = false;  // pairs (2i, 2i + 1); else (i, i + pairs)
};

struct RowPrimitives {
  Isa isa = Isa::kScalar;
  // Numbers <-> kFp32, kFp16, kBf16 or kFp8E4m3 at any address. e4m3: divided by `scale` and
  // saturated, or multiplied by it; others leave the scale aside.
  void (*encode)(const float* from, std::uint32_t count, Encoding encoding, float scale,
                 std::byte* to);
  void (*decode)(const std::byte* from, std::uint32_t count, Encoding encoding, float scale,
                 float* to);
  // The largest |number|; infinity where one is infinite or NaN.
  float (*largest)(const float* from, std::uint32_t count);
  // (x, y) -> (x cos - y sin, x sin + y cos), each operation rounded; NaN as in settle_nans.
  void (*turn)(const PairTurn& turn, float* channels);
  // Every NaN becomes 0x7fc00000: which NaN an operation gives depends on how it was compiled.
  void (*settle_nans)(float* numbers, std::uint32_t count);
};

// The table of an instruction set that check_isa allows; amx has avx512's.
const RowPrimitives& row_primitives_of(Isa isa);

const RowPrimitives& scalar_row_primitives();
#if defined(__x86_64__)
const RowPrimitives& avx2_row_primitives();
const RowPrimitives& avx512_row_primitives();
#endif

}  // namespace emblema
