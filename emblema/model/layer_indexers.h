// Which layers cache an index key beside their keys and values, and how wide it is.
#pragma once

#include "emblema/model/config_fields.h"
#include "emblema/model/model_config.h"

namespace emblema {

// REQUIRES (both): config->layers say which of them attend. Problems are recorded in `text`.

// Attention by keys and values, MiniMax-M3: blocks of keys are picked by one index key per token,
// on the layers that sparse_attention_config (as published) or layer_types (as transformers writes
// it) marks. Other layers called indexed are refused: the size of their index keys is not known.
void fill_block_sparse_index(const ConfigFields& text, ModelConfig* config);

// Latent attention with index_topk (DeepSeek-V3.2, GLM-5): on all layers, or on those that
// layer_types calls indexed, less those that indexer_types calls shared. A layer called indexed
// without the fields that give its index key a size is refused.
void fill_sparse_indexer(const ConfigFields& text, ModelConfig* config);

}  // namespace emblema
