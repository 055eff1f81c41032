// Attention that this release does not count yet, recognised by the fields that announce it: a
// number that leaves recurrent state or shared layers out would be wrong, so there is none.
#pragma once

#include "emblema/model/config_fields.h"

namespace emblema {

// Records Unsupported, naming field and value, if `text` (the language part) or `outer` (the whole
// config, often the same) announces one.
void refuse_uncounted_features(const ConfigFields& text, const ConfigFields& outer);

}  // namespace emblema
