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

#include "emblema/kernels/attention.h"
#include "emblema/kernels/block_primitives.h"
#include "emblema/kernels/isa_region.h"
#include "emblema/layout/convert.h"
#include "emblema/layout/fp8.h"

EMBLEMA_ISA_BEGIN(EMBLEMA_AMX_TARGET)
#include "emblema/kernels/amx/expansion.h"
#include "emblema/kernels/amx/rows.h"
#include "emblema/kernels/amx/scores.h"
#include "emblema/kernels/amx/values.h"

namespace emblema {

const BlockPrimitives& amx_primitives() {
  using namespace amx_kernels;
  static constexpr BlockPrimitives kTable = {
      Isa::kAmx,       block_rows,   query_bytes, row_bytes, weight_bytes, out_bytes,
      matrix_bytes,    pack_queries, pack_matrix, load_rows, expand_rows,  weigh_rows,
      accumulate_rows, read_out,     kStep,       true};
  return kTable;
}

}  // namespace emblema
EMBLEMA_ISA_END
#endif
