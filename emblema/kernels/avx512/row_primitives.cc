#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
// g++ 12 takes the undefined operands inside its own intrinsics for uninitialised variables.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "emblema/kernels/block_primitives.h"
#include "emblema/kernels/isa_region.h"
#include "emblema/kernels/row_primitives.h"
#include "emblema/layout/convert.h"
#include "emblema/layout/fp8.h"

EMBLEMA_ISA_BEGIN(EMBLEMA_AVX512_TARGET)
#include "emblema/kernels/avx512/lanes.h"
#include "emblema/kernels/vector/encode.h"

namespace emblema {

const RowPrimitives& avx512_row_primitives() {
  static constexpr RowPrimitives kTable = vector_kernels::RowBody<Avx512Lanes>::table(Isa::kAvx512);
  return kTable;
}

}  // namespace emblema
EMBLEMA_ISA_END
#endif
