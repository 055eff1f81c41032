// The arena of a geometry, put together. The room's own: ModelLayout asks for it.
#pragma once

#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/layout/arena_layout.h"
#include "emblema/layout/profile.h"

namespace emblema {

// Without draft tokens. Unsupported: a profile that has no place for a stream. Invalid: sizes past
// 64 bits.
Result<ArenaLayout> arena_of(const ModelGeometry& geometry, Profile profile);

}  // namespace emblema
