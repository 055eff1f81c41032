// For tests: an attention call that owns its memory, filled from a seed.
//
// Sequences are added span by span; rows go to blocks in a shuffled order, so that nothing passes
// by reading memory in sequence. Spans may share blocks. Numbers are drawn N(0, 1) and written as a
// cache would write them: 8-bit numbers with the scale that brings the largest of a tile to e4m3's
// largest (a power of two above it where scales are UE8M0).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "emblema/contract/check.h"
#include "emblema/kernels/attention.h"
#include "emblema/kernels/reference/reference_attention.h"
#include "emblema/layout/convert.h"
#include "emblema/layout/fp8.h"

namespace emblema::testing_support {

// How a test's rows are stored.
struct Storage {
  Encoding encoding = Encoding::kBf16;  // of plain rows
  RowFormat format = RowFormat::kPlain;

  constexpr Storage(Encoding of) : encoding(of) {}
  constexpr Storage(RowFormat of) : format(of) {}

  std::string name() const {
    if (format == RowFormat::kFp8DsMla) return "656 B";
    if (format == RowFormat::kDeepSeekV4) return "584 B";
    if (encoding == Encoding::kFp32) return "fp32";
    if (encoding == Encoding::kFp16) return "fp16";
    return encoding == Encoding::kBf16 ? "bf16" : "e4m3";
  }
  std::uint64_t element_bytes() const {
    if (encoding == Encoding::kFp8E4m3) return 1;
    return encoding == Encoding::kFp32 ? 4 : 2;
  }
};

inline void store_number(std::byte* to, Encoding encoding, float value) {
  if (encoding == Encoding::kFp32) {
    std::memcpy(to, &value, 4);
    return;
  }
  if (encoding == Encoding::kFp8E4m3) {
    *to = static_cast<std::byte>(e4m3_from_fp32_saturating(value));
    return;
  }
  const std::uint16_t bits =
      encoding == Encoding::kBf16 ? bf16_from_fp32(value) : fp16_from_fp32(value);
  std::memcpy(to, &bits, 2);
}

// A tile of e4m3 numbers divided by `scale`.
inline void store_e4m3(std::byte* to, std::span<const float> values, float scale) {
  for (const float value : values) store_number(to++, Encoding::kFp8E4m3, value / scale);
}

inline void store_bf16(std::byte* to, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_number(to + 2 * i, Encoding::kBf16, values[i]);
  }
}

// What brings the largest of them to e4m3's largest.
inline float e4m3_scale(std::span<const float> values) {
  float largest = 1e-4F;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest / kE4m3Largest;
}

// 576 numbers as [512 e4m3][4 fp32 scales][64 bf16].
inline void store_fp8_ds_mla(std::byte* row, std::span<const float> values) {
  for (std::size_t tile = 0; tile < 4; ++tile) {
    const std::span<const float> part = values.subspan(tile * 128, 128);
    const float scale = e4m3_scale(part);
    store_e4m3(row + tile * 128, part, scale);
    std::memcpy(row + 512 + tile * 4, &scale, 4);
  }
  store_bf16(row + 528, values.subspan(512, 64));
}

// 512 numbers as [448 e4m3][64 bf16] and 7 UE8M0 scales elsewhere.
inline void store_v4(std::byte* row, std::byte* scales, std::span<const float> values) {
  for (std::size_t tile = 0; tile < 7; ++tile) {
    const std::span<const float> part = values.subspan(tile * 64, 64);
    const int exponent = static_cast<int>(std::ceil(std::log2(e4m3_scale(part))));
    store_e4m3(row + tile * 64, part, std::ldexp(1.0F, exponent));
    scales[tile] = static_cast<std::byte>(exponent + 127);
  }
  scales[7] = std::byte{0xFF};  // padding: NaN as a scale
  store_bf16(row + 448, values.subspan(448, 64));
}

struct SpanPlan {
  std::uint64_t rows = 0;
  std::int64_t position = 0;
  std::int64_t delta = 0;
  std::uint64_t first_row = 0;
};

class AttentionCase {
 public:
  AttentionCase(AttentionShape shape, Storage of, std::uint64_t block_rows,
                std::uint64_t block_count, std::uint64_t seed = 1)
      : storage(of), random_(seed) {
    inputs.shape = shape;
    set_layout(block_rows, block_count);
    memory.resize(inputs.rows.block_bytes * block_count);
    inputs.rows.base = memory.data();
    free_blocks_.resize(block_count);
    std::iota(free_blocks_.begin(), free_blocks_.end(), 0U);
    std::shuffle(free_blocks_.begin(), free_blocks_.end(), random_);
    for (std::uint64_t block = 0; block < block_count; ++block) {
      for (std::uint64_t row = 0; row < block_rows; ++row) fill_row(block, row);
    }
  }

  // Views into its own memory move with it and must not be copied.
  AttentionCase(AttentionCase&&) = default;

  std::uint64_t row_elements() const {
    const AttentionShape& s = inputs.shape;
    return s.kind == RowKind::kLatent
               ? s.key_dim
               : std::uint64_t{s.kv_heads} * (std::uint64_t{s.key_dim} + s.value_dim);
  }

  std::byte* row_at(std::uint64_t block, std::uint64_t row) {
    return memory.data() + block * inputs.rows.block_bytes + row * inputs.rows.row_bytes;
  }
  std::byte* scales_at(std::uint64_t block, std::uint64_t row) {
    return memory.data() + block * inputs.rows.block_bytes + inputs.rows.scales_offset + row * 8;
  }
  // One number of a plain row, and what it holds with no scale applied.
  std::byte* element(std::uint64_t block, std::uint64_t row, std::uint64_t index) {
    return row_at(block, row) + index * storage.element_bytes();
  }
  void store(std::uint64_t block, std::uint64_t row, std::uint64_t index, float value) {
    store_number(element(block, row, index), storage.encoding, value);
  }
  // All numbers of a row: [row_elements()].
  void store_row(std::uint64_t block, std::uint64_t row, std::span<const float> values) {
    std::byte* to = row_at(block, row);
    if (storage.format == RowFormat::kFp8DsMla) return store_fp8_ds_mla(to, values);
    if (storage.format == RowFormat::kDeepSeekV4) {
      return store_v4(to, scales_at(block, row), values);
    }
    const std::uint64_t keys = std::uint64_t{inputs.shape.kv_heads} * inputs.shape.key_dim;
    const bool is_scaled = storage.encoding == Encoding::kFp8E4m3;
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      const float scale = i < keys ? inputs.rows.key_scale : inputs.rows.value_scale;
      store(block, row, i, is_scaled ? values[i] / scale : values[i]);
    }
  }

  std::vector<std::uint32_t> take_blocks(std::uint64_t count) {
    EMBLEMA_CHECK(count <= free_blocks_.size(), "enough blocks in the test's pool");
    std::vector<std::uint32_t> taken(free_blocks_.end() - static_cast<std::ptrdiff_t>(count),
                                     free_blocks_.end());
    free_blocks_.resize(free_blocks_.size() - count);
    return taken;
  }

  // A span over blocks of its own, or over `shared` ones.
  Span make_span(const SpanPlan& plan, std::vector<std::uint32_t> shared = {}) {
    const std::uint64_t rows = plan.first_row + plan.rows;
    const std::uint64_t count = (rows + inputs.rows.block_rows - 1) / inputs.rows.block_rows;
    tables_.push_back(shared.empty() ? take_blocks(count) : std::move(shared));
    Span span;
    span.blocks = tables_.back();
    span.first_row = plan.first_row;
    span.rows = plan.rows;
    span.position = plan.position;
    span.delta = plan.delta;
    return span;
  }

  void add_sequence(std::vector<Span> spans, std::uint64_t queries, std::int64_t query_position) {
    spans_.push_back(std::move(spans));
    SequenceInputs sequence;
    sequence.spans = spans_.back();
    sequence.first_query = inputs.tokens;
    sequence.queries = queries;
    sequence.query_position = query_position;
    sequences.push_back(sequence);
    inputs.sequences = sequences;
    const std::size_t first = q.size();
    q.resize(first + queries * inputs.shape.query_heads * inputs.shape.key_dim);
    for (std::size_t i = first; i < q.size(); ++i) q[i] = normal_(random_);
    inputs.q = q.data();
    inputs.tokens += queries;
    out.assign(inputs.tokens * inputs.shape.query_heads * inputs.shape.value_dim, -7.0F);
    lse.assign(inputs.tokens * inputs.shape.query_heads, -7.0F);
  }

  // `rows` tokens from position 0, the last `queries` of them asking.
  void add_plain_sequence(std::uint64_t rows, std::uint64_t queries) {
    add_sequence({make_span({.rows = rows})}, queries,
                 static_cast<std::int64_t>(rows) - static_cast<std::int64_t>(queries));
  }

  void add_sinks() {
    for (std::uint32_t i = 0; i < inputs.shape.query_heads; ++i) sinks.push_back(normal_(random_));
    inputs.sinks = sinks;
  }

  [[nodiscard]] Status decode() { return decode_attention(inputs, out, lse, options); }

  Storage storage;
  AttentionInputs inputs;
  AttentionOptions options;
  std::vector<std::byte> memory;
  std::vector<float> q;
  std::vector<float> sinks;
  std::vector<SequenceInputs> sequences;
  std::vector<float> out;
  std::vector<float> lse;

 private:
  // Rows and pages of odd sizes: nothing is aligned.
  void set_layout(std::uint64_t block_rows, std::uint64_t block_count) {
    PagedRows& rows = inputs.rows;
    rows.encoding = storage.encoding;
    rows.format = storage.format;
    rows.block_rows = block_rows;
    rows.block_count = block_count;
    rows.row_bytes = row_elements() * storage.element_bytes() + 6;
    if (storage.format == RowFormat::kFp8DsMla) rows.row_bytes = 656 + 5;
    if (storage.format == RowFormat::kDeepSeekV4) rows.row_bytes = 576 + 3;
    rows.block_bytes = block_rows * rows.row_bytes + 10;
    if (storage.encoding == Encoding::kFp8E4m3) {
      rows.key_scale = 0.0123F;
      rows.value_scale = 0.0371F;
    }
    if (storage.format != RowFormat::kDeepSeekV4) return;
    rows.scales_offset = block_rows * rows.row_bytes + 5;
    rows.block_bytes = rows.scales_offset + block_rows * 8 + 1;
  }
  void fill_row(std::uint64_t block, std::uint64_t row) {
    std::vector<float> values(row_elements());
    for (float& value : values) value = normal_(random_);
    store_row(block, row, values);
  }

  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
  std::vector<std::uint32_t> free_blocks_;
  std::deque<std::vector<std::uint32_t>> tables_;
  std::deque<std::vector<Span>> spans_;
};

inline AttentionShape latent_shape(std::uint32_t heads, std::uint32_t rank,
                                   std::uint32_t rope_dim) {
  AttentionShape shape;
  shape.kind = RowKind::kLatent;
  shape.query_heads = heads;
  shape.kv_heads = 1;
  shape.key_dim = rank + rope_dim;
  shape.value_dim = rank;
  shape.rotary_offset = rank;
  shape.scale = 1.0 / std::sqrt(static_cast<double>(shape.key_dim));
  return shape;
}

inline AttentionShape grouped_shape(std::uint32_t heads, std::uint32_t kv_heads,
                                    std::uint32_t key_dim, std::uint32_t value_dim) {
  AttentionShape shape;
  shape.query_heads = heads;
  shape.kv_heads = kv_heads;
  shape.key_dim = key_dim;
  shape.value_dim = value_dim;
  shape.scale = 1.0 / std::sqrt(static_cast<double>(key_dim));
  return shape;
}

// |a - b| / |b| over all elements; infinite where exactly one side is not finite.
template <class A, class B>
double relative_difference(const std::vector<A>& a, const std::vector<B>& b) {
  EMBLEMA_CHECK(a.size() == b.size(), "vectors of one size");
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!std::isfinite(x) || !std::isfinite(y)) return std::numeric_limits<double>::infinity();
    difference += (x - y) * (x - y);
  }
  for (const B& y : b) {
    if (std::isfinite(static_cast<double>(y))) norm += static_cast<double>(y) * y;
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / norm);
}

}  // namespace emblema::testing_support
