#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>

#include "emblema/kernels/block_primitives.h"
#include "emblema/kernels/isa_region.h"
#include "emblema/kernels/row_primitives.h"
#include "emblema/layout/convert.h"
#include "emblema/layout/fp8.h"

EMBLEMA_ISA_BEGIN(EMBLEMA_AVX2_TARGET)
#include "emblema/kernels/avx2/lanes.h"
#include "emblema/kernels/vector/encode.h"

namespace emblema {

const RowPrimitives& avx2_row_primitives() {
  static constexpr RowPrimitives kTable = vector_kernels::RowBody<Avx2Lanes>::table(Isa::kAvx2);
  return kTable;
}

}  // namespace emblema
EMBLEMA_ISA_END
#endif
