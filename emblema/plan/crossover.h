// Grouped heads against latents under tensor parallelism: from which degree on a grouped model
// holds more tokens in the same memory per rank.
//
// A rank keeps max(1, KV heads / degree) of a grouped model's heads and the whole latent of an MLA
// model. With c the bytes per token at degree 1, grouped heads hold more once
//
//   min(degree, KV heads) > c_grouped / c_latent
//
// The ratio is the real-valued crossover; a degree is valid where it divides the query heads of
// every attending layer of both models, and the KV heads or is divided by them. Past the KV heads
// nothing shards any more, and the crossover may not exist.
//
// This isolates the layout of the cache: the pool per rank is the same for both and for every
// degree, while in a deployment weights shrink with the degree too. Counted are bytes that grow
// with the context, token-exact; windows and state are not.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"

namespace emblema {

// One valid degree.
struct TensorDegree {
  std::uint32_t degree = 1;
  Rational grouped_bytes_per_token;  // of one rank
  Rational latent_bytes_per_token;
  std::uint64_t grouped_tokens = 0;  // that one rank's pool holds
  std::uint64_t latent_tokens = 0;
};

struct TensorCrossover {
  Rational real_degree;                       // c_grouped / c_latent
  std::optional<std::uint32_t> first_degree;  // valid, and grouped holds more; none: never
  std::vector<TensorDegree> degrees;          // valid for both models, ascending, 1 included
};

// Both geometries are whole models (tensor degree 1). Degrees up to 1024 are considered.
// Invalid: a model whose cache does not grow, or a figure past 64 bits.
Result<TensorCrossover> tensor_crossover(const ModelGeometry& grouped, const ModelGeometry& latent,
                                         std::uint64_t pool_bytes_per_rank);

// Bytes per token that one of `degree` ranks keeps: sharded streams by KV heads, others whole.
// Invalid: a degree that is not valid for the model; names the heads.
Result<Rational> rank_bytes_per_token(const ModelGeometry& whole, std::uint32_t degree);

// Parameters of W_K and W_V of all layers with a cache of their own.
struct KeyValueWeights {
  std::uint64_t parameters = 0;  // hidden x KV heads x (key dim + value dim) per layer
  std::uint64_t ungrouped = 0;   // the same with as many KV heads as query heads
  std::uint64_t saved() const { return ungrouped - parameters; }
};

// Unsupported: latents, which have other projections. Invalid: a model that does not say its hidden
// size, or a figure past 64 bits.
Result<KeyValueWeights> key_value_weights(const ModelConfig& model);

}  // namespace emblema
