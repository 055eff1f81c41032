// The block primitives over a vector vocabulary L (scalar/lanes.h says what its words mean): one
// body for scalar, avx2 and avx512.
//
// Packed forms, all fp32:
//   queries   panels of two vectors of queries, the last of one where that is enough:
//             [panel][channel][lanes]
//   rows      [row][key stride], then [row][value stride] where values are apart
//   weights   [row][query], `query stride` = queries rounded up to whole vectors
//   out       [query][value stride]
//
// Included inside a region of the instruction set (isa_region.h), after what it needs.
#pragma once

#include "emblema/kernels/vector/rows.h"
#include "emblema/kernels/vector/softmax.h"
#include "emblema/kernels/vector/tiles.h"

namespace emblema::vector_kernels {

template <class L>
struct Body {
  static constexpr std::uint32_t kBlockRows = 48;  // whole micro-tiles of every vocabulary
  static constexpr std::uint32_t kPad = 16;        // floats: one cache line, the widest vector

  static constexpr std::uint32_t padded(std::uint32_t width, std::uint32_t to) {
    return (width + to - 1) / to * to;
  }
  static std::size_t key_stride(const TileWidths& w) { return padded(w.key_dim, kPad); }
  static std::size_t value_stride(const TileWidths& w) {
    return w.value_in_key ? key_stride(w) : padded(w.value_dim, kPad);
  }
  static std::size_t query_stride(std::uint32_t count) { return padded(count, kPad); }
  static const float* values_of(const TileWidths& w, const float* rows) {
    return w.value_in_key ? rows : rows + kBlockRows * key_stride(w);
  }
  static float* floats(std::byte* p) { return reinterpret_cast<float*>(p); }
  static const float* floats(const std::byte* p) { return reinterpret_cast<const float*>(p); }

  // Keys and values of one head of 128, 24 rows of them, leave room in a first-level cache of 32
  // KiB; latents, read by many heads, stream from the second whatever their number.
  static std::uint32_t block_rows(const TileWidths& stored) {
    return stored.value_in_key ? kBlockRows : kBlockRows / 2;
  }
  static std::size_t query_bytes(const TileWidths& w, std::uint32_t count) {
    return query_stride(count) * padded(w.key_dim, kPad) * sizeof(float);
  }
  static std::size_t row_bytes(const TileWidths& w) {
    const std::size_t apart = w.value_in_key ? 0 : value_stride(w);
    return kBlockRows * (key_stride(w) + apart) * sizeof(float);
  }
  static std::size_t weight_bytes(std::uint32_t count) {
    return kBlockRows * query_stride(count) * sizeof(float);
  }
  static std::size_t out_stride(const TileWidths& w) { return padded(w.value_dim, kPad); }
  static std::size_t out_bytes(const TileWidths& w, std::uint32_t count) {
    return count * out_stride(w) * sizeof(float);
  }
  static std::size_t matrix_bytes(std::uint32_t outputs, std::uint32_t inputs) {
    return query_stride(outputs) * padded(inputs, kPad) * sizeof(float);
  }

  // Panels hold two vectors of queries; the last one, where that is enough.
  static std::uint32_t panel_vectors(std::uint32_t left) { return left > L::kLanes ? 2 : 1; }

  static void pack_panel(const float* const* rows, std::uint32_t count, std::uint32_t width,
                         std::uint32_t lanes, float* to) {
    for (std::uint32_t q = 0; q < lanes; ++q) {
      for (std::uint32_t c = 0; c < width; ++c) to[c * lanes + q] = q < count ? rows[q][c] : 0.0F;
    }
  }

  static void pack_queries(const TileWidths& w, const float* const* queries, std::uint32_t count,
                           std::byte* to) {
    std::uint32_t lanes = 0;
    for (std::uint32_t q = 0; q < count; q += lanes) {
      lanes = panel_vectors(count - q) * L::kLanes;
      pack_panel(queries + q, std::min(lanes, count - q), w.key_dim, lanes,
                 floats(to) + std::size_t{q} * w.key_dim);
    }
  }

  static void pack_matrix(const float* matrix, std::uint32_t outputs, std::uint32_t inputs,
                          std::byte* to) {
    std::uint32_t lanes = 0;
    for (std::uint32_t first = 0; first < outputs; first += lanes) {
      lanes = panel_vectors(outputs - first) * L::kLanes;
      const float* rows[2 * L::kLanes];
      const std::uint32_t count = std::min(lanes, outputs - first);
      for (std::uint32_t i = 0; i < count; ++i) rows[i] = matrix + std::size_t{first + i} * inputs;
      pack_panel(rows, count, inputs, lanes, floats(to) + std::size_t{first} * inputs);
    }
  }

  static void load_rows(const TileWidths& w, const StoredRows& from, std::byte* to) {
    float* keys = floats(to);
    float* values = keys + kBlockRows * key_stride(w);
    for (std::uint32_t r = 0; r < from.count; ++r) {
      load_row<L>(w, from, r, keys + r * key_stride(w), values + r * value_stride(w));
    }
  }

  // to[row][lane] = panel . rows[row]
  static void multiply_panel(std::uint32_t vectors, const float* panel, std::uint32_t channels,
                             const RowSpan& rows, float* to, std::size_t to_stride,
                             RowPrefetch& prefetch) {
    if (vectors == 2) {
      score_panel<L, 2>(panel, channels, rows, to, to_stride, prefetch);
    } else {
      score_panel<L, 1>(panel, channels, rows, to, to_stride, prefetch);
    }
  }

  // to[row][0 .. outputs) = matrix . rows[row]; columns up to the next whole vector become 0.
  static void multiply(const std::byte* matrix, std::uint32_t outputs, std::uint32_t inputs,
                       const RowSpan& rows, float* to, std::size_t to_stride) {
    std::uint32_t vectors = 0;
    RowPrefetch nothing;
    for (std::uint32_t first = 0; first < outputs; first += vectors * L::kLanes) {
      vectors = panel_vectors(outputs - first);
      multiply_panel(vectors, floats(matrix) + std::size_t{first} * inputs, inputs, rows,
                     to + first, to_stride, nothing);
    }
  }

  static void expand_rows(const ExpandTask& task) {
    const TileWidths& e = task.expanded;
    const std::uint32_t latent = task.latent.value_dim;
    const std::uint32_t rope = task.latent.key_dim - latent;
    const std::uint32_t content = e.key_dim - rope;
    const RowSpan rows{floats(task.rows), key_stride(task.latent), task.row_count};
    float* keys = floats(task.to);
    multiply(task.key_up, content, latent, rows, keys, key_stride(e));
    for (std::uint32_t r = 0; r < task.row_count; ++r) {
      std::memcpy(keys + r * key_stride(e) + content, rows.rows + r * rows.stride + latent,
                  rope * sizeof(float));
    }
    multiply(task.value_up, e.value_dim, latent, rows, keys + kBlockRows * key_stride(e),
             value_stride(e));
  }

  // Scores of rows that a query does not see become -infinity, whatever they were.
  static void mask(const WeighTask& task, std::uint32_t first, std::uint32_t count, float* scores) {
    if (task.first_row == nullptr) return;
    const std::size_t stride = query_stride(task.query_count);
    const std::uint32_t end = std::min(first + count, task.query_count);
    for (std::uint32_t q = first; q < end; ++q) {
      float* column = scores + (q - first);
      for (std::uint32_t r = 0; r < task.first_row[q]; ++r) column[r * stride] = -__builtin_inff();
      for (std::uint32_t r = task.end_row[q]; r < task.row_count; ++r) {
        column[r * stride] = -__builtin_inff();
      }
    }
  }

  static void weigh_rows(const WeighTask& task) {
    const std::size_t score_stride = query_stride(task.query_count);
    RowPrefetch prefetch = task.prefetch;
    prefetch.spread((score_stride + 2 * L::kLanes - 1) / (2 * L::kLanes) *
                    score_steps<L>(task.widths.key_dim, task.row_count));
    const RowSpan rows{floats(task.rows), key_stride(task.widths), task.row_count};
    std::uint32_t vectors = 0;
    for (std::uint32_t q = 0; q < task.query_count; q += vectors * L::kLanes) {
      vectors = panel_vectors(task.query_count - q);
      multiply_panel(vectors, floats(task.queries) + std::size_t{q} * task.widths.key_dim,
                     task.widths.key_dim, rows, floats(task.weights) + q, score_stride, prefetch);
      for (std::uint32_t v = 0; v < vectors; ++v) weigh_lanes(task, q + v * L::kLanes);
    }
  }

  // Softmax of one vector of queries, whose scores lie in the weights' place.
  static void weigh_lanes(const WeighTask& task, std::uint32_t first) {
    float* scores = floats(task.weights) + first;
    const std::size_t stride = query_stride(task.query_count);
    auto seen = scale_scores<L>(scores, stride, task.row_count, task.scale, task.softcap);
    if (task.first_row != nullptr) {
      mask(task, first, L::kLanes, scores);
      seen = largest(scores, stride, task.row_count);
    }
    weigh_logits<L>(scores, stride, task.row_count, seen, task.top + first, task.sum + first,
                    task.corrections + first);
  }

  static typename L::Vector largest(const float* scores, std::size_t stride,
                                    std::uint32_t row_count) {
    auto top = L::set1(-__builtin_inff());
    for (std::uint32_t r = 0; r < row_count; ++r) top = L::max(L::load(scores + r * stride), top);
    return top;
  }

  static void accumulate_rows(const AccumulateTask& task) {
    const TileWidths& w = task.widths;
    ValueSpan span;
    span.weight_stride = query_stride(task.query_count);
    span.weights = floats(task.weights) + task.first_row * span.weight_stride + task.first_query;
    span.value_stride = value_stride(w);
    span.values = values_of(w, floats(task.rows)) + task.first_row * span.value_stride;
    span.row_count = task.end_row - task.first_row;
    span.corrections = task.corrections + task.first_query;
    span.out_stride = out_stride(w);
    span.out = floats(task.out) + task.first_query * span.out_stride;
    RowPrefetch prefetch = task.prefetch;
    // So many channels that their values stay in the first-level cache for all queries.
    constexpr std::uint32_t kRun = 8 * L::kLanes;
    const auto end = static_cast<std::uint32_t>(span.out_stride);
    const std::uint32_t queries = task.end_query - task.first_query;
    prefetch.spread(std::uint64_t{end} / (2 * L::kLanes) *
                    ((queries + L::kTileRows - 1) / L::kTileRows));
    for (std::uint32_t channel = 0; channel < end; channel += kRun) {
      accumulate_queries<L>(span, queries, channel, std::min(end, channel + kRun), prefetch);
    }
  }

  static void read_out(const TileWidths& w, const std::byte* out, std::uint32_t,
                       std::uint32_t query, float* to) {
    std::memcpy(to, floats(out) + query * out_stride(w), w.value_dim * sizeof(float));
  }

  static constexpr BlockPrimitives table(Isa isa) {
    return {isa,         block_rows,   query_bytes,     row_bytes,   weight_bytes,
            out_bytes,   matrix_bytes, pack_queries,    pack_matrix, load_rows,
            expand_rows, weigh_rows,   accumulate_rows, read_out};
  }
};

}  // namespace emblema::vector_kernels
