// One page of one stream, in any profile: how its rows and their regions lie. The room's own:
// ModelLayout puts pages into blocks.
#pragma once

#include <cstdint>

#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/layout/block_layout.h"
#include "emblema/layout/profile.h"

namespace emblema {

// A page of `rows` rows, at offset 0 of nothing yet. Unsupported: the profile has no place for such
// entries, or they are not stored as it wants them; names both. Invalid: sizes past 64 bits.
Result<StreamPage> page_of(Profile profile, std::uint32_t layer, const Stream& stream,
                           std::uint64_t rows);

// Unsupported: kernels of the profile do not take blocks of so many tokens.
[[nodiscard]] Status check_block_tokens(Profile profile, const CacheGroup& group);

}  // namespace emblema
