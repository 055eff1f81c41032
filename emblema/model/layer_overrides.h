// per_layer_config: facts of single layers that differ from the rest, as transformers 5.24.0 writes
// them for any model (Gemma-4's wider full layers; pruned models).
#pragma once

#include <string>

#include "emblema/model/config_fields.h"
#include "emblema/model/model_config.h"

namespace emblema {

// Puts the heads and widths that single layers are given over those of config->layers; with
// latents, query heads alone. REQUIRES: the layers are filled, but for what depends on a width.
// A field that changes what a layer keeps and is not read here, or that nobody here knows, is
// Unsupported by its name. Problems are recorded in `text`.
void apply_layer_overrides(const ConfigFields& text, ModelConfig* config);

// A field by which layers differ in their weights alone ("per_layer_config.03.intermediate_size");
// "" where there is none. REQUIRES: apply_layer_overrides left no problem.
std::string find_weight_override(const ConfigFields& text);

}  // namespace emblema
