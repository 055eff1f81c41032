// Layers whose keys and values are not their own: those of an earlier layer, or of an encoder.
#pragma once

#include "emblema/model/config_fields.h"
#include "emblema/model/model_config.h"
#include "emblema/model/model_family.h"

namespace emblema {

// REQUIRES (both): config->layers are filled. Problems are recorded in `text`.

// num_kv_shared_layers (Gemma-3n, Gemma-4): the last so many layers read the last layer of their
// kind, sliding or full, before them. use_cla, cla_share_factor (Hunyuan): groups of layers read
// their first one. cross_attention_layers (Llama-3.2-Vision) attend to the image alone.
void share_layers(const ConfigFields& text, const ModelFamily& family, ModelConfig* config);

// Every layer of a decoder attends to the encoder's output beside its own past.
void add_cross_attention(const ConfigFields& text, const ModelFamily& family, ModelConfig* config);

}  // namespace emblema
