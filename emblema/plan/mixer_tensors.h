// The weights of recurrent mixers: Mamba, gated delta, lightning attention and their like.
//
// Plain values; any thread may call.
#pragma once

#include "emblema/contract/result.h"
#include "emblema/model/model_config.h"
#include "emblema/plan/tensor_list.h"

namespace emblema {

// Adds what a layer's mixer has to `list`. Heads and channels are divided among ranks.
// REQUIRES: model.weights; layer.recurrent.mixer is not kNone.
// Unsupported: a mixer whose weights are not counted, or one that a field is missing for.
Status add_mixer_tensors(const ModelConfig& model, const LayerFacts& layer, TensorList* list);

}  // namespace emblema
