// The layers of DeepSeek-V4: a window in every one, entries of 4 or 128 tokens beside it in most.
#pragma once

#include "emblema/model/config_fields.h"
#include "emblema/model/model_config.h"
#include "emblema/model/model_family.h"

namespace emblema {

// Does this config have layers of that kind? By its fields, else by its class.
bool has_compressed_layers(const ConfigFields& text, const ModelFamily& family);

// Fills config->layers, and the widths that all of them share, from compress_ratios (a number for
// each layer, as published) or from layer_types and compress_rates (as transformers writes it).
// REQUIRES: config->layers has num_hidden_layers entries. Problems are recorded in `text`; with
// one, the layers are not to be used.
void fill_compressed(const ConfigFields& text, const ModelFamily& family, ModelConfig* config);

}  // namespace emblema
