// Fills ModelConfig::layers: the one step for each way of remembering the past.
#pragma once

#include "emblema/model/config_fields.h"
#include "emblema/model/model_config.h"
#include "emblema/model/model_family.h"

namespace emblema {

// Decides by the fields that are there: kv_lora_rank makes kLatent, compress_ratios kCompressed.
// Latent attention without kv_lora_rank is a problem, recorded in `text`: read as grouped it would
// be many times too large.
AttentionFamily read_attention_family(const ConfigFields& text, const ModelFamily& family);

// Does this decoder attend to the output of an encoder too?
bool attends_to_encoder(const ConfigFields& text, const ConfigFields& outer,
                        const ModelFamily& family);

// REQUIRES: config->family, num_hidden_layers (1 or more), hidden_size and max_positions are set.
// Fills the widths, num_attention_heads and the layers. Problems are recorded in `text`; with one,
// the layers are not to be used.
// `outer` is the whole config, often the same as `text`.
void fill_layers(const ConfigFields& text, const ConfigFields& outer, const ModelFamily& family,
                 ModelConfig* config);

}  // namespace emblema
