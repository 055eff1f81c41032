// The weights of one attention layer, fp32, seeded.
//
// These are not a trained model's: they have a model's true shapes, values that are the same bits
// on every machine (seeded_values.h), and a variance of 1 / fan-in, so that a hidden state of
// variance 1 gives queries, keys and values of variance about 1. What real checkpoints add beyond
// the geometry (biases, per-head query and key norms) is left out.
//
// One copy of each matrix: absorption reads W_UK and W_UV as they are. Owned by the layer, read
// only after creation; any thread may read.
#pragma once

#include <cstdint>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/layer/layer_dims.h"

namespace emblema {

// Matrices are [out][in], row-major: y = W x. d = hidden, H = query heads, r = latent_dim.
struct LayerWeights {
  std::vector<float> query_down;   // W_DQ [query_rank][d]; empty without q_lora_rank
  std::vector<float> query_norm;   // gain of c_q [query_rank]; empty without
  std::vector<float> query_up;     // W_UQ [H * head_key_dim][query_rank or d]
  std::vector<float> row_down;     // what a row is made of, [row_elements][d]:
                                   // kLatent [W_DKV ; W_KR], kGrouped [W_K ; W_V]
  std::vector<float> latent_norm;  // gain of c_kv [r]; kLatent
  std::vector<float> key_up;       // W_UK [H * content_dim][r]; kLatent
  std::vector<float> value_up;     // W_UV [H * value_dim][r]; kLatent
  std::vector<float> output;       // W_O [d][H * value_dim]
  std::vector<float> sinks;        // raw logits [H]; empty without sinks

  // `layer` separates the streams of a stack's layers.
  // Io: the system gave no memory, naming the bytes.
  static Result<LayerWeights> seeded(const LayerDims& dims, bool has_sinks, std::uint64_t seed,
                                     std::uint32_t layer);
};

// What seeded() will take, so that a caller can compare it with the machine beforehand.
// Invalid: past 64 bits, or widths that LayerDims refuses.
Result<std::uint64_t> weight_bytes(const ModelConfig& model, const LayerGeometry& layer);

}  // namespace emblema
