#include "emblema/layer/prefill.h"

#include <fmt/format.h>

namespace emblema {

Status prefill(const AttentionLayer& layer, AttentionForm form, std::span<const float> queries,
               const SequenceInputs& sequence, const PagedRows& rows, std::span<float> out,
               std::span<float> lse, const AttentionOptions& options) {
  const LayerDims& dims = layer.dims();
  const std::uint64_t tokens = lse.size() / dims.query_heads;
  const std::uint64_t query_width = dims.query_heads * dims.query_dim(form);
  if (queries.size() / query_width != tokens || queries.size() % query_width != 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("queries and lse have {} and {} numbers; allowed: n x {} and n x {}",
                            queries.size(), lse.size(), query_width, dims.query_heads));
  }
  AttentionInputs inputs;
  inputs.shape = layer.shape();
  inputs.rows = rows;
  inputs.q = queries.data();
  inputs.tokens = tokens;
  inputs.sequences = {&sequence, 1};
  inputs.sinks = layer.sinks();
  if (!dims.is_latent() || form == AttentionForm::kAbsorbed) {
    return prefill_attention(inputs, out, lse, nullptr, options);
  }
  LatentExpansion expansion;
  expansion.key_up = layer.weights().key_up;
  expansion.value_up = layer.weights().value_up;
  expansion.content_dim = static_cast<std::uint32_t>(dims.content_dim);
  expansion.value_dim = static_cast<std::uint32_t>(dims.value_dim);
  return prefill_attention(inputs, out, lse, &expansion, options);
}

PrefillCost prefill_cost(const LayerDims& dims, std::uint64_t queries, std::uint64_t keys) {
  const auto heads = static_cast<double>(dims.query_heads);
  const auto tail = static_cast<double>(dims.tail_dim);
  const auto latent = static_cast<double>(dims.latent_dim);
  const auto widths = static_cast<double>(dims.content_dim + dims.value_dim);
  const auto n = static_cast<double>(queries);
  const auto m = static_cast<double>(keys);
  const double expanded = heads * (m * latent * widths + n * m * (widths + tail));
  if (!dims.is_latent()) return {expanded, expanded};
  return {expanded, heads * (n * latent * widths + n * m * (2 * latent + tail))};
}

}  // namespace emblema
