#include "emblema/kernels/row_primitives.h"

namespace emblema {

#if defined(__x86_64__)

const RowPrimitives& row_primitives_of(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return scalar_row_primitives();
    case Isa::kAvx2:
      return avx2_row_primitives();
    case Isa::kAvx512:
    case Isa::kAmx:
      return avx512_row_primitives();
  }
  return scalar_row_primitives();
}

#else

const RowPrimitives& row_primitives_of(Isa) {
  return scalar_row_primitives();
}

#endif

}  // namespace emblema
