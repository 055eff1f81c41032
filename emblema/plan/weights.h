// How many weights a model has, and how many bytes of them one rank holds, counted from its config.
//
// An estimate, and said to be one: shapes come from the config and from what the model's class is
// known to have (model/weight_class.h); a checkpoint's own index (model/weight_index.h) is exact
// where there is one. What is not known is refused, never left out: weights that are missing here
// would be memory that is promised twice. It is the language part alone: vision and audio towers
// are not counted, nor what engines add, workspaces and padding.
//
// Exact integers throughout. Plain values; any thread may call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/model/model_config.h"

namespace emblema {

// Weights of one kind.
struct WeightPart {
  std::string name;              // "embedding", "attention", "experts", "head" ...
  std::uint64_t parameters = 0;  // scales of quantised weights are not parameters
  std::uint64_t bytes = 0;       // scales included
  std::string formula;           // "58 x 512 x 2048 x 7168 + 58 x 256 x 7168 x 2048"
};

// One rank's share. As it stands: the whole model without its draft layers.
struct WeightSplit {
  std::uint32_t tensor = 1;           // ranks that share heads, MLP columns and vocabulary
  std::uint32_t first_layer = 0;      // of this pipeline stage
  std::uint32_t layers = 0;           // 0: all from first_layer on
  bool has_embedding = true;          // the first stage
  bool has_head = true;               // the last stage: final norm and head
  bool has_drafts = false;            // the last stage, where drafts are loaded
  std::uint32_t expert_parallel = 1;  // ranks that share the routed experts, each expert whole;
                                      // fewer than `tensor`: an expert's columns are divided among
                                      // tensor / expert_parallel
};

struct WeightsEstimate {
  std::uint64_t parameters = 0;
  std::uint64_t active_parameters = 0;  // without the experts that a token does not visit
  std::uint64_t bytes = 0;
  std::vector<WeightPart> parts;   // in the order of the model
  std::string formula;             // one line: the sum, and how weights are stored
  std::vector<std::string> notes;  // what is not in it, one line each
};

// What the fullest rank of that share holds.
// Unsupported: a field is missing (names it), a layer, mixer or quantisation that is not counted;
// each says to give --weights. Invalid: a share that is no share (names the field), a sum past 64
// bits.
Result<WeightsEstimate> estimate_weights(const ModelConfig& model, const WeightSplit& split);

// A measured total, divided as the estimate divides: total x rank / whole, rounded up, exact.
// Invalid: whole is 0, or rank is more than whole.
Result<std::uint64_t> share_of_total(std::uint64_t total_bytes, std::uint64_t whole_estimate_bytes,
                                     std::uint64_t rank_estimate_bytes);

}  // namespace emblema
