// Rotary facts of one kind of layer, out of rope_scaling, rope_parameters and their relatives.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emblema/model/config_fields.h"
#include "emblema/model/model_family.h"
#include "emblema/model/rope_facts.h"

namespace emblema {

// How this model tells positions apart; fields win over the family.
Positions read_positions(const ConfigFields& fields, const ModelFamily& family,
                         std::uint64_t hidden_size);

// Per layer: does it rotate? (NoPE layers: no_rope_layers, no_rope_layer_interval.) Empty on a
// problem. `is_local` has one entry per layer.
std::vector<bool> read_rotating_layers(const ConfigFields& fields, const ModelFamily& family,
                                       const std::vector<bool>& is_local);

struct RopeQuestion {
  bool is_local = false;            // a sliding layer: several models give it a base of its own
  std::uint64_t width = 0;          // head_dim, or qk_rope_head_dim where `whole_width`
  bool whole_width = false;         // MLA, DeepSeek-V4: all of `width` rotates
  std::uint64_t max_positions = 0;  // 0: unknown
};

// nullopt: a problem, recorded in `fields`.
std::optional<RopeFacts> read_rope(const ConfigFields& fields, const ModelFamily& family,
                                   const RopeQuestion& question);

// DeepSeek-V4: window-only layers (compress_ratio 0) rotate by rope_theta without YaRN; compressed
// layers by compress_rope_theta with YaRN, cos and sin left at amplitude 1.
std::optional<RopeFacts> read_compressed_rope(const ConfigFields& fields, const ModelFamily& family,
                                              const RopeQuestion& question,
                                              std::uint64_t compress_ratio);

// Applies rope_theta and partial_rotary_factors where they are lists with one number per layer
// (Step-3.5). `facts` has one entry per layer of width `width`.
void apply_rope_lists(const ConfigFields& fields, std::uint64_t width,
                      std::vector<RopeFacts*> facts);

}  // namespace emblema
