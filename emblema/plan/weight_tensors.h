// The weight matrices of one layer as one rank holds them: the shapes that plan/weights.h counts.
//
// A row is an output, a column an input; a vector has one row. Plain values; any thread may call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/model/model_config.h"

namespace emblema {

struct WeightTensor {
  std::string_view part;    // "attention", "experts" ...
  std::string_view module;  // its name within the layer, "self_attn.q_proj"
  std::uint64_t copies = 1;
  std::uint64_t rows = 1;
  std::uint64_t columns = 1;
  bool linear = false;      // a quantised checkpoint may store it in fewer bits
  std::uint32_t bytes = 0;  // of one number that is always stored so; 0: the model's data type
};

// How layers are divided among ranks.
struct TensorDivision {
  std::uint32_t tensor = 1;         // ranks that share heads and MLP columns
  std::uint32_t experts = 1;        // ranks that share the routed experts, whole
  std::uint32_t expert_tensor = 1;  // ranks that share the columns of one expert
};

// Heads and columns are divided and rounded up, so that the fullest rank is meant; KV heads are
// replicated once there are fewer than ranks; what cannot be divided (latents' down-projections,
// norms, routers) is on every rank.
// REQUIRES: model.weights; layer < model.layers.size(); no division is 0.
// Unsupported: a mixer or an attention whose weights are not counted.
Result<std::vector<WeightTensor>> layer_tensors(const ModelConfig& model, std::uint32_t layer,
                                                const TensorDivision& division);

// A block of attention and MLP that `layer` shares with others (Zamba2); each rank holds its part
// of each block once. REQUIRES: model.weights->shared_blocks; the layer attends.
std::vector<WeightTensor> shared_block_tensors(const ModelConfig& model, std::uint32_t layer,
                                               const TensorDivision& division);

// One draft (MTP) layer with what stands around it; the embedding and head that it shares with the
// model are not in it. Unsupported: a class whose drafts are not counted.
Result<std::vector<WeightTensor>> draft_tensors(const ModelConfig& model,
                                                const TensorDivision& division);

// The embedding, divided by rows among `ranks`, Gemma-3n's and Gemma-4's embeddings of each layer,
// and what makes Gemma-3n's further streams of it.
std::vector<WeightTensor> first_tensors(const ModelConfig& model, std::uint32_t ranks);

// What stands between the last layer and the head: the final norm, and how DeepSeek-V4's and
// Gemma-3n's streams become one.
std::vector<WeightTensor> final_tensors(const ModelConfig& model);

}  // namespace emblema
