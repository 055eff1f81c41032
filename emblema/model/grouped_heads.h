// Head counts and widths of attention that caches keys and values per KV head.
#pragma once

#include <cstdint>
#include <vector>

#include "emblema/model/config_fields.h"
#include "emblema/model/model_family.h"

namespace emblema {

struct GroupedHeads {
  std::uint64_t attention_heads = 0;
  std::uint64_t key_value_heads = 0;
  std::uint64_t head_dim = 0;
  std::uint64_t v_head_dim = 0;
};

// Query heads per layer (a number or a list, under any of their names); `is_decoder`: the decoder's
// own names come first. Empty on a problem.
std::vector<std::uint64_t> read_attention_heads(const ConfigFields& fields, std::uint64_t layers,
                                                bool is_decoder);

// One entry per layer. `is_local` has one entry per layer: MiMo-V2, Step-3.5 and Baichuan-M1 give
// their sliding layers heads of their own, Gemma-4 its full ones. `attends` has one entry per
// layer: a layer that does not has no heads. Empty on a problem, which is recorded in `fields`.
std::vector<GroupedHeads> read_grouped_heads(const ConfigFields& fields, const ModelFamily& family,
                                             std::uint64_t hidden_size,
                                             const std::vector<std::uint64_t>& attention_heads,
                                             const std::vector<bool>& attends,
                                             const std::vector<bool>& is_local);

}  // namespace emblema
