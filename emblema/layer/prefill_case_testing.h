// What the prefill tests share: rows scattered over blocks, and the definition of attention
// (kernels/attention.h) as plain loops in double. Part of no library.
#pragma once

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "emblema/kernels/append.h"
#include "emblema/kernels/reference/reference_attention.h"
#include "emblema/layer/prefill.h"
#include "emblema/layer/small_layers_testing.h"

namespace emblema::prefill_case {

using small_layers::apply;
using small_layers::Doubles;
using small_layers::Made;
using small_layers::turn;
using small_layers::values;

// Results are averages of values of order 1 under logits of order 3: a few hundred roundings of
// 2^-24 each, in another order than the loops here.
inline constexpr double kTolerance = 1e-5;

// Scaled so that logits are of order 3.
inline Made latent() {
  Made made = small_layers::latent();
  made.layer.scale = 0.7;
  return made;
}

inline Made grouped() {
  Made made = small_layers::grouped();
  made.layer.scale = 0.7;
  return made;
}

// Rows in blocks of 4 tokens, blocks in an order of their own, each with unused bytes behind it.
class Pages {
 public:
  static constexpr std::uint64_t kBlockRows = 4;

  Pages(std::span<const float> rows, std::uint64_t row_elements, Encoding encoding,
        std::uint64_t first_row = 0) {
    const std::uint64_t count = rows.size() / row_elements;
    const std::uint64_t row_bytes = row_elements * (bits_per_element(encoding) / 8);
    const std::uint64_t blocks = (first_row + count) / kBlockRows + 1;
    paged_ = {nullptr, kBlockRows * row_bytes + 64, row_bytes, kBlockRows, encoding, blocks};
    bytes_.assign(blocks * paged_.block_bytes, std::byte{0x7f});
    for (std::uint64_t b = 0; b < blocks; ++b) {
      order_.push_back(static_cast<std::uint32_t>(blocks - 1 - b));
    }
    AppendInputs inputs;
    inputs.shape.kind = RowKind::kLatent;  // a row of numbers, whatever they mean
    inputs.shape.kv_heads = 1;
    inputs.shape.key_dim = static_cast<std::uint32_t>(row_elements);
    inputs.shape.value_dim = 1;
    inputs.numbers = rows;
    EXPECT_TRUE(append_rows(inputs, {bytes_.data(), paged_, order_, first_row}));
  }

  PagedRows paged() const {
    PagedRows paged = paged_;
    paged.base = bytes_.data();
    return paged;
  }
  const std::vector<std::uint32_t>& order() const { return order_; }

 private:
  PagedRows paged_;
  std::vector<std::byte> bytes_;
  std::vector<std::uint32_t> order_;
};

// What a kernel is expected to see: rows as they are read, each at its attached position.
struct Cached {
  std::vector<float> rows;
  std::vector<std::int64_t> attached;
  std::vector<std::int64_t> deltas;
};

struct KeyValue {
  Doubles key;
  Doubles value;
};

// The expanded key and value of one head, the key turned to the attached position.
inline KeyValue key_value(const AttentionLayer& layer, const Cached& cached, std::size_t row,
                          std::size_t head) {
  const LayerDims& dims = layer.dims();
  const std::size_t rotary_dim = layer.rope().rotary_dim();
  const auto by = static_cast<double>(cached.deltas[row]);
  const std::span<const float> stored =
      std::span(cached.rows).subspan(row * dims.row_elements(), dims.row_elements());
  if (dims.is_latent()) {
    const std::span<const float> c = stored.first(dims.latent_dim);
    KeyValue made{apply(layer.weights().key_up, head * dims.content_dim, dims.content_dim, c),
                  apply(layer.weights().value_up, head * dims.value_dim, dims.value_dim, c)};
    made.key.insert(made.key.end(), stored.begin() + static_cast<std::ptrdiff_t>(dims.latent_dim),
                    stored.end());
    turn(made.key, dims.content_dim, rotary_dim, true, by);
    return made;
  }
  const std::size_t kv_head = head / (dims.query_heads / dims.kv_heads);
  const std::span<const float> key = stored.subspan(kv_head * dims.content_dim, dims.content_dim);
  const std::span<const float> value =
      stored.subspan(dims.kv_heads * dims.content_dim + kv_head * dims.value_dim, dims.value_dim);
  KeyValue made{{key.begin(), key.end()}, {value.begin(), value.end()}};
  turn(made.key, 0, rotary_dim, false, by);
  return made;
}

struct Expected {
  Doubles out;
  double lse = -std::numeric_limits<double>::infinity();
};

// One query and head, by the definition (kernels/attention.h), in double.
inline Expected attend(const AttentionLayer& layer, const Cached& cached,
                       std::span<const float> query, std::int64_t position, std::size_t head) {
  const AttentionShape shape = layer.shape();
  Doubles weighted(layer.dims().value_dim, 0.0);
  double sum = 0;
  for (std::size_t row = 0; row < cached.attached.size(); ++row) {
    const std::int64_t distance = position - cached.attached[row];
    if (distance < 0) continue;
    if (shape.window_tokens > 0 && distance >= static_cast<std::int64_t>(shape.window_tokens)) {
      continue;
    }
    const auto chunk = static_cast<std::int64_t>(shape.chunk_tokens);
    if (chunk > 0 && cached.attached[row] / chunk != position / chunk) continue;
    const KeyValue kv = key_value(layer, cached, row, head);
    double z = 0;
    for (std::size_t i = 0; i < query.size(); ++i) z += query[i] * kv.key[i];
    z *= shape.scale;
    if (shape.softcap > 0) z = shape.softcap * std::tanh(z / shape.softcap);
    const double weight = std::exp(z);  // logits here are far from overflow
    sum += weight;
    for (std::size_t i = 0; i < weighted.size(); ++i) weighted[i] += weight * kv.value[i];
  }
  if (sum == 0) return {weighted, -std::numeric_limits<double>::infinity()};
  const double lse = std::log(sum);
  const double share =
      layer.sinks().empty() ? 1.0 : 1.0 / (1.0 + std::exp(layer.sinks()[head] - lse));
  for (double& value : weighted) value *= share / sum;
  return {weighted, lse};
}

// The widest instructions that keep fp32 sums over bf16 rows.
inline Isa exact_isa() {
  std::vector<Isa> isas = runnable_isas();
  std::erase(isas, Isa::kAmx);
  return isas.back();
}

struct Outcome {
  std::vector<float> out;
  std::vector<float> lse;
};

// Runs one sequence of which `queries` starts with the expanded or absorbed queries.
inline Outcome run(const AttentionLayer& layer, AttentionForm form, std::span<const float> queries,
                   std::span<const Span> spans, std::int64_t query_position,
                   const PagedRows& rows) {
  const LayerDims& dims = layer.dims();
  const std::uint64_t count = queries.size() / (dims.query_heads * dims.query_dim(form));
  Outcome outcome{std::vector<float>(count * dims.query_heads * dims.result_dim(form), 99.0F),
                  std::vector<float>(count * dims.query_heads, 99.0F)};
  const SequenceInputs sequence{spans, 0, count, query_position};
  AttentionOptions options;
  options.isa = exact_isa();
  const Status status =
      prefill(layer, form, queries, sequence, rows, outcome.out, outcome.lse, options);
  EXPECT_TRUE(status) << status.error().describe();
  return outcome;
}

// Absorbed results per head become values: W_UV,i u_i.
inline Doubles result_of(const AttentionLayer& layer, AttentionForm form, const Outcome& outcome,
                         std::uint64_t query, std::uint64_t head) {
  const LayerDims& dims = layer.dims();
  const std::uint64_t width = dims.result_dim(form);
  const std::span<const float> got =
      std::span(outcome.out).subspan((query * dims.query_heads + head) * width, width);
  if (dims.is_latent() && form == AttentionForm::kAbsorbed) {
    return apply(layer.weights().value_up, head * dims.value_dim, dims.value_dim, got);
  }
  return {got.begin(), got.end()};
}

inline void expect_definition(const AttentionLayer& layer, AttentionForm form,
                              const Outcome& outcome, const Cached& cached,
                              std::span<const float> expanded_queries,
                              std::int64_t query_position) {
  const LayerDims& dims = layer.dims();
  const std::uint64_t width = dims.head_key_dim();
  const std::uint64_t count = outcome.lse.size() / dims.query_heads;
  for (std::uint64_t query = 0; query < count; ++query) {
    for (std::uint64_t head = 0; head < dims.query_heads; ++head) {
      const std::uint64_t place = query * dims.query_heads + head;
      const Expected expected =
          attend(layer, cached, expanded_queries.subspan(place * width, width),
                 query_position + static_cast<std::int64_t>(query), head);
      const Doubles got = result_of(layer, form, outcome, query, head);
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected.out[i], kTolerance) << "query " << query << " head " << head;
      }
      if (std::isinf(expected.lse)) {
        ASSERT_EQ(static_cast<double>(outcome.lse[place]), expected.lse) << query;
      } else {
        ASSERT_NEAR(outcome.lse[place], expected.lse, kTolerance) << query;
      }
    }
  }
}

struct Prompt {
  std::vector<float> expanded;
  std::vector<float> absorbed;
  std::vector<float> rows;  // as the cache gives them back

  std::span<const float> queries(AttentionForm form) const {
    return form == AttentionForm::kExpanded ? expanded : absorbed;
  }
};

inline Prompt project(const AttentionLayer& layer, std::uint64_t count, std::int64_t first_position,
                      Encoding encoding, std::uint64_t key) {
  std::vector<std::int64_t> positions(count);
  std::iota(positions.begin(), positions.end(), first_position);
  const std::vector<float> hidden = values(count * layer.dims().hidden, key);
  LayerScratch scratch;
  Prompt prompt;
  auto got = layer.project(hidden, positions, AttentionForm::kExpanded, scratch).value();
  prompt.expanded.assign(got.queries.begin(), got.queries.end());
  got = layer.project(hidden, positions, AttentionForm::kAbsorbed, scratch).value();
  prompt.absorbed.assign(got.queries.begin(), got.queries.end());
  const std::uint64_t row_bytes = got.row_elements * (bits_per_element(encoding) / 8);
  std::vector<std::byte> bytes(count * row_bytes);
  const PagedRows stored{.row_bytes = row_bytes, .encoding = encoding};
  EXPECT_TRUE(encode_rows(got, 0, count, contiguous_rows(bytes.data(), count, stored)));
  prompt.rows.resize(count * got.row_elements);
  for (std::uint64_t i = 0; i < prompt.rows.size(); ++i) {  // rows lie one behind the other
    const std::byte* stored_number = bytes.data() + i * (bits_per_element(encoding) / 8);
    prompt.rows[i] = static_cast<float>(reference_element(stored_number, encoding));
  }
  return prompt;
}

inline Cached in_place(const std::vector<float>& rows, std::uint64_t count, std::int64_t first) {
  Cached cached{rows, std::vector<std::int64_t>(count), std::vector<std::int64_t>(count, 0)};
  std::iota(cached.attached.begin(), cached.attached.end(), first);
  return cached;
}

}  // namespace emblema::prefill_case
