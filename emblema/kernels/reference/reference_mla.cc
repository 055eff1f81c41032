#include "emblema/kernels/reference/reference_mla.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace emblema {
namespace {

// matrix [outputs][input.size()] times input.
std::vector<double> multiply(std::span<const double> matrix, std::span<const double> input) {
  std::vector<double> result(matrix.size() / input.size(), 0.0);
  for (std::size_t row = 0; row < result.size(); ++row) {
    for (std::size_t c = 0; c < input.size(); ++c) {
      result[row] += matrix[row * input.size() + c] * input[c];
    }
  }
  return result;
}

std::vector<double> rms_norm(std::vector<double> x, std::span<const double> gain, double epsilon) {
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= inverse * gain[i];
  return x;
}

AttentionShape latent_shape(const MlaWeights& weights, const RopeTable& rope) {
  AttentionShape shape;
  shape.kind = RowKind::kLatent;
  shape.query_heads = weights.heads;
  shape.kv_heads = 1;
  shape.key_dim = weights.latent_rank + weights.rope_dim;
  shape.value_dim = weights.latent_rank;
  shape.scale = weights.scale;
  shape.rotary_offset = weights.latent_rank;
  shape.rope = &rope;
  return shape;
}

std::span<const double> head_block(std::span<const double> matrix, std::uint32_t head,
                                   std::size_t size) {
  return matrix.subspan(head * size, size);
}

// W_UK,i^T q_n,i beside q_r,i: [heads][latent_rank + rope_dim].
std::vector<double> absorbed_query(const MlaWeights& weights, std::span<const double> query) {
  const std::size_t rank = weights.latent_rank;
  const std::size_t query_width = weights.nope_dim + weights.rope_dim;
  const std::size_t width = rank + weights.rope_dim;
  std::vector<double> absorbed(weights.heads * width, 0.0);
  for (std::uint32_t head = 0; head < weights.heads; ++head) {
    const std::span<const double> up = head_block(weights.key_up, head, weights.nope_dim * rank);
    const std::span<const double> q = head_block(query, head, query_width);
    double* to = absorbed.data() + head * width;
    for (std::size_t n = 0; n < weights.nope_dim; ++n) {
      for (std::size_t r = 0; r < rank; ++r) to[r] += up[n * rank + r] * q[n];
    }
    for (std::size_t c = 0; c < weights.rope_dim; ++c) to[rank + c] = q[weights.nope_dim + c];
  }
  return absorbed;
}

// The up-projections and the widths that they have.
struct UpProjections {
  std::uint32_t heads = 0;
  std::size_t rank = 0;
  std::size_t nope_dim = 0;
  std::size_t rope_dim = 0;
  std::span<const double> key_up;
  std::span<const double> value_up;
};

// Appends one token: k_i = [W_UK,i c ; k_r], v_i = W_UV,i c for all heads.
void append_expanded(const UpProjections& up, std::span<const double> row, ReferenceRows& to) {
  const std::span<const double> latent = row.first(up.rank);
  const std::span<const double> rope_key = row.subspan(up.rank, up.rope_dim);
  const std::vector<double> nope_keys = multiply(up.key_up, latent);
  for (std::uint32_t head = 0; head < up.heads; ++head) {
    const auto nope = head_block(nope_keys, head, up.nope_dim);
    to.keys.insert(to.keys.end(), nope.begin(), nope.end());
    to.keys.insert(to.keys.end(), rope_key.begin(), rope_key.end());
  }
  const std::vector<double> values = multiply(up.value_up, latent);
  to.values.insert(to.values.end(), values.begin(), values.end());
}

// Sum of p c per head: [heads][latent_rank].
std::vector<double> attended_latents(const MlaWeights& weights, const RopeTable& rope,
                                     std::span<const double> hidden, std::int64_t position,
                                     std::span<const double> rows,
                                     std::span<const ReferenceRows::Place> places) {
  const AttentionShape shape = latent_shape(weights, rope);
  ReferenceRows cached;
  cached.places.assign(places.begin(), places.end());
  cached.keys.assign(rows.begin(), rows.end());
  for (std::size_t j = 0; j < places.size(); ++j) {
    const std::span<const double> row = rows.subspan(j * shape.key_dim, shape.value_dim);
    cached.values.insert(cached.values.end(), row.begin(), row.end());
  }
  const std::vector<double> query =
      absorbed_query(weights, mla_query(weights, rope, hidden, position));
  std::vector<double> latents(std::size_t{shape.query_heads} * shape.value_dim);
  std::vector<double> lse(shape.query_heads);
  reference_query(shape, cached, query, position, latents, lse);
  return latents;
}

}  // namespace

std::vector<double> mla_row(const MlaWeights& weights, const RopeTable& rope,
                            std::span<const double> hidden, std::int64_t position) {
  std::vector<double> row =
      rms_norm(multiply(weights.latent_down, hidden), weights.latent_norm, weights.norm_epsilon);
  std::vector<double> rope_key = multiply(weights.rope_key, hidden);
  rope.rotate(rope_key, position);
  row.insert(row.end(), rope_key.begin(), rope_key.end());
  return row;
}

std::vector<double> mla_query(const MlaWeights& weights, const RopeTable& rope,
                              std::span<const double> hidden, std::int64_t position) {
  std::vector<double> compressed(hidden.begin(), hidden.end());
  if (weights.query_rank > 0) {
    compressed =
        rms_norm(multiply(weights.query_down, hidden), weights.query_norm, weights.norm_epsilon);
  }
  std::vector<double> query = multiply(weights.query_up, compressed);
  const std::size_t width = weights.nope_dim + weights.rope_dim;
  for (std::uint32_t head = 0; head < weights.heads; ++head) {
    rope.rotate(std::span(query).subspan(head * width + weights.nope_dim, weights.rope_dim),
                position);
  }
  return query;
}

std::vector<double> mla_expanded(const MlaWeights& weights, const RopeTable& rope,
                                 std::span<const double> hidden, std::int64_t position,
                                 std::span<const double> rows,
                                 std::span<const ReferenceRows::Place> places) {
  AttentionShape shape;
  shape.query_heads = weights.heads;
  shape.kv_heads = weights.heads;
  shape.key_dim = weights.nope_dim + weights.rope_dim;
  shape.value_dim = weights.value_dim;
  shape.scale = weights.scale;
  shape.rotary_offset = weights.nope_dim;
  shape.rope = &rope;
  ReferenceRows expanded;
  expanded.places.assign(places.begin(), places.end());
  const UpProjections up = {weights.heads,    weights.latent_rank, weights.nope_dim,
                            weights.rope_dim, weights.key_up,      weights.value_up};
  const std::size_t row_width = weights.latent_rank + weights.rope_dim;
  for (std::size_t j = 0; j < places.size(); ++j) {
    append_expanded(up, rows.subspan(j * row_width, row_width), expanded);
  }
  std::vector<double> heads(std::size_t{weights.heads} * weights.value_dim);
  std::vector<double> lse(weights.heads);
  reference_query(shape, expanded, mla_query(weights, rope, hidden, position), position, heads,
                  lse);
  return multiply(weights.output, heads);
}

std::vector<double> mla_absorbed(const MlaWeights& weights, const RopeTable& rope,
                                 std::span<const double> hidden, std::int64_t position,
                                 std::span<const double> rows,
                                 std::span<const ReferenceRows::Place> places) {
  const std::vector<double> latents =
      attended_latents(weights, rope, hidden, position, rows, places);
  std::vector<double> heads;
  for (std::uint32_t head = 0; head < weights.heads; ++head) {
    const std::size_t size = std::size_t{weights.value_dim} * weights.latent_rank;
    const std::vector<double> value = multiply(head_block(weights.value_up, head, size),
                                               head_block(latents, head, weights.latent_rank));
    heads.insert(heads.end(), value.begin(), value.end());
  }
  return multiply(weights.output, heads);
}

std::vector<double> mla_output_product(const MlaWeights& weights) {
  const std::size_t rank = weights.latent_rank;
  const std::size_t values = weights.value_dim;
  std::vector<double> product(std::size_t{weights.heads} * weights.hidden_size * rank, 0.0);
  for (std::size_t head = 0; head < weights.heads; ++head) {
    for (std::size_t d = 0; d < weights.hidden_size; ++d) {
      double* to = product.data() + (head * weights.hidden_size + d) * rank;
      for (std::size_t v = 0; v < values; ++v) {
        const double factor = weights.output[(d * weights.heads + head) * values + v];
        const double* up = weights.value_up.data() + (head * values + v) * rank;
        for (std::size_t r = 0; r < rank; ++r) to[r] += factor * up[r];
      }
    }
  }
  return product;
}

std::vector<double> mla_absorbed_both(const MlaWeights& weights, const RopeTable& rope,
                                      std::span<const double> output_product,
                                      std::span<const double> hidden, std::int64_t position,
                                      std::span<const double> rows,
                                      std::span<const ReferenceRows::Place> places) {
  const std::vector<double> latents =
      attended_latents(weights, rope, hidden, position, rows, places);
  std::vector<double> output(weights.hidden_size, 0.0);
  for (std::uint32_t head = 0; head < weights.heads; ++head) {
    const std::size_t size = std::size_t{weights.hidden_size} * weights.latent_rank;
    const std::vector<double> part = multiply(head_block(output_product, head, size),
                                              head_block(latents, head, weights.latent_rank));
    for (std::size_t d = 0; d < output.size(); ++d) output[d] += part[d];
  }
  return output;
}

Status reference_prefill(const AttentionInputs& inputs, const LatentExpansion& expansion,
                         std::span<double> out, std::span<double> lse) {
  if (auto s = check_prefill_inputs(inputs, expansion, out.size(), lse.size()); !s) return s;
  std::fill(out.begin(), out.end(), 0.0);
  std::fill(lse.begin(), lse.end(), -std::numeric_limits<double>::infinity());
  const AttentionShape& stored = inputs.shape;
  const std::vector<double> key_up(expansion.key_up.begin(), expansion.key_up.end());
  const std::vector<double> value_up(expansion.value_up.begin(), expansion.value_up.end());
  const UpProjections up = {stored.query_heads,
                            stored.value_dim,
                            expansion.content_dim,
                            stored.key_dim - stored.value_dim,
                            key_up,
                            value_up};
  AttentionShape shape = stored;
  shape.kind = RowKind::kGrouped;
  shape.kv_heads = shape.query_heads;
  shape.key_dim = static_cast<std::uint32_t>(up.nope_dim + up.rope_dim);
  shape.value_dim = expansion.value_dim;
  shape.rotary_offset = expansion.content_dim + stored.rotary_offset - stored.value_dim;
  const std::size_t query_width = std::size_t{shape.query_heads} * shape.key_dim;
  const std::size_t out_width = std::size_t{shape.query_heads} * shape.value_dim;
  for (const SequenceInputs& sequence : inputs.sequences) {
    const ReferenceRows latents = reference_rows(inputs, sequence);
    ReferenceRows expanded;
    expanded.places = latents.places;
    for (std::size_t j = 0; j < latents.places.size(); ++j) {
      append_expanded(up, std::span(latents.keys).subspan(j * stored.key_dim, stored.key_dim),
                      expanded);
    }
    for (std::uint64_t i = 0; i < sequence.queries; ++i) {
      const std::uint64_t token = sequence.first_query + i;
      const float* q = inputs.q + token * query_width;
      const std::vector<double> query(q, q + query_width);
      reference_query(shape, expanded, query,
                      sequence.query_position + static_cast<std::int64_t>(i),
                      out.subspan(token * out_width, out_width),
                      lse.subspan(token * shape.query_heads, shape.query_heads));
    }
  }
  reference_finish(out, lse, inputs.sinks);
  return {};
}

}  // namespace emblema
