#include "emblema/kernels/block_primitives.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emblema/kernels/scalar/lanes.h"
#include "emblema/kernels/vector/body.h"
#include "emblema/layout/convert.h"
#include "emblema/layout/fp8.h"

namespace emblema {

const BlockPrimitives& scalar_primitives() {
  static constexpr BlockPrimitives kTable = vector_kernels::Body<ScalarLanes>::table(Isa::kScalar);
  return kTable;
}

}  // namespace emblema
