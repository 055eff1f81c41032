#include "emblema/kernels/peak_bench.h"

#include "emblema/kernels/scalar/lanes.h"
#include "emblema/kernels/vector/fma_loop_bench.h"

namespace emblema::bench {

void fma_loop_scalar(const FmaFactors& factors, std::uint64_t steps, FmaSums* sums) {
  vector_kernels::FmaLoop<ScalarLanes>::run(factors, steps, sums);
}

}  // namespace emblema::bench
