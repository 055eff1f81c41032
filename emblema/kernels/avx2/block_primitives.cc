#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>

#include "emblema/kernels/block_primitives.h"
#include "emblema/kernels/isa_region.h"
#include "emblema/layout/convert.h"
#include "emblema/layout/fp8.h"

EMBLEMA_ISA_BEGIN(EMBLEMA_AVX2_TARGET)
#include "emblema/kernels/avx2/lanes.h"
#include "emblema/kernels/vector/body.h"

namespace emblema {

const BlockPrimitives& avx2_primitives() {
  static constexpr BlockPrimitives kTable = vector_kernels::Body<Avx2Lanes>::table(Isa::kAvx2);
  return kTable;
}

}  // namespace emblema
EMBLEMA_ISA_END
#endif
