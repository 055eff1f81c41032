// The widths of one attention layer, checked against each other once.
//
// Glossary
//   content part  the channels of a latent layer's query or key that carry no rotation
//                 (qk_nope_head_dim); a grouped key is all content, its rotary channels within
//   rotary tail   the channels after it (qk_rope_head_dim), whose key is shared by all heads
//   row           what the cache remembers of one token: [c_kv][k_rope], or [keys][values]
//   form          how a latent layer's attention is written (DeepSeek-V2, arXiv 2405.04434, 2.1):
//                 expanded: keys and values per head, made from the latents by W_UK and W_UV;
//                 absorbed: W_UK inside the query, so that the latents are keys and values as they
//                 are. Grouped layers have one form: both names mean the same there.
// Plain values; any thread may read.
#pragma once

#include <cstdint>

#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/layout/attention_inputs.h"
#include "emblema/model/model_config.h"

namespace emblema {

enum class AttentionForm { kExpanded, kAbsorbed };

struct LayerDims {
  RowKind kind = RowKind::kGrouped;
  std::uint64_t hidden = 0;  // width of the hidden state
  std::uint64_t query_heads = 0;
  std::uint64_t kv_heads = 0;     // 1 with kLatent
  std::uint64_t content_dim = 0;  // per head; kGrouped: the whole key
  std::uint64_t tail_dim = 0;     // kLatent: the rotary tail, may be 0; kGrouped: 0
  std::uint64_t value_dim = 0;    // per head, expanded
  std::uint64_t latent_dim = 0;   // kLatent: kv_lora_rank; kGrouped: 0
  std::uint64_t query_rank = 0;   // kLatent: q_lora_rank; 0: queries straight from the hidden state
  double norm_eps = 0;

  // Invalid: a width that is 0, past ConfigLimits, or does not fit another (names both).
  // Unsupported: an attention family or stream that has no projections here (names it).
  static Result<LayerDims> from(const ModelConfig& model, const LayerGeometry& layer);

  bool is_latent() const { return kind == RowKind::kLatent; }
  std::uint64_t head_key_dim() const { return content_dim + tail_dim; }

  // Numbers in a cache row.
  std::uint64_t row_elements() const {
    return is_latent() ? latent_dim + tail_dim : kv_heads * (content_dim + value_dim);
  }
  // Width of one head's query, and of its share of the attention's result.
  std::uint64_t query_dim(AttentionForm form) const {
    return is_latent() && form == AttentionForm::kAbsorbed ? latent_dim + tail_dim : head_key_dim();
  }
  std::uint64_t result_dim(AttentionForm form) const {
    return is_latent() && form == AttentionForm::kAbsorbed ? latent_dim : value_dim;
  }
};

}  // namespace emblema
