#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
// g++ 12 takes the undefined operands inside its own intrinsics for uninitialised variables.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include "emblema/kernels/isa_region.h"
#include "emblema/kernels/peak_bench.h"

EMBLEMA_ISA_BEGIN(EMBLEMA_AVX512_TARGET)
#include "emblema/kernels/avx512/lanes.h"
#include "emblema/kernels/vector/fma_loop_bench.h"

namespace emblema::bench {

void fma_loop_avx512(const FmaFactors& factors, std::uint64_t steps, FmaSums* sums) {
  vector_kernels::FmaLoop<Avx512Lanes>::run(factors, steps, sums);
}

}  // namespace emblema::bench
EMBLEMA_ISA_END
#endif
