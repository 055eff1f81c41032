// The scaling half of a rope_scaling or rope_parameters object.
#pragma once

#include <cstdint>

#include "emblema/model/config_fields.h"
#include "emblema/model/rope_facts.h"

namespace emblema {

// Fills what `object` says into `rope` (whose rotary_dim must be set: LongRope tables are checked
// against it). `fields` is the level around it: some models keep original_max_position_embeddings
// there. A type that is not known is Unsupported; what a type needs and lacks is Invalid.
void read_rope_scaling(const ConfigFields& fields, const ConfigFields& object,
                       std::uint64_t max_positions, RopeFacts* rope);

}  // namespace emblema
