// For tests: an attention call that owns its memory, filled from a seed.
//
// Sequences are added span by span; rows go to blocks in a shuffled order, so that nothing passes
// by reading memory in sequence. Spans may share blocks. Numbers are drawn N(0, 1).
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "emblema/contract/check.h"
#include "emblema/kernels/attention.h"
#include "emblema/kernels/reference/reference_attention.h"
#include "emblema/layout/convert.h"

namespace emblema::testing_support {

inline void store_number(std::byte* to, Encoding encoding, float value) {
  if (encoding == Encoding::kFp32) {
    std::memcpy(to, &value, 4);
    return;
  }
  const std::uint16_t bits =
      encoding == Encoding::kBf16 ? bf16_from_fp32(value) : fp16_from_fp32(value);
  std::memcpy(to, &bits, 2);
}

struct SpanPlan {
  std::uint64_t rows = 0;
  std::int64_t position = 0;
  std::int64_t delta = 0;
  std::uint64_t first_row = 0;
};

class AttentionCase {
 public:
  AttentionCase(AttentionShape shape, Encoding encoding, std::uint64_t block_rows,
                std::uint64_t block_count, std::uint64_t seed = 1)
      : random_(seed) {
    inputs.shape = shape;
    inputs.rows.encoding = encoding;
    inputs.rows.block_rows = block_rows;
    inputs.rows.row_bytes = row_elements() * element_bytes() + 6;  // rows need no alignment
    inputs.rows.block_bytes = block_rows * inputs.rows.row_bytes + 10;
    inputs.rows.block_count = block_count;
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
  std::uint64_t element_bytes() const { return inputs.rows.encoding == Encoding::kFp32 ? 4 : 2; }

  std::byte* element(std::uint64_t block, std::uint64_t row, std::uint64_t index) {
    return memory.data() + block * inputs.rows.block_bytes + row * inputs.rows.row_bytes +
           index * element_bytes();
  }
  void store(std::uint64_t block, std::uint64_t row, std::uint64_t index, float value) {
    store_number(element(block, row, index), inputs.rows.encoding, value);
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

  [[nodiscard]] Status decode() { return decode_attention(inputs, out, lse); }

  AttentionInputs inputs;
  std::vector<std::byte> memory;
  std::vector<float> q;
  std::vector<float> sinks;
  std::vector<SequenceInputs> sequences;
  std::vector<float> out;
  std::vector<float> lse;

 private:
  void fill_row(std::uint64_t block, std::uint64_t row) {
    for (std::uint64_t i = 0; i < row_elements(); ++i) store(block, row, i, normal_(random_));
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
