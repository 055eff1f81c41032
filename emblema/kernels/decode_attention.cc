// The driver: sequences, spans, masks, the walk over tiles, online softmax. Every instruction set
// runs this code with primitives of its own.
#include <algorithm>
#include <cmath>
#include <limits>

#include "emblema/contract/bytes.h"
#include "emblema/kernels/attention.h"
#include "emblema/kernels/block_primitives.h"

namespace emblema {
namespace {

constexpr std::uint32_t kStrideMax = AttentionLimits::kHeadWidthMax;
constexpr float kNothing = -std::numeric_limits<float>::infinity();
static_assert(kStrideMax % kLaneFloats == 0);

std::uint32_t stride_of(std::uint32_t width) {
  return static_cast<std::uint32_t>(round_up(width, kLaneFloats));
}

// The scratch of one call, on its stack.
struct Workspace {
  alignas(64) float queries[kTileQueries * kStrideMax];
  alignas(64) float keys[kTileRows * kStrideMax];
  alignas(64) float values[kTileRows * kStrideMax];
  alignas(64) float scores[kTileQueries * kTileRows];
};
static_assert(sizeof(Workspace) <= 200 * kKiB);

// Rows [first, end) of a span.
struct RowRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  bool is_empty() const { return first >= end; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

RowRange intersection(const RowRange& a, const RowRange& b) {
  return {std::max(a.first, b.first), std::min(a.end, b.end)};
}

// What a query at `position` sees of a span: attached positions <= its own, inside its window and
// its chunk.
RowRange visible_rows(const Span& span, std::int64_t position, const AttentionShape& shape) {
  const std::int64_t begin = span.position + span.delta;
  if (position < begin) return {};
  RowRange range{0, std::min(span.rows, static_cast<std::uint64_t>(position - begin) + 1)};
  const std::int64_t first = shape.first_visible(position);
  if (first > begin) range.first = static_cast<std::uint64_t>(first - begin);
  return range;
}

// Query rows (token, head) that read the same KV head, and their running results.
struct QueryTile {
  std::uint32_t kv_head = 0;
  std::uint32_t count = 0;
  const float* q[kTileQueries];
  float* out[kTileQueries];
  float* lse[kTileQueries];
  std::int64_t position[kTileQueries];
  RunningSoftmax softmax[kTileQueries];
  RowRange visible[kTileQueries];  // in the span at hand
};

class TileWalk {
 public:
  TileWalk(const AttentionInputs& inputs, const BlockPrimitives& primitives, Workspace& workspace)
      : shape_(inputs.shape),
        rows_(inputs.rows),
        primitives_(primitives),
        workspace_(workspace),
        key_stride_(stride_of(shape_.key_dim)),
        value_stride_(stride_of(shape_.value_dim)) {}

  void attend(QueryTile& tile, std::span<const Span> spans) {
    std::int64_t loaded_delta = 0;
    load_queries(tile, loaded_delta);
    for (const Span& span : spans) {
      if (span.rows == 0) continue;  // its other fields mean nothing and were not checked
      const RowRange seen = look(tile, span);
      if (seen.is_empty()) continue;
      if (span.delta != loaded_delta) load_queries(tile, loaded_delta = span.delta);
      // Tiles start at multiples of kTileRows, so that where a query's sums are cut depends on
      // the span alone.
      for (std::uint64_t start = seen.first / kTileRows * kTileRows; start < seen.end;
           start += kTileRows) {
        take_rows(tile, span, intersection(seen, {start, start + kTileRows}));
      }
    }
    finish(tile);
  }

 private:
  // Copies the queries, turned by -delta: (R(t) q) . (R(p + delta) k) = (R(t - delta) q) . (R(p) k)
  void load_queries(const QueryTile& tile, std::int64_t delta) {
    for (std::uint32_t i = 0; i < tile.count; ++i) {
      float* query = workspace_.queries + std::size_t{i} * key_stride_;
      std::copy_n(tile.q[i], shape_.key_dim, query);
      std::fill(query + shape_.key_dim, query + key_stride_, 0.0F);
      if (delta == 0) continue;
      shape_.rope->turn(
          std::span(query + shape_.rotary_offset, shape_.key_dim - shape_.rotary_offset), -delta);
    }
  }

  RowRange look(QueryTile& tile, const Span& span) const {
    RowRange all{span.rows, 0};
    for (std::uint32_t i = 0; i < tile.count; ++i) {
      tile.visible[i] = visible_rows(span, tile.position[i], shape_);
      if (tile.visible[i].is_empty()) continue;
      all.first = std::min(all.first, tile.visible[i].first);
      all.end = std::max(all.end, tile.visible[i].end);
    }
    return all;
  }

  void convert_rows(const Span& span, const RowRange& range, std::uint32_t kv_head) {
    const bool is_latent = shape_.kind == RowKind::kLatent;
    const std::uint64_t element = rows_.encoding == Encoding::kFp32 ? 4 : 2;
    const std::uint64_t key_bytes = kv_head * std::uint64_t{shape_.key_dim} * element;
    const std::uint64_t value_bytes = (std::uint64_t{shape_.kv_heads} * shape_.key_dim +
                                       kv_head * std::uint64_t{shape_.value_dim}) *
                                      element;
    for (std::uint64_t r = range.first; r < range.end; ++r) {
      const std::uint64_t row = span.first_row + r;
      const std::uint64_t block = span.blocks[row / rows_.block_rows];
      const std::byte* from =
          rows_.base + block * rows_.block_bytes + row % rows_.block_rows * rows_.row_bytes;
      const std::size_t to = r - range.first;
      primitives_.convert_row(from + key_bytes, rows_.encoding, shape_.key_dim, key_stride_,
                              workspace_.keys + to * key_stride_);
      if (is_latent) continue;  // the value is the row's first channels, converted once
      primitives_.convert_row(from + value_bytes, rows_.encoding, shape_.value_dim, value_stride_,
                              workspace_.values + to * value_stride_);
    }
  }

  // Queries with the same rows to see (the heads of one token, mostly) go on together.
  void take_rows(QueryTile& tile, const Span& span, const RowRange& range) {
    convert_rows(span, range, tile.kv_head);
    primitives_.score_rows(workspace_.queries, tile.count, workspace_.keys,
                           static_cast<std::uint32_t>(range.end - range.first), key_stride_,
                           workspace_.scores);
    for (std::uint32_t i = 0; i < tile.count;) {
      const RowRange own = intersection(tile.visible[i], range);
      std::uint32_t end = i + 1;
      while (end < tile.count && intersection(tile.visible[end], range) == own) ++end;
      if (!own.is_empty()) take_visible(tile, i, end, own.first - range.first, own.end - own.first);
      i = end;
    }
  }

  float* scores_of(std::uint32_t query) const {
    return workspace_.scores + std::size_t{query} * kTileRows;
  }

  void take_visible(QueryTile& tile, std::uint32_t first_query, std::uint32_t end_query,
                    std::uint64_t first_row, std::uint64_t row_count) {
    const auto count = static_cast<std::uint32_t>(row_count);
    float corrections[kTileQueries];
    for (std::uint32_t i = first_query; i < end_query; ++i) {
      corrections[i] = primitives_.softmax_rows(
          scores_of(i) + first_row, count, static_cast<float>(shape_.scale),
          static_cast<float>(shape_.softcap), tile.softmax[i]);
    }
    const bool is_latent = shape_.kind == RowKind::kLatent;
    const float* values = is_latent ? workspace_.keys : workspace_.values;
    const std::uint32_t stride = is_latent ? key_stride_ : value_stride_;
    primitives_.accumulate_rows(scores_of(first_query) + first_row, end_query - first_query,
                                values + first_row * stride, count, stride, shape_.value_dim,
                                corrections + first_query, tile.out + first_query);
  }

  void finish(QueryTile& tile) const {
    for (std::uint32_t i = 0; i < tile.count; ++i) {
      const RunningSoftmax& state = tile.softmax[i];
      if (state.sum == 0.0) continue;  // nothing visible: out is 0 and lse -infinity already
      const auto share = static_cast<float>(1.0 / state.sum);
      for (std::uint32_t c = 0; c < shape_.value_dim; ++c) tile.out[i][c] *= share;
      *tile.lse[i] = static_cast<float>(state.top + std::log(state.sum));
    }
  }

  const AttentionShape& shape_;
  const PagedRows& rows_;
  const BlockPrimitives& primitives_;
  Workspace& workspace_;
  std::uint32_t key_stride_;
  std::uint32_t value_stride_;
};

// Query rows `first`, `first` + 1, ... of a sequence and KV head, counted token by token and
// within a token head by head of the group.
QueryTile make_tile(const AttentionInputs& inputs, const SequenceInputs& sequence,
                    std::uint32_t kv_head, std::uint64_t first, float* out, float* lse) {
  const AttentionShape& shape = inputs.shape;
  const std::uint64_t group = shape.query_heads / shape.kv_heads;
  QueryTile tile;
  tile.kv_head = kv_head;
  tile.count = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kTileQueries, sequence.queries * group - first));
  for (std::uint32_t i = 0; i < tile.count; ++i) {
    const std::uint64_t token = (first + i) / group;
    const std::uint64_t head = kv_head * group + (first + i) % group;
    const std::uint64_t row = (sequence.first_query + token) * shape.query_heads + head;
    tile.q[i] = inputs.q + row * shape.key_dim;
    tile.out[i] = out + row * shape.value_dim;
    tile.lse[i] = lse + row;
    tile.position[i] = sequence.query_position + static_cast<std::int64_t>(token);
    tile.softmax[i] = {kNothing, 0.0};
  }
  return tile;
}

}  // namespace

Status decode_attention(const AttentionInputs& inputs, std::span<float> out, std::span<float> lse) {
  if (auto s = check_attention_inputs(inputs, out.size(), lse.size()); !s) return s;
  std::fill(out.begin(), out.end(), 0.0F);
  std::fill(lse.begin(), lse.end(), kNothing);
  Workspace workspace;
  TileWalk walk(inputs, scalar_primitives(), workspace);
  const std::uint64_t group = inputs.shape.query_heads / inputs.shape.kv_heads;
  for (const SequenceInputs& sequence : inputs.sequences) {
    for (std::uint32_t kv_head = 0; kv_head < inputs.shape.kv_heads; ++kv_head) {
      for (std::uint64_t first = 0; first < sequence.queries * group; first += kTileQueries) {
        QueryTile tile = make_tile(inputs, sequence, kv_head, first, out.data(), lse.data());
        walk.attend(tile, sequence.spans);
      }
    }
  }
  finish_attention(out, lse, inputs.sinks);
  return {};
}

}  // namespace emblema
