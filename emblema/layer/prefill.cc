#include "emblema/layer/prefill.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "emblema/kernels/attention.h"
#include "emblema/layer/gemm.h"
#include "emblema/layer/parallel.h"
#include "emblema/layer/row_codec.h"

namespace emblema {
namespace {

// Scores of a tile, 256 x 512 fp32, stay in a second-level cache.
constexpr std::uint64_t kQueryTile = 256;
constexpr std::uint64_t kKeyTileMax = 512;
// Queries whose running sums are kept at once; longer prompts read the rows again.
constexpr std::uint64_t kQueriesPerPass = 4096;
constexpr std::uint64_t kRowTileFloats = 4 * kMiB / sizeof(float);
// Heads that are expanded at once: what a thread takes, so fixed, or bits would depend on threads.
constexpr std::uint64_t kHeadsAtOnce = 8;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

float* grown(std::vector<float>& memory, std::uint64_t count) {
  if (memory.size() < count) memory.resize(count);
  return memory.data();
}

// A run of rows of one span: key k of the tile sits at attached position `first` + k.
struct KeyTile {
  const float* rows = nullptr;
  std::int64_t first = 0;
  std::uint64_t count = 0;
};

// Where one head finds its keys and values of a tile. The tail is a latent layer's shared rotary
// key in the expanded form, else empty.
struct HeadTile {
  ConstMatrix content;
  ConstMatrix tail;
  ConstMatrix values;
};

struct KeyRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct HeadRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t count() const { return end - begin; }
};

// The work of one thread: some of the heads, over all queries and keys.
class PrefillLane {
 public:
  PrefillLane(const AttentionLayer& layer, AttentionForm form, const SequenceInputs& sequence,
              const PagedRows& rows, HeadRange heads, PrefillScratch::Lane& scratch)
      : layer_(layer),
        dims_(layer.dims()),
        shape_(layer.shape()),
        expands_(layer.dims().is_latent() && form == AttentionForm::kExpanded),
        query_dim_(dims_.query_dim(form)),
        result_dim_(dims_.result_dim(form)),
        sequence_(sequence),
        paged_(rows),
        heads_(heads),
        scratch_(scratch) {}

  void run(const float* queries, float* out, float* lse) {
    queries_ = queries;
    out_ = out;
    lse_ = lse;
    for (std::uint64_t begin = 0; begin < sequence_.queries; begin += kQueriesPerPass) {
      run_pass(begin, std::min(begin + kQueriesPerPass, sequence_.queries));
    }
  }

 private:
  // Queries begin ... end - 1, whose results are written whole.
  void run_pass(std::uint64_t begin, std::uint64_t end) {
    pass_begin_ = begin;
    pass_end_ = end;
    scratch_.weights.assign((end - begin) * heads_.count(), 0.0);
    for (std::uint64_t query = begin; query < end; ++query) {
      const std::uint64_t first = place(query, heads_.begin);
      std::fill_n(out_ + first * result_dim_, heads_.count() * result_dim_, 0.0F);
      std::fill_n(lse_ + first, heads_.count(), kNothing);  // running maxima until finish
    }
    const std::uint64_t tile_rows =
        std::clamp<std::uint64_t>(kRowTileFloats / dims_.row_elements(), 1, kKeyTileMax);
    for (const Span& span : sequence_.spans) {
      const std::int64_t attached = span.position + span.delta;
      const KeyRange range = visible({nullptr, attached, span.rows}, begin, end);
      if (span.delta != 0) scratch_.rotation.set(layer_.rope(), -span.delta, 1.0);
      for (std::uint64_t row = range.begin; row < range.end; row += tile_rows) {
        const std::uint64_t count = std::min(tile_rows, range.end - row);
        attend_tile(span, read_tile(span, row, count));
      }
    }
    finish();
  }

  std::uint64_t place(std::uint64_t query, std::uint64_t head) const {
    return query * dims_.query_heads + head;
  }

  double& weight(std::uint64_t query, std::uint64_t head) {
    return scratch_.weights[(query - pass_begin_) * heads_.count() + head - heads_.begin];
  }

  std::int64_t position(std::uint64_t query) const {
    return sequence_.query_position + static_cast<std::int64_t>(query);
  }

  // The keys of a tile that any of the queries begin ... end - 1 sees: not behind the last,
  // not before what the first sees.
  KeyRange visible(const KeyTile& tile, std::uint64_t begin, std::uint64_t end) const {
    const std::int64_t newest = position(end - 1) - tile.first;
    if (newest < 0) return {};
    KeyRange range{0, std::min(tile.count, static_cast<std::uint64_t>(newest) + 1)};
    const std::int64_t first = shape_.first_visible(position(begin));
    if (first > tile.first) range.begin = static_cast<std::uint64_t>(first - tile.first);
    range.begin = std::min(range.begin, range.end);
    return range;
  }

  KeyTile read_tile(const Span& span, std::uint64_t row, std::uint64_t count) {
    const std::uint64_t width = dims_.row_elements();
    float* to = grown(scratch_.rows, count * width);
    for (std::uint64_t k = 0; k < count; ++k) {
      const std::uint64_t place = span.first_row + row + k;
      const std::uint64_t block = span.blocks[place / paged_.block_rows];
      const std::byte* from =
          paged_.base + block * paged_.block_bytes + place % paged_.block_rows * paged_.row_bytes;
      decode_row_values(from, paged_.encoding, {to + k * width, width});
    }
    return {to, span.position + span.delta + static_cast<std::int64_t>(row), count};
  }

  // Every head of the lane over one tile; expanded keys and values are made for a few at a time.
  void attend_tile(const Span& span, const KeyTile& tile) {
    for (std::uint64_t first = heads_.begin; first < heads_.end; first += kHeadsAtOnce) {
      const HeadRange few{first, std::min(first + kHeadsAtOnce, heads_.end)};
      if (expands_) expand(tile, few);
      for (std::uint64_t head = few.begin; head < few.end; ++head) {
        attend_head(span, tile, head_tile(tile, head, few), head);
      }
    }
  }

  void expand(const KeyTile& tile, const HeadRange& few) {
    const LayerWeights& weights = layer_.weights();
    expand_by(weights.key_up, dims_.content_dim, tile, few, scratch_.keys);
    expand_by(weights.value_up, dims_.value_dim, tile, few, scratch_.values);
  }

  // to [tile][few heads][head_dim] = latents . the heads' rows of `weights` [H * head_dim][r].
  void expand_by(const std::vector<float>& weights, std::uint64_t head_dim, const KeyTile& tile,
                 const HeadRange& few, std::vector<float>& to) {
    const std::uint64_t latent = dims_.latent_dim;
    const std::uint64_t width = few.count() * head_dim;
    float* made = grown(to, tile.count * width);
    multiply_by_transpose({tile.rows, tile.count, latent, dims_.row_elements()},
                          {weights.data() + few.begin * head_dim * latent, width, latent, latent},
                          {made, tile.count, width, width});
  }

  HeadTile head_tile(const KeyTile& tile, std::uint64_t head, const HeadRange& few) const {
    const std::uint64_t width = dims_.row_elements();
    if (expands_) {
      const std::uint64_t nth = head - few.begin;
      return {{scratch_.keys.data() + nth * dims_.content_dim, tile.count, dims_.content_dim,
               few.count() * dims_.content_dim},
              {tile.rows + dims_.latent_dim, tile.count, dims_.tail_dim, width},
              {scratch_.values.data() + nth * dims_.value_dim, tile.count, dims_.value_dim,
               few.count() * dims_.value_dim}};
    }
    const ConstMatrix no_tail{tile.rows, tile.count, 0, width};
    if (dims_.is_latent()) {  // absorbed: the row is the key, its front the value
      return {{tile.rows, tile.count, width, width},
              no_tail,
              {tile.rows, tile.count, dims_.latent_dim, width}};
    }
    const std::uint64_t kv_head = head / (dims_.query_heads / dims_.kv_heads);
    const float* keys = tile.rows + kv_head * dims_.content_dim;
    const float* values =
        tile.rows + dims_.kv_heads * dims_.content_dim + kv_head * dims_.value_dim;
    return {{keys, tile.count, dims_.content_dim, width},
            no_tail,
            {values, tile.count, dims_.value_dim, width}};
  }

  void attend_head(const Span& span, const KeyTile& tile, const HeadTile& keys,
                   std::uint64_t head) {
    for (std::uint64_t begin = pass_begin_; begin < pass_end_; begin += kQueryTile) {
      const std::uint64_t end = std::min(begin + kQueryTile, pass_end_);
      const KeyRange range = visible(tile, begin, end);
      if (range.begin == range.end) continue;
      const ConstMatrix queries = query_tile(span, head, begin, end);
      score(queries, keys, range);
      for (std::uint64_t query = begin; query < end; ++query) {
        soften(tile, range, query, query - begin, head);
      }
      accumulate(keys, range, head, begin, end);
    }
  }

  // The queries of one head, turned back by the span's delta where it has one.
  ConstMatrix query_tile(const Span& span, std::uint64_t head, std::uint64_t begin,
                         std::uint64_t end) {
    const std::uint64_t stride = dims_.query_heads * query_dim_;
    const float* from = queries_ + begin * stride + head * query_dim_;
    if (span.delta == 0) return {from, end - begin, query_dim_, stride};
    const std::uint64_t rotary_offset = dims_.is_latent() ? query_dim_ - dims_.tail_dim : 0;
    float* turned = grown(scratch_.queries, (end - begin) * query_dim_);
    for (std::uint64_t query = 0; query < end - begin; ++query) {
      float* row = turned + query * query_dim_;
      std::copy_n(from + query * stride, query_dim_, row);
      scratch_.rotation.apply(row + rotary_offset);
    }
    return {turned, end - begin, query_dim_, query_dim_};
  }

  static ConstMatrix rows_of(const ConstMatrix& matrix, const KeyRange& range) {
    return {matrix.data + range.begin * matrix.stride, range.end - range.begin, matrix.columns,
            matrix.stride};
  }

  void score(const ConstMatrix& queries, const HeadTile& keys, const KeyRange& range) {
    const std::uint64_t count = range.end - range.begin;
    const Matrix scores{grown(scratch_.scores, queries.rows * count), queries.rows, count, count};
    const std::uint64_t content = keys.content.columns;
    multiply_by_transpose({queries.data, queries.rows, content, queries.stride},
                          rows_of(keys.content, range), scores);
    if (keys.tail.columns == 0) return;
    multiply_by_transpose({queries.data + content, queries.rows, keys.tail.columns, queries.stride},
                          rows_of(keys.tail, range), scores, GemmSum::kAdd);
  }

  // Scores of one query become exp(z - maximum), 0 where it does not see; what was summed before is
  // brought to the new maximum.
  void soften(const KeyTile& tile, const KeyRange& range, std::uint64_t query, std::uint64_t row,
              std::uint64_t head) {
    const std::uint64_t count = range.end - range.begin;
    float* scores = scratch_.scores.data() + row * count;
    KeyRange seen = visible(tile, query, query + 1);
    seen = {std::max(seen.begin, range.begin) - range.begin,
            std::max(seen.end, range.begin) - range.begin};
    if (seen.begin >= seen.end) {
      std::fill_n(scores, count, 0.0F);
      return;
    }
    const std::uint64_t at = place(query, head);
    const float before = lse_[at];
    const float top = std::max(before, scale_scores(scores, seen));
    std::fill_n(scores, seen.begin, 0.0F);
    std::fill_n(scores + seen.end, count - seen.end, 0.0F);
    double sum = 0;
    for (std::uint64_t k = seen.begin; k < seen.end; ++k) {
      // Only a score of -infinity meets a maximum of -infinity: it weighs nothing.
      scores[k] = scores[k] == kNothing ? 0.0F : std::exp(scores[k] - top);
      sum += static_cast<double>(scores[k]);
    }
    lse_[at] = top;
    double& total = weight(query, head);
    if (total > 0 && before != top) {
      const float correction = std::exp(before - top);
      total *= static_cast<double>(correction);
      float* out = out_ + at * result_dim_;
      for (std::uint64_t i = 0; i < result_dim_; ++i) out[i] *= correction;
    }
    total += sum;
  }

  // Returns the largest.
  float scale_scores(float* scores, const KeyRange& seen) const {
    const auto scale = static_cast<float>(shape_.scale);
    float top = kNothing;
    if (shape_.softcap > 0) {
      const auto cap = static_cast<float>(shape_.softcap);
      for (std::uint64_t k = seen.begin; k < seen.end; ++k) {
        scores[k] = cap * std::tanh(scores[k] * scale / cap);
        top = std::max(top, scores[k]);
      }
      return top;
    }
    for (std::uint64_t k = seen.begin; k < seen.end; ++k) {
      scores[k] *= scale;
      top = std::max(top, scores[k]);
    }
    return top;
  }

  void accumulate(const HeadTile& keys, const KeyRange& range, std::uint64_t head,
                  std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t count = range.end - range.begin;
    const std::uint64_t stride = dims_.query_heads * result_dim_;
    multiply({scratch_.scores.data(), end - begin, count, count}, rows_of(keys.values, range),
             {out_ + begin * stride + head * result_dim_, end - begin, result_dim_, stride},
             GemmSum::kAdd);
  }

  void finish() {
    for (std::uint64_t query = pass_begin_; query < pass_end_; ++query) {
      for (std::uint64_t head = heads_.begin; head < heads_.end; ++head) {
        finish_one(place(query, head), weight(query, head));
      }
    }
  }

  void finish_one(std::uint64_t at, double total) {
    if (!(total > 0)) return;  // nothing visible: out is 0, lse -infinity
    const auto share = static_cast<float>(1.0 / total);
    float* out = out_ + at * result_dim_;
    for (std::uint64_t i = 0; i < result_dim_; ++i) out[i] *= share;
    lse_[at] = static_cast<float>(static_cast<double>(lse_[at]) + std::log(total));
  }

  const AttentionLayer& layer_;
  const LayerDims& dims_;
  const AttentionShape shape_;
  const bool expands_;
  const std::uint64_t query_dim_;
  const std::uint64_t result_dim_;
  const SequenceInputs& sequence_;
  const PagedRows& paged_;
  const HeadRange heads_;
  PrefillScratch::Lane& scratch_;
  const float* queries_ = nullptr;
  float* out_ = nullptr;
  float* lse_ = nullptr;
  std::uint64_t pass_begin_ = 0;
  std::uint64_t pass_end_ = 0;
};

Status check_inputs(const AttentionLayer& layer, AttentionForm form, std::span<const float> queries,
                    const SequenceInputs& sequence, const PagedRows& rows, std::uint64_t out_size,
                    std::uint64_t lse_size) {
  if (const auto read = row_element_bytes(rows.encoding); !read) return propagate(read);
  const LayerDims& dims = layer.dims();
  const std::uint64_t tokens = lse_size / dims.query_heads;
  const std::uint64_t query_width = dims.query_heads * dims.query_dim(form);
  const std::uint64_t result_width = dims.query_heads * dims.result_dim(form);
  if (queries.size() / query_width != tokens || queries.size() % query_width != 0 ||
      out_size / result_width != tokens || out_size % result_width != 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("queries, out and lse have {}, {} and {} numbers; allowed: n x {}, n x "
                            "{} and n x {}",
                            queries.size(), out_size, lse_size, query_width, result_width,
                            dims.query_heads));
  }
  AttentionInputs inputs;
  inputs.shape = layer.shape();
  inputs.rows = rows;
  inputs.q = queries.data();
  inputs.tokens = tokens;
  inputs.sequences = {&sequence, 1};
  inputs.sinks = layer.sinks();
  const std::uint64_t absorbed_width = dims.result_dim(AttentionForm::kAbsorbed);
  return check_attention_inputs(inputs, tokens * dims.query_heads * absorbed_width, lse_size);
}

}  // namespace

std::uint64_t PrefillScratch::held_bytes() const {
  std::uint64_t bytes = 0;
  for (const Lane& lane : lanes) {
    const std::uint64_t floats = lane.rows.capacity() + lane.keys.capacity() +
                                 lane.values.capacity() + lane.queries.capacity() +
                                 lane.scores.capacity();
    bytes += floats * sizeof(float) + lane.weights.capacity() * sizeof(double);
  }
  return bytes;
}

Status prefill_by_gemm(const AttentionLayer& layer, AttentionForm form,
                       std::span<const float> queries, const SequenceInputs& sequence,
                       const PagedRows& rows, std::span<float> out, std::span<float> lse,
                       PrefillScratch& scratch) {
  Status checked = check_inputs(layer, form, queries, sequence, rows, out.size(), lse.size());
  if (!checked || sequence.queries == 0) return checked;
  const LayerDims& dims = layer.dims();
  const std::uint64_t first = sequence.first_query * dims.query_heads;
  const std::uint64_t count = sequence.queries * dims.query_heads;
  const std::span<float> own_out =
      out.subspan(first * dims.result_dim(form), count * dims.result_dim(form));
  const std::span<float> own_lse = lse.subspan(first, count);
  const float* own_queries = queries.data() + first * dims.query_dim(form);

  const std::uint64_t groups = ceil_div(dims.query_heads, kHeadsAtOnce);
  const std::uint64_t lanes = std::min<std::uint64_t>(layer.threads(), groups);
  if (scratch.lanes.size() < lanes) scratch.lanes.resize(lanes);
  run_parts(layer.threads(), lanes, [&](std::uint64_t lane) {
    const HeadRange heads{groups * lane / lanes * kHeadsAtOnce,
                          std::min(groups * (lane + 1) / lanes * kHeadsAtOnce, dims.query_heads)};
    PrefillLane(layer, form, sequence, rows, heads, scratch.lanes[lane])
        .run(own_queries, own_out.data(), own_lse.data());
  });
  finish_attention(own_out, own_lse, layer.sinks());
  return {};
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
