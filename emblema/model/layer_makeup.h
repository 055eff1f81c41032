// What each layer of a model is made of: attention, a recurrent mixer, both, or neither. One rule
// out of the many that hybrid models' configs use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/model/config_fields.h"
#include "emblema/model/model_config.h"
#include "emblema/model/model_family.h"

namespace emblema {

struct LayerMakeup {
  bool attends = true;
  RecurrentMixer mixer = RecurrentMixer::kNone;
};

// One entry per layer. In this order: hybrid_override_pattern (a letter per layer), a word per
// layer (layers_block_type, layer_types), block_configs, lists of indices (linear_attn_config,
// attn_layer_indices ...), a mark per layer (attn_type_list), a period, the rule of the class.
// Empty on a problem, which is recorded in `fields`.
std::vector<LayerMakeup> read_layer_makeup(const ConfigFields& fields, const ModelFamily& family,
                                           std::uint64_t layers);

// A word of layer_types or layers_block_type.
struct LayerWord {
  std::string_view name;
  bool attends = false;
  bool slides = false;
  bool is_chunked = false;
  bool is_recurrent = false;
  bool is_indexed = false;  // attends to what an index of its own picks: layer_indexers.h
};

// nullptr, with a problem recorded: no string, or a word that nobody here knows.
const LayerWord* read_layer_word(const ConfigFields& fields, const JsonValue& word,
                                 const std::string& path);

// The layers that a list of indices names, from `first` (0 or 1) on. Absent or wrong: empty.
std::vector<bool> read_layer_set(const ConfigFields& fields, std::string_view key,
                                 std::uint64_t first, std::uint64_t layers);

}  // namespace emblema
