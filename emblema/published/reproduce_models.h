// The models that the documents speak of, and what they ask of them: presets, the same with other
// head counts, and one rank's share (reproduce.h).
#pragma once

#include <cstdint>

#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/model/model_config.h"

namespace emblema {

// A latent model's layers and query heads, with keys and values per KV head as wide as the latent
// model's own heads are without rotation: what it would cache as MHA, GQA or MQA.
ModelConfig as_grouped(const ModelConfig& latent, std::uint32_t kv_heads);

// The same model with another number of KV heads.
ModelConfig with_kv_heads(ModelConfig model, std::uint32_t kv_heads);

// One of `degree` ranks: query heads divided; KV heads too, down to one; latents whole.
// REQUIRES: degree > 0.
ModelConfig rank_of(ModelConfig model, std::uint32_t degree);

// Bytes per token that grow with the context, all layers, and those of one sequence.
Result<Rational> token_bytes(const ModelConfig& model, const GeometryOptions& options = {});
Result<Rational> sequence_bytes(const ModelConfig& model, std::uint64_t tokens,
                                const GeometryOptions& options = {});

// Bytes per token and layer. REQUIRES: layers that are all alike.
Result<Rational> layer_bytes(const ModelConfig& model, const GeometryOptions& options = {});

// FLOP per byte of a decode step in bf16.
Result<Rational> decode_intensity(const ModelConfig& model);

// Quotients of Results: the first failure of the two is handed on. `saved_part`: 1 - small / large,
// of whole numbers. REQUIRES: a divisor that is not 0, small <= large.
Result<Rational> ratio(const Result<Rational>& a, const Result<Rational>& b);
Result<Rational> saved_part(const Result<Rational>& small, const Result<Rational>& large);

}  // namespace emblema
