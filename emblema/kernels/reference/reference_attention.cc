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
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Binary {
  int exponent_bits;
  int fraction_bits;
};

// A number with that exponent and fraction, by the definition of a binary format (IEEE 754).
double finite_binary(std::uint32_t bits, Binary form) {
  const int bias = (1 << (form.exponent_bits - 1)) - 1;
  const double sign = ((bits >> (form.exponent_bits + form.fraction_bits)) & 1U) != 0 ? -1.0 : 1.0;
  const int exponent =
      static_cast<int>(bits >> form.fraction_bits) & ((1 << form.exponent_bits) - 1);
  const std::uint32_t fraction = bits & ((1U << form.fraction_bits) - 1U);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - form.fraction_bits);
  return sign *
         std::ldexp((1U << form.fraction_bits) + fraction, exponent - bias - form.fraction_bits);
}

// As IEEE 754 has it: the largest exponent is infinity and NaN.
double decode_binary(std::uint32_t bits, Binary form) {
  const std::uint32_t magnitude = bits & ((1U << (form.exponent_bits + form.fraction_bits)) - 1U);
  const std::uint32_t infinity = ((1U << form.exponent_bits) - 1U) << form.fraction_bits;
  if (magnitude > infinity) return kNan;
  if (magnitude < infinity) return finite_binary(bits, form);
  return magnitude == bits ? -kNothing : kNothing;
}

// OCP 8-bit Floating Point Specification 1.0, section 5.2: only 0x7f and 0xff are no numbers.
double decode_e4m3(std::uint32_t bits) {
  return (bits & 0x7fU) == 0x7fU ? kNan : finite_binary(bits, {4, 3});
}

// OCP Microscaling Formats 1.0, section 5.4.1.
double decode_ue8m0(std::byte stored) {
  const auto bits = static_cast<int>(stored);
  return bits == 255 ? kNan : std::ldexp(1.0, bits - 127);
}

std::uint64_t element_bytes(Encoding encoding) {
  if (encoding == Encoding::kFp8E4m3) return 1;
  return encoding == Encoding::kFp32 ? 4 : 2;
}

// Appends `count` numbers times `scale`; returns what lies behind them.
const std::byte* append_numbers(const std::byte* from, std::uint64_t count, Encoding encoding,
                                double scale, std::vector<double>& to) {
  for (std::uint64_t i = 0; i < count; ++i, from += element_bytes(encoding)) {
    to.push_back(reference_element(from, encoding) * scale);
  }
  return from;
}

// [512 e4m3][4 fp32 scales, of 128 each][64 bf16]
void append_fp8_ds_mla(const std::byte* row, std::vector<double>& to) {
  const std::byte* scales = row + 512;
  for (std::uint64_t tile = 0; tile < 4; ++tile) {
    const double scale = reference_element(scales + tile * 4, Encoding::kFp32);
    append_numbers(row + tile * 128, 128, Encoding::kFp8E4m3, scale, to);
  }
  append_numbers(scales + 16, 64, Encoding::kBf16, 1.0, to);
}

// [448 e4m3][64 bf16], and 7 UE8M0 scales of 64 each elsewhere.
void append_v4(const std::byte* row, const std::byte* scales, std::vector<double>& to) {
  for (std::uint64_t tile = 0; tile < 7; ++tile) {
    append_numbers(row + tile * 64, 64, Encoding::kFp8E4m3, decode_ue8m0(scales[tile]), to);
  }
  append_numbers(row + 448, 64, Encoding::kBf16, 1.0, to);
}

void append_plain(const AttentionInputs& inputs, const std::byte* row, ReferenceRows& to) {
  const AttentionShape& shape = inputs.shape;
  const PagedRows& rows = inputs.rows;
  const bool is_scaled = rows.encoding == Encoding::kFp8E4m3;
  const double key_scale = is_scaled ? double{rows.key_scale} : 1.0;
  const double value_scale = is_scaled ? double{rows.value_scale} : 1.0;
  const std::byte* values = append_numbers(row, std::uint64_t{shape.kv_heads} * shape.key_dim,
                                           rows.encoding, key_scale, to.keys);
  if (shape.kind == RowKind::kLatent) return;
  append_numbers(values, std::uint64_t{shape.kv_heads} * shape.value_dim, rows.encoding,
                 value_scale, to.values);
}

// `page` is the address of the row's page of its block.
void append_row(const AttentionInputs& inputs, const std::byte* page, std::uint64_t row,
                ReferenceRows& to) {
  const PagedRows& layout = inputs.rows;
  const std::byte* bytes = page + row * layout.row_bytes;
  const std::size_t first = to.keys.size();
  switch (layout.format) {
    case RowFormat::kPlain:
      append_plain(inputs, bytes, to);
      break;
    case RowFormat::kFp8DsMla:
      append_fp8_ds_mla(bytes, to.keys);
      break;
    case RowFormat::kDeepSeekV4:
      append_v4(bytes, page + layout.scales_offset + row * 8, to.keys);
      break;
  }
  if (inputs.shape.kind != RowKind::kLatent) return;
  for (std::uint64_t i = 0; i < inputs.shape.value_dim; ++i) {
    to.values.push_back(to.keys[first + i]);
  }
}

// Number of a position's chunk: floor(position / chunk), before 0 too.
std::int64_t chunk_of(std::int64_t position, std::uint64_t chunk) {
  const auto size = static_cast<std::uint64_t>(position < 0 ? -(position + 1) : position) / chunk;
  const auto whole = static_cast<std::int64_t>(size);
  return position < 0 ? -1 - whole : whole;
}

bool is_visible(std::int64_t key, std::int64_t query, const AttentionShape& shape) {
  if (key > query) return false;
  const std::uint64_t chunk = shape.chunk_tokens;
  if (chunk > 0 && chunk_of(key, chunk) != chunk_of(query, chunk)) return false;
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
    bits >>= 32 - 8 * element_bytes(encoding);
  }
  if (encoding == Encoding::kFp8E4m3) return decode_e4m3(bits);
  if (encoding == Encoding::kBf16) return decode_binary(bits, {8, 7});
  if (encoding == Encoding::kFp16) return decode_binary(bits, {5, 10});
  EMBLEMA_CHECK(encoding == Encoding::kFp32, "rows of bf16, fp16, fp32 or e4m3");
  return decode_binary(bits, {8, 23});
}

ReferenceRows reference_rows(const AttentionInputs& inputs, const SequenceInputs& sequence) {
  ReferenceRows rows;
  const PagedRows& memory = inputs.rows;
  for (const Span& span : sequence.spans) {
    for (std::uint64_t i = 0; i < span.rows; ++i) {
      const std::uint64_t row = span.first_row + i;
      const std::uint64_t block = span.blocks[row / memory.block_rows];
      append_row(inputs, memory.base + block * memory.block_bytes, row % memory.block_rows, rows);
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
