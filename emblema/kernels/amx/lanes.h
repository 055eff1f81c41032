// The vector words of the tile kernels' own softmax and conversions.
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

#include "emblema/kernels/avx512/lanes.h"
#include "emblema/kernels/vector/rows.h"
#include "emblema/kernels/vector/softmax.h"

namespace emblema::amx_kernels {

// A name of its own: what is made from templates here must not be taken for avx512's.
struct TileLanes : Avx512Lanes {};

}  // namespace emblema::amx_kernels
