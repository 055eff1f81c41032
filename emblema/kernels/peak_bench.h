// What the processor computes at most: loops that multiply and add and do nothing else. A kernel's
// rate is compared with theirs, measured in the same rounds.
//
// Each loop checks its own sums, so that no compiler and no wrong instruction makes it look fast.
#pragma once

#include <cstdint>

#include "emblema/contract/result.h"
#include "emblema/kernels/isa.h"

namespace emblema::bench {

// Sums in registers, fp32, as wide as the instruction set; amx: those of AVX-512. The
// floating-point operations done, two for each multiply-add. Unsupported: as check_isa. Corrupt:
// wrong sums.
Result<double> run_fma_loop(Isa isa, std::uint64_t steps);

// AMX: two by two tiles of sums, their bf16 operands read again and again from the first-level
// cache. The operands are random: over zeros the processor is a fifth faster. Likewise.
Result<double> run_tile_loop(std::uint64_t steps);

// What the loops of one instruction set leave behind.
struct FmaSums {
  static constexpr std::uint32_t kMax = 24 * 16;
  std::uint32_t count = 0;
  float values[kMax];
};

// x -> x * first + add, then x * second + add, `steps` times each, for every sum.
struct FmaFactors {
  float first = 0.7F;
  float second = -1.4F;  // together -0.98: all sums end in the same two values, whatever the start
  float add = 1.1F;
};

void fma_loop_scalar(const FmaFactors& factors, std::uint64_t steps, FmaSums* sums);
#if defined(__x86_64__)
void fma_loop_avx2(const FmaFactors& factors, std::uint64_t steps, FmaSums* sums);
void fma_loop_avx512(const FmaFactors& factors, std::uint64_t steps, FmaSums* sums);

// Operands of the tile loop: `steps` of two tiles each, in the order in which they are read.
struct TileOperands {
  static constexpr std::uint32_t kSteps = 8;
  static constexpr std::uint32_t kTileWords = 16 * 32;
  alignas(64) std::uint16_t a[kSteps][2][kTileWords];  // [16 rows][32 channels]
  alignas(64) std::uint16_t b[kSteps][2][kTileWords];  // [16 pairs of channels][16 columns][2]
};

// sums [2][2][16][16] = passes x the sum over the steps of a . b
void tile_loop_amx(const TileOperands& operands, std::uint64_t passes, float* sums);
#endif

}  // namespace emblema::bench
