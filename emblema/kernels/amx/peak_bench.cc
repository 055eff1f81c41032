#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>

#include "emblema/kernels/isa_region.h"
#include "emblema/kernels/peak_bench.h"

EMBLEMA_ISA_BEGIN("amx-tile,amx-bf16")

namespace emblema::bench {
namespace {

// Intel's manual, volume 1, chapter 18: palette 1, eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t column_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

constexpr std::size_t kTileFloats = 256;
constexpr int kRowBytes = 64;

// The intrinsics of g++ 12 do not say that they read and write memory.
void settle_memory() {
  asm volatile("" ::: "memory");
}

}  // namespace

void tile_loop_amx(const TileOperands& operands, std::uint64_t passes, float* sums) {
  const TileConfig config;
  settle_memory();
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    for (std::uint32_t step = 0; step < TileOperands::kSteps; ++step) {
      _tile_loadd(4, operands.a[step][0], kRowBytes);
      _tile_loadd(6, operands.b[step][0], kRowBytes);
      _tile_loadd(5, operands.a[step][1], kRowBytes);
      _tile_loadd(7, operands.b[step][1], kRowBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums, kRowBytes);
  _tile_stored(1, sums + kTileFloats, kRowBytes);
  _tile_stored(2, sums + 2 * kTileFloats, kRowBytes);
  _tile_stored(3, sums + 3 * kTileFloats, kRowBytes);
  settle_memory();
  _tile_release();
}

}  // namespace emblema::bench
EMBLEMA_ISA_END
#endif
