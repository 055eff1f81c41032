// What a model's class fixes about its weights that its config.json does not say: which projections
// have a bias, how many norms a layer has, whether queries and keys are normalised.
//
// One row per model_type whose weights are counted; a type that model_family.h knows and that has
// no row here is not counted at all, because a guess would be an undercount. Sources: the modelling
// classes of transformers, and of the models' own repositories where transformers has none.
// plan/weights_test.cc holds them to published totals.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace emblema {

// Learned scales on queries and keys before their product.
enum class QkNorm {
  kNone,
  kPerHead,  // one vector of a head's width for queries, one for keys
  kWhole,    // vectors as wide as all heads
};

// What stands around the layers of a draft (MTP) module.
enum class DraftRule {
  kUnknown,     // drafts are not counted
  kDeepSeek,    // a copy of the last layer, a projection of 2 x hidden to hidden, three norms
  kLongCat,     // the same, and an embedding of its own
  kDeepSeekV4,  // a layer with a window alone, two projections, three norms, mixed streams
};

struct WeightClass {
  std::string_view model_type;  // "" for an unknown one: a block of Llama is assumed
  std::uint32_t norms = 2;      // vectors of hidden width in one layer
  bool gated = true;            // an MLP has three matrices, else two
  bool tied = false;            // tie_word_embeddings when the config does not say
  bool qkv_bias = false;        // attention_bias when the config does not say
  bool output_bias = true;      // attention_bias reaches the output projection
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_by_flag = false;  // only where use_qk_norm is true
  bool output_gate = false;      // the query projection is twice as wide: a gate beside it
  bool shared_gate = false;      // a vector gates the shared expert
  bool correction_bias = false;  // a number for each routed expert corrects the router's choice
  bool expert_bias = false;      // experts and router have biases
  bool mixer_norm = false;       // Mamba-2: a norm before the output projection
  bool dense_beside_experts = false;  // a layer with a mixture has a dense MLP, too
  std::uint32_t experts_every = 1;    // a mixture in layers 0, N, 2N ...
  std::uint32_t router_bytes = 0;     // of one of the router's numbers; 0: the model's data type
  bool scaled_router = false;         // Gemma-4: scales of its input and of each expert
  std::uint32_t expert_norms = 0;     // more vectors of hidden width where there is a mixture
  bool layer_scale = false;           // one number scales a layer's output
  bool shares_blocks = false;         // Zamba2: layers that attend use blocks that they share
  bool alternates = false;            // Gemma-3n: several streams and a low-rank residual
  bool unused_keys = false;  // layers that read another's keys have projections of their own
  std::uint32_t extra_embeddings = 0;  // rows of the embedding behind vocab_size
  DraftRule drafts = DraftRule::kUnknown;
  bool drafts_unsaid = false;  // checkpoints have drafts that their config.json does not count
};

// The row of `model_type`; for a type that nobody knows the row of Llama, without its name; for one
// that model_family.h knows but that has no row: nullopt.
std::optional<WeightClass> find_weight_class(std::string_view model_type);

}  // namespace emblema
