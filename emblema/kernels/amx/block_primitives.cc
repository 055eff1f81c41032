#include "emblema/kernels/block_primitives.h"

#if defined(__x86_64__)
namespace emblema {

const BlockPrimitives& amx_primitives() {
  return avx512_primitives();
}

}  // namespace emblema
#endif
