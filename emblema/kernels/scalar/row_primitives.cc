#include "emblema/kernels/row_primitives.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emblema/kernels/block_primitives.h"
#include "emblema/kernels/scalar/lanes.h"
#include "emblema/kernels/vector/encode.h"
#include "emblema/layout/convert.h"
#include "emblema/layout/fp8.h"

namespace emblema {

const RowPrimitives& scalar_row_primitives() {
  static constexpr RowPrimitives kTable = vector_kernels::RowBody<ScalarLanes>::table(Isa::kScalar);
  return kTable;
}

}  // namespace emblema
