// What one tensor-parallel rank holds of a layer.
//
// Query heads divide. KV heads divide down to one per rank, then ranks repeat them. Latents, index
// keys and DeepSeek-V4's entries have no head to divide by: every rank holds them whole. Recurrent
// state divides by its heads, or by channels where it has one head.
// Source: vLLM 073c510c (2026-08), models' attention layers and mamba_utils; SGLang v0.5.18 agrees.
#pragma once

#include <cstdint>

#include "emblema/contract/result.h"
#include "emblema/model/model_config.h"

namespace emblema {

// The facts of `layer`, of one rank out of `ranks`; equal for each of them. Invalid: heads that do
// not divide (names the field, its value and the rule).
Result<LayerFacts> tensor_share(const LayerFacts& layer, std::uint32_t ranks);

}  // namespace emblema
