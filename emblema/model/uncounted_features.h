// Attention that this release does not count yet, recognised by the fields that announce it: a
// number that leaves recurrent state or shared layers out would be wrong, so there is none.
#pragma once

#include "emblema/model/config_fields.h"
#include "emblema/model/model_config.h"
#include "emblema/model/model_family.h"

namespace emblema {

// Records Unsupported, naming field and value, if `text` (the language part) announces one.
void refuse_uncounted_features(const ConfigFields& text);

// The same for fields of recurrent layers that no layer of `config` came from.
void refuse_unread_state(const ConfigFields& text, const ModelFamily& family,
                         const ModelConfig& config);

}  // namespace emblema
