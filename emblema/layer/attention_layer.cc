#include "emblema/layer/attention_layer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "emblema/kernels/append.h"
#include "emblema/layer/gemm.h"
#include "emblema/layer/rms_norm.h"

namespace emblema {
namespace {

// Scratch only grows: what a larger call left behind is not touched again.
float* grown(std::vector<float>& memory, std::uint64_t count) {
  if (memory.size() < count) memory.resize(count);
  return memory.data();
}

ConstMatrix weights_of(const std::vector<float>& weights, std::uint64_t out, std::uint64_t in) {
  return {weights.data(), out, in, in};
}

}  // namespace

Result<AttentionLayer> AttentionLayer::create(const ModelConfig& model, const LayerGeometry& layer,
                                              const LayerOptions& options) {
  const Result<LayerDims> dims = LayerDims::from(model, layer);
  if (!dims) return propagate(dims);
  AttentionLayer made;
  if (layer.has_rope) {
    Result<RopeTable> rope = RopeTable::from(layer.rope, layer.max_positions);
    if (!rope) return propagate(rope);
    made.rope_ = *std::move(rope);
  }
  Result<LayerWeights> weights =
      LayerWeights::seeded(*dims, layer.has_sinks, options.seed, layer.index);
  if (!weights) return propagate(weights);
  made.dims_ = *dims;
  made.weights_ = *std::move(weights);
  made.scale_ = layer.scale;
  made.softcap_ = layer.softcap;
  made.window_tokens_ = layer.window_tokens;
  made.chunk_tokens_ = layer.chunk_tokens;
  made.threads_ = options.threads;
  return made;
}

AttentionShape AttentionLayer::shape() const {
  AttentionShape shape;
  shape.kind = dims_.kind;
  shape.query_heads = static_cast<std::uint32_t>(dims_.query_heads);
  shape.kv_heads = static_cast<std::uint32_t>(dims_.kv_heads);
  shape.key_dim = static_cast<std::uint32_t>(dims_.query_dim(AttentionForm::kAbsorbed));
  shape.value_dim = static_cast<std::uint32_t>(dims_.result_dim(AttentionForm::kAbsorbed));
  shape.scale = scale_;
  shape.softcap = softcap_;
  shape.window_tokens = window_tokens_;
  shape.chunk_tokens = chunk_tokens_;
  shape.rotary_offset = dims_.is_latent() ? shape.value_dim : 0;
  shape.rope = &rope_;
  return shape;
}

void AttentionLayer::project_queries(std::span<const float> hidden, std::uint64_t count,
                                     LayerScratch& scratch) const {
  const std::uint64_t width = dims_.query_heads * dims_.head_key_dim();
  ConstMatrix in{hidden.data(), count, dims_.hidden, dims_.hidden};
  if (dims_.query_rank > 0) {
    const std::uint64_t rank = dims_.query_rank;
    float* low_rank = grown(scratch.low_rank, count * rank);
    multiply_by_transpose(in, weights_of(weights_.query_down, rank, dims_.hidden),
                          {low_rank, count, rank, rank}, GemmSum::kReplace, threads_);
    rms_norm_rows(low_rank, count, rank, rank, weights_.query_norm, dims_.norm_eps);
    in = {low_rank, count, rank, rank};
  }
  float* queries = grown(scratch.queries, count * width);
  multiply_by_transpose(in, weights_of(weights_.query_up, width, in.columns),
                        {queries, count, width, width}, GemmSum::kReplace, threads_);
}

void AttentionLayer::project_rows(std::span<const float> hidden, std::uint64_t count,
                                  LayerScratch& scratch) const {
  const std::uint64_t width = dims_.row_elements();
  float* rows = grown(scratch.rows, count * width);
  multiply_by_transpose({hidden.data(), count, dims_.hidden, dims_.hidden},
                        weights_of(weights_.row_down, width, dims_.hidden),
                        {rows, count, width, width}, GemmSum::kReplace, threads_);
  if (!dims_.is_latent()) return;
  rms_norm_rows(rows, count, dims_.latent_dim, width, weights_.latent_norm, dims_.norm_eps);
}

// Queries and keys of one token turn by the same angles: they are computed once.
void AttentionLayer::rotate(std::span<const std::int64_t> positions, LayerScratch& scratch) const {
  if (rope_.rotary_dim() == 0) return;
  const std::uint64_t query_stride = dims_.head_key_dim();
  const std::uint64_t query_offset = dims_.is_latent() ? dims_.content_dim : 0;
  const std::uint64_t key_offset = dims_.is_latent() ? dims_.latent_dim : 0;
  for (std::size_t token = 0; token < positions.size(); ++token) {
    scratch.rotation.set(rope_, positions[token], rope_.amplitude());
    float* query = scratch.queries.data() + token * dims_.query_heads * query_stride + query_offset;
    for (std::uint64_t head = 0; head < dims_.query_heads; ++head) {
      scratch.rotation.apply(query + head * query_stride);
    }
    float* key = scratch.rows.data() + token * dims_.row_elements() + key_offset;
    for (std::uint64_t head = 0; head < dims_.kv_heads; ++head) {
      scratch.rotation.apply(key + head * dims_.content_dim);
    }
  }
}

// q~ = W_UK^T q_content per head, then the rotary tail as it is.
void AttentionLayer::absorb_queries(std::uint64_t count, LayerScratch& scratch) const {
  const std::uint64_t from_dim = dims_.head_key_dim();
  const std::uint64_t to_dim = dims_.query_dim(AttentionForm::kAbsorbed);
  const std::uint64_t from_stride = dims_.query_heads * from_dim;
  const std::uint64_t to_stride = dims_.query_heads * to_dim;
  float* absorbed = grown(scratch.absorbed, count * to_stride);
  run_parts(threads_, dims_.query_heads, [&](std::uint32_t, std::uint64_t head) {
    const float* from = scratch.queries.data() + head * from_dim;
    const float* key_up = weights_.key_up.data() + head * dims_.content_dim * dims_.latent_dim;
    float* to = absorbed + head * to_dim;
    multiply({from, count, dims_.content_dim, from_stride},
             {key_up, dims_.content_dim, dims_.latent_dim, dims_.latent_dim},
             {to, count, dims_.latent_dim, to_stride});
    for (std::uint64_t token = 0; token < count; ++token) {
      std::copy_n(from + token * from_stride + dims_.content_dim, dims_.tail_dim,
                  to + token * to_stride + dims_.latent_dim);
    }
  });
}

Result<Projection> AttentionLayer::project(std::span<const float> hidden,
                                           std::span<const std::int64_t> positions,
                                           AttentionForm form, LayerScratch& scratch) const {
  const std::uint64_t count = positions.size();
  if (hidden.size() / dims_.hidden != count || hidden.size() % dims_.hidden != 0) {
    return fail(ErrorCode::Invalid, fmt::format("hidden has {} numbers; allowed: {} positions x {}",
                                                hidden.size(), count, dims_.hidden));
  }
  const auto negative = std::find_if(positions.begin(), positions.end(),
                                     [](std::int64_t position) { return position < 0; });
  if (negative != positions.end()) {
    return fail(ErrorCode::Invalid, fmt::format("position is {}; allowed: at least 0", *negative));
  }
  Projection projection;
  projection.count = count;
  projection.query_dim = dims_.query_dim(form);
  projection.row_elements = dims_.row_elements();
  projection.row_shape = shape();
  if (count == 0) return projection;

  project_queries(hidden, count, scratch);
  project_rows(hidden, count, scratch);
  rotate(positions, scratch);
  projection.rows = {scratch.rows.data(), count * projection.row_elements};
  const std::uint64_t query_count = count * dims_.query_heads * projection.query_dim;
  if (dims_.is_latent() && form == AttentionForm::kAbsorbed) {
    absorb_queries(count, scratch);
    projection.queries = {scratch.absorbed.data(), query_count};
  } else {
    projection.queries = {scratch.queries.data(), query_count};
  }
  return projection;
}

Status AttentionLayer::output(std::span<const float> result, AttentionForm form,
                              std::span<float> out, LayerScratch& scratch) const {
  const std::uint64_t from_dim = dims_.result_dim(form);
  const std::uint64_t from_stride = dims_.query_heads * from_dim;
  const std::uint64_t count = out.size() / dims_.hidden;
  if (out.size() % dims_.hidden != 0 || result.size() / from_stride != count ||
      result.size() % from_stride != 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("result has {} numbers and out {}; allowed: n x {} x {} and n x {}",
                            result.size(), out.size(), dims_.query_heads, from_dim, dims_.hidden));
  }
  if (count == 0) return {};
  const std::uint64_t width = dims_.query_heads * dims_.value_dim;
  const float* heads = result.data();
  if (dims_.is_latent() && form == AttentionForm::kAbsorbed) {
    float* expanded = grown(scratch.heads, count * width);
    run_parts(threads_, dims_.query_heads, [&](std::uint32_t, std::uint64_t head) {
      const float* value_up = weights_.value_up.data() + head * dims_.value_dim * dims_.latent_dim;
      multiply_by_transpose({result.data() + head * from_dim, count, from_dim, from_stride},
                            {value_up, dims_.value_dim, dims_.latent_dim, dims_.latent_dim},
                            {expanded + head * dims_.value_dim, count, dims_.value_dim, width});
    });
    heads = expanded;
  }
  multiply_by_transpose(
      {heads, count, width, width}, weights_of(weights_.output, dims_.hidden, width),
      {out.data(), count, dims_.hidden, dims_.hidden}, GemmSum::kReplace, threads_);
  return {};
}

Status encode_rows(const Projection& projection, std::uint64_t first, std::uint64_t count,
                   const RowTarget& target, const RowOptions& options) {
  if (first > projection.count || count > projection.count - first) {
    return fail(ErrorCode::Invalid, fmt::format("rows {} + {} of a projection; it has {}", first,
                                                count, projection.count));
  }
  AppendInputs inputs;  // keys are rotated
  inputs.shape = projection.row_shape;
  inputs.numbers =
      projection.rows.subspan(first * projection.row_elements, count * projection.row_elements);
  return append_rows(inputs, target, options);
}

}  // namespace emblema
