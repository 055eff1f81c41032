#include "emblema/kernels/block_primitives.h"

namespace emblema {

#if defined(__x86_64__)

namespace {

// bf16 tiles hold what bf16 and e4m3 rows hold; other rows would lose digits.
bool fits_bf16(const PagedRows& rows) {
  return rows.format != RowFormat::kPlain || rows.encoding == Encoding::kBf16 ||
         rows.encoding == Encoding::kFp8E4m3;
}

}  // namespace

const BlockPrimitives& primitives_of(Isa isa, const PagedRows& rows) {
  switch (isa) {
    case Isa::kScalar:
      return scalar_primitives();
    case Isa::kAvx2:
      return avx2_primitives();
    case Isa::kAvx512:
      return avx512_primitives();
    case Isa::kAmx:
      return fits_bf16(rows) ? amx_primitives() : avx512_primitives();
  }
  return scalar_primitives();
}

#else

const BlockPrimitives& primitives_of(Isa, const PagedRows&) {
  return scalar_primitives();
}

#endif

}  // namespace emblema
