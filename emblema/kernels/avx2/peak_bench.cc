#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>

#include "emblema/kernels/isa_region.h"
#include "emblema/kernels/peak_bench.h"

EMBLEMA_ISA_BEGIN(EMBLEMA_AVX2_TARGET)
#include "emblema/kernels/avx2/lanes.h"
#include "emblema/kernels/vector/fma_loop_bench.h"

namespace emblema::bench {

void fma_loop_avx2(const FmaFactors& factors, std::uint64_t steps, FmaSums* sums) {
  vector_kernels::FmaLoop<Avx2Lanes>::run(factors, steps, sums);
}

}  // namespace emblema::bench
EMBLEMA_ISA_END
#endif
