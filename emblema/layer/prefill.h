// Attention of many new tokens of one sequence, in the form that a layer chose: prefill_attention
// (kernels/attention.h) with the layer's weights.
#pragma once

#include <cstdint>
#include <span>

#include "emblema/contract/result.h"
#include "emblema/kernels/attention.h"
#include "emblema/layer/attention_layer.h"
#include "emblema/layout/attention_inputs.h"

namespace emblema {

// The contract of prefill_attention for one sequence:
//   queries [tokens][query_heads][query_dim(form)], as project() gives them
//   out     [tokens][query_heads][result_dim(form)]
//   lse     [tokens][query_heads], natural logarithm, without the sinks
// Invalid, before any work: sizes that do not fit, and what check_attention_inputs refuses.
// Unsupported: delta != 0 where the rotary frequencies depend on the length.
[[nodiscard]] Status prefill(const AttentionLayer& layer, AttentionForm form,
                             std::span<const float> queries, const SequenceInputs& sequence,
                             const PagedRows& rows, std::span<float> out, std::span<float> lse,
                             const AttentionOptions& options = {});

// Multiplications per layer for `queries` new tokens over `keys` rows, all visible, from the
// unabsorbed queries to the result per head [H][value_dim]:
//   expanded  keys H r (d_n + d_v)  +  queries keys H (d_n + d_r + d_v)
//   absorbed  queries H r (d_n + d_v)  +  queries keys H (2 r + d_r)
// In double: they steer a choice. Equal for grouped layers.
struct PrefillCost {
  double expanded = 0;
  double absorbed = 0;

  AttentionForm cheaper() const {
    return absorbed < expanded ? AttentionForm::kAbsorbed : AttentionForm::kExpanded;
  }
};
PrefillCost prefill_cost(const LayerDims& dims, std::uint64_t queries, std::uint64_t keys);

}  // namespace emblema
