#include "emblema/kernels/reference/reference_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "emblema/contract/check.h"
#include "emblema/kernels/attention.h"

namespace emblema {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// A binary format by its definition (IEEE 754): sign, exponent, fraction.
double decode_binary(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = ((bits >> (exponent_bits + fraction_bits)) & 1U) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const std::uint32_t fraction = bits & ((1U << fraction_bits) - 1U);
  if (exponent == (1 << exponent_bits) - 1) {
    const double infinity = std::numeric_limits<double>::infinity();
    return fraction == 0 ? sign * infinity : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1U << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

std::uint64_t element_bytes(Encoding encoding) {
  return encoding == Encoding::kFp32 ? 4 : 2;
}

void append_row(const AttentionInputs& inputs, const std::byte* row, ReferenceRows& to) {
  const AttentionShape& shape = inputs.shape;
  const Encoding encoding = inputs.rows.encoding;
  const auto element = [&](std::uint64_t index) {
    return reference_element(row + index * element_bytes(encoding), encoding);
  };
  const std::uint64_t keys = std::uint64_t{shape.kv_heads} * shape.key_dim;
  const std::uint64_t values = std::uint64_t{shape.kv_heads} * shape.value_dim;
  const std::uint64_t first_value = shape.kind == RowKind::kLatent ? 0 : keys;
  for (std::uint64_t i = 0; i < keys; ++i) to.keys.push_back(element(i));
  for (std::uint64_t i = 0; i < values; ++i) to.values.push_back(element(first_value + i));
}

bool is_visible(std::int64_t key, std::int64_t query, const AttentionShape& shape) {
  if (key > query) return false;
  const auto chunk = static_cast<std::int64_t>(shape.chunk_tokens);
  if (chunk > 0 && key / chunk != query / chunk) return false;
  return shape.window_tokens == 0 || static_cast<std::uint64_t>(query - key) < shape.window_tokens;
}

double dot(const double* a, const double* b, std::size_t count) {
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

double logit_of(const AttentionShape& shape, double product) {
  const double z = shape.scale * product;
  return shape.softcap > 0.0 ? shape.softcap * std::tanh(z / shape.softcap) : z;
}

std::vector<double> turned_query(const AttentionShape& shape, const double* q, std::int64_t delta) {
  std::vector<double> turned(q, q + shape.key_dim);
  if (delta == 0) return turned;
  EMBLEMA_CHECK(shape.rope != nullptr, "a rope table where delta is not 0");
  shape.rope->turn(std::span(turned).subspan(shape.rotary_offset), -delta);
  return turned;
}

// One head: logits of all visible rows, then their softmax.
void reference_head(const AttentionShape& shape, const ReferenceRows& rows, const double* q,
                    std::uint32_t head, std::int64_t position, double* out, double* lse) {
  const std::size_t kv_head = head / (shape.query_heads / shape.kv_heads);
  std::vector<double> logits;
  std::vector<std::size_t> seen;
  std::int64_t delta = 0;
  std::vector<double> query = turned_query(shape, q, delta);
  for (std::size_t j = 0; j < rows.places.size(); ++j) {
    if (!is_visible(rows.places[j].attached, position, shape)) continue;
    if (rows.places[j].delta != delta) query = turned_query(shape, q, delta = rows.places[j].delta);
    const double* key = rows.keys.data() + (j * shape.kv_heads + kv_head) * shape.key_dim;
    logits.push_back(logit_of(shape, dot(query.data(), key, shape.key_dim)));
    seen.push_back(j);
  }
  std::fill_n(out, shape.value_dim, 0.0);
  *lse = kNothing;
  if (seen.empty()) return;
  const double top = *std::max_element(logits.begin(), logits.end());
  if (top == kNothing) return;
  double sum = 0.0;
  for (const double z : logits) sum += std::exp(z - top);
  *lse = top + std::log(sum);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const double weight = std::exp(logits[i] - top) / sum;
    const double* value =
        rows.values.data() + (seen[i] * shape.kv_heads + kv_head) * shape.value_dim;
    for (std::uint32_t c = 0; c < shape.value_dim; ++c) out[c] += weight * value[c];
  }
}

}  // namespace

double reference_element(const std::byte* from, Encoding encoding) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, from, element_bytes(encoding));
  if constexpr (std::endian::native == std::endian::big) {
    if (element_bytes(encoding) == 2) bits >>= 16;
  }
  if (encoding == Encoding::kBf16) return decode_binary(bits, 8, 7);
  if (encoding == Encoding::kFp16) return decode_binary(bits, 5, 10);
  EMBLEMA_CHECK(encoding == Encoding::kFp32, "rows of bf16, fp16 or fp32");
  return decode_binary(bits, 8, 23);
}

ReferenceRows reference_rows(const AttentionInputs& inputs, const SequenceInputs& sequence) {
  ReferenceRows rows;
  const PagedRows& memory = inputs.rows;
  for (const Span& span : sequence.spans) {
    for (std::uint64_t i = 0; i < span.rows; ++i) {
      const std::uint64_t row = span.first_row + i;
      const std::uint64_t block = span.blocks[row / memory.block_rows];
      append_row(
          inputs,
          memory.base + block * memory.block_bytes + (row % memory.block_rows) * memory.row_bytes,
          rows);
      rows.places.push_back(
          {span.position + span.delta + static_cast<std::int64_t>(i), span.delta});
    }
  }
  return rows;
}

void reference_query(const AttentionShape& shape, const ReferenceRows& rows,
                     std::span<const double> q, std::int64_t position, std::span<double> out,
                     std::span<double> lse) {
  for (std::uint32_t head = 0; head < shape.query_heads; ++head) {
    reference_head(shape, rows, q.data() + std::size_t{head} * shape.key_dim, head, position,
                   out.data() + std::size_t{head} * shape.value_dim, &lse[head]);
  }
}

void reference_merge(std::span<double> out, std::span<double> lse, std::span<const double> more_out,
                     std::span<const double> more_lse) {
  if (lse.empty()) return;
  const std::size_t width = out.size() / lse.size();
  for (std::size_t row = 0; row < lse.size(); ++row) {
    const double top = std::max(lse[row], more_lse[row]);
    const double a = top == kNothing ? 0.0 : std::exp(lse[row] - top);
    const double b = top == kNothing ? 0.0 : std::exp(more_lse[row] - top);
    for (std::size_t c = row * width; c < (row + 1) * width; ++c) {
      out[c] = top == kNothing ? 0.0 : (a * out[c] + b * more_out[c]) / (a + b);
    }
    lse[row] = top == kNothing ? kNothing : top + std::log(a + b);
  }
}

void reference_finish(std::span<double> out, std::span<const double> lse,
                      std::span<const float> sinks) {
  if (sinks.empty() || lse.empty()) return;
  const std::size_t width = out.size() / lse.size();
  for (std::size_t row = 0; row < lse.size(); ++row) {
    if (lse[row] == kNothing) continue;
    const double share = 1.0 / (1.0 + std::exp(double{sinks[row % sinks.size()]} - lse[row]));
    for (std::size_t c = row * width; c < (row + 1) * width; ++c) out[c] *= share;
  }
}

Status reference_attention(const AttentionInputs& inputs, std::span<double> out,
                           std::span<double> lse) {
  if (auto s = check_attention_inputs(inputs, out.size(), lse.size()); !s) return s;
  std::fill(out.begin(), out.end(), 0.0);
  std::fill(lse.begin(), lse.end(), kNothing);
  const AttentionShape& shape = inputs.shape;
  const std::size_t query_width = std::size_t{shape.query_heads} * shape.key_dim;
  const std::size_t out_width = std::size_t{shape.query_heads} * shape.value_dim;
  for (const SequenceInputs& sequence : inputs.sequences) {
    const ReferenceRows rows = reference_rows(inputs, sequence);
    for (std::uint64_t i = 0; i < sequence.queries; ++i) {
      const std::uint64_t token = sequence.first_query + i;
      const float* q = inputs.q + token * query_width;
      const std::vector<double> query(q, q + query_width);
      reference_query(shape, rows, query, sequence.query_position + static_cast<std::int64_t>(i),
                      out.subspan(token * out_width, out_width),
                      lse.subspan(token * shape.query_heads, shape.query_heads));
    }
  }
  reference_finish(out, lse, inputs.sinks);
  return {};
}

}  // namespace emblema
