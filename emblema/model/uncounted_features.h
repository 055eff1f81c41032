// Attention that this release does not count yet, recognised by the fields that announce it: a
// number that leaves recurrent state or shared layers out would be wrong, so there is none.
#pragma once

#include "emblema/model/config_fields.h"
#include "emblema/model/model_config.h"
#include "emblema/model/model_family.h"

namespace emblema {

// Records Unsupported, naming field and value, if `text` (the language part) announces one, or if
// it or `outer` (the whole config) is of a type that caches nothing.
void refuse_uncounted_features(const ConfigFields& text, const ConfigFields& outer);

// The same for fields by which a config of unknown type (`family` has no name) says that its
// attention is not plain. `attends_to_encoder`: cross-attention is counted.
void refuse_unplain_attention(const ConfigFields& text, const ConfigFields& outer,
                              const ModelFamily& family, AttentionFamily attention,
                              bool attends_to_encoder);

// The same for fields of recurrent layers that no layer of `config` came from.
void refuse_unread_state(const ConfigFields& text, const ModelFamily& family,
                         const ModelConfig& config);

}  // namespace emblema
