// Which layers of a model slide or attend in chunks, and by how much: one rule out of the many that
// configs use.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "emblema/model/config_fields.h"
#include "emblema/model/model_family.h"

namespace emblema {

struct LayerWindow {
  bool is_local = false;  // the class calls it sliding: it decides on rope and head counts
  std::uint64_t window_tokens = 0;  // 0: sees everything before it
  bool is_chunk = false;            // window_tokens is the length of a chunk (Llama 4)
};

// One entry per layer. In this order: layer_types, hybrid_layer_pattern or a list of indices, an
// explicit pattern, the rule of the family. A window that no position can fill (>= max_positions,
// when known) counts as full, with a note. On a problem (recorded in `fields`) the result is empty.
std::vector<LayerWindow> read_layer_windows(const ConfigFields& fields, const ModelFamily& family,
                                            std::uint64_t layers, std::uint64_t max_positions);

}  // namespace emblema
