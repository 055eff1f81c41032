// What every kernel refuses before it works. Messages are built from the value that was checked.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/kernels/attention.h"
#include "emblema/kernels/check_rows.h"

namespace emblema {
namespace {

using Limits = AttentionLimits;

template <class Value>
tl::unexpected<Error> invalid(std::string_view field, const Value& value,
                              std::string_view allowed) {
  return fail(ErrorCode::Invalid, fmt::format("{} is {}; allowed: {}", field, value, allowed));
}

// Which sequence and span a field belongs to, if any. Put into words only when something is wrong:
// a call that passes must not allocate.
struct Where {
  std::optional<std::size_t> sequence = {};
  std::optional<std::size_t> span = {};

  std::string name(std::string_view field) const {
    if (!sequence) return std::string(field);
    if (!span) return fmt::format("sequence {} {}", *sequence, field);
    return fmt::format("sequence {} span {} {}", *sequence, *span, field);
  }
};

template <class T>
bool is_null(std::span<T> memory) {
  return memory.data() == nullptr && !memory.empty();
}

Status check_range(std::string_view field, std::uint64_t value, std::uint64_t most) {
  if (value >= 1 && value <= most) return {};
  return invalid(field, value, fmt::format("1 to {}", most));
}

Status check_position(const Where& where, std::string_view field, std::int64_t value) {
  if (value >= -Limits::kPositionMax && value <= Limits::kPositionMax) return {};
  return invalid(where.name(field), value,
                 fmt::format("{} to {}", -Limits::kPositionMax, Limits::kPositionMax));
}

Status check_heads(const AttentionShape& shape) {
  if (auto s = check_range("query_heads", shape.query_heads, Limits::kHeadsMax); !s) return s;
  if (auto s = check_range("kv_heads", shape.kv_heads, shape.query_heads); !s) return s;
  if (shape.query_heads % shape.kv_heads != 0) {
    return invalid("kv_heads", shape.kv_heads,
                   fmt::format("a divisor of query_heads ({})", shape.query_heads));
  }
  if (shape.kind == RowKind::kLatent && shape.kv_heads != 1) {
    return invalid("kv_heads", shape.kv_heads, "1 with latent rows");
  }
  return {};
}

Status check_kind(const AttentionShape& shape) {
  if (shape.kind == RowKind::kLatent || shape.kind == RowKind::kGrouped) return {};
  return invalid("kind", static_cast<int>(shape.kind), "kLatent (0) or kGrouped (1)");
}

Status check_widths(const AttentionShape& shape) {
  if (auto s = check_range("key_dim", shape.key_dim, Limits::kHeadWidthMax); !s) return s;
  const bool is_latent = shape.kind == RowKind::kLatent;
  const std::uint32_t value_most = is_latent ? shape.key_dim : Limits::kHeadWidthMax;
  return check_range("value_dim", shape.value_dim, value_most);
}

// Kernels compute logits in fp32: what rounds to infinity there, or a cap that rounds to 0 and so
// to none, would quietly be another question.
Status check_logits(const AttentionShape& shape) {
  constexpr double kMost = std::numeric_limits<float>::max();
  constexpr double kLeast = std::numeric_limits<float>::min();
  const double size = std::abs(shape.scale);
  if (!(size <= kMost)) {
    return invalid("scale", shape.scale, fmt::format("a number from {} to {}", -kMost, kMost));
  }
  if (shape.softcap == 0.0) return {};
  const double least = std::max(kLeast, size / kMost);
  if (shape.softcap >= least && shape.softcap <= kMost) return {};
  return invalid("softcap", shape.softcap,
                 fmt::format("0 or from {} to {} with scale {}", least, kMost, shape.scale));
}

Status check_shape(const AttentionShape& shape) {
  if (auto s = check_kind(shape); !s) return s;
  if (auto s = check_heads(shape); !s) return s;
  if (auto s = check_widths(shape); !s) return s;
  if (auto s = check_logits(shape); !s) return s;
  return check_rotary_channels(shape, shape.rope);
}

// 0 where rows of this encoding cannot be read.
std::uint64_t element_bytes(Encoding encoding) {
  switch (encoding) {
    case Encoding::kFp32:
      return 4;
    case Encoding::kFp16:
    case Encoding::kBf16:
      return 2;
    case Encoding::kFp8E4m3:
      return 1;
    default:
      return 0;
  }
}

Status check_scale(std::string_view field, float scale) {
  if (std::isfinite(scale) && scale > 0.0F) return {};
  return invalid(field, scale, "a finite number above 0");
}

// Bytes that a row must have. 0: an encoding that cannot be read.
std::uint64_t plain_row_bytes(const AttentionShape& shape, const PagedRows& rows) {
  const std::uint64_t elements =
      shape.kind == RowKind::kLatent
          ? shape.key_dim
          : std::uint64_t{shape.kv_heads} * (std::uint64_t{shape.key_dim} + shape.value_dim);
  return elements * element_bytes(rows.encoding);
}

Status check_plain_rows(const AttentionShape& shape, const PagedRows& rows) {
  const std::uint64_t element = element_bytes(rows.encoding);
  if (element == 0) {
    return invalid("rows.encoding", static_cast<int>(rows.encoding),
                   "fp32 (1), fp16 (2), bf16 (3), fp8_e4m3 (4)");
  }
  if (auto s = check_scale("rows.key_scale", rows.key_scale); !s) return s;
  if (auto s = check_scale("rows.value_scale", rows.value_scale); !s) return s;
  const std::uint64_t least = plain_row_bytes(shape, rows);
  if (rows.row_bytes >= least) return {};
  return invalid(
      "rows.row_bytes", rows.row_bytes,
      fmt::format("at least {}, {} elements of {} bytes", least, least / element, element));
}

// Formats of one shape: a latent of `key_dim` numbers in `row_bytes`.
Status check_fixed_rows(const AttentionShape& shape, const PagedRows& rows, std::string_view name,
                        std::uint32_t key_dim, std::uint32_t value_dim, std::uint64_t row_bytes) {
  if (shape.kind != RowKind::kLatent || shape.key_dim != key_dim || shape.value_dim != value_dim) {
    return invalid(
        "rows.format", name,
        fmt::format("with latent rows of key_dim {} and value_dim {} only", key_dim, value_dim));
  }
  if (rows.row_bytes >= row_bytes) return {};
  return invalid("rows.row_bytes", rows.row_bytes,
                 fmt::format("at least {} in {}", row_bytes, name));
}

Status check_planar_scales(const PagedRows& rows, std::uint64_t page_bytes) {
  const auto scale_bytes = checked_mul(rows.block_rows, 8);
  const auto end = scale_bytes ? checked_add(rows.scales_offset, *scale_bytes) : std::nullopt;
  if (rows.scales_offset >= page_bytes && end && *end <= rows.block_bytes) return {};
  return invalid("rows.scales_offset", rows.scales_offset,
                 fmt::format("behind the rows ({} bytes), 8 bytes a row within block_bytes ({})",
                             page_bytes, rows.block_bytes));
}

Status check_format(const AttentionShape& shape, const PagedRows& rows) {
  switch (rows.format) {
    case RowFormat::kPlain:
      return check_plain_rows(shape, rows);
    case RowFormat::kFp8DsMla:
      return check_fixed_rows(shape, rows, "fp8_ds_mla (1)", 576, 512, 656);
    case RowFormat::kDeepSeekV4:
      return check_fixed_rows(shape, rows, "deepseek_v4 (2)", 512, 512, 576);
  }
  return invalid("rows.format", static_cast<int>(rows.format),
                 "plain (0), fp8_ds_mla (1), deepseek_v4 (2)");
}

Status check_rows(const AttentionShape& shape, const PagedRows& rows) {
  if (auto s = check_format(shape, rows); !s) return s;
  if (rows.block_rows == 0) return invalid("rows.block_rows", 0, "at least 1");
  const auto page_bytes = checked_mul(rows.block_rows, rows.row_bytes);
  if (!page_bytes || rows.block_bytes < *page_bytes) {
    return invalid(
        "rows.block_bytes", rows.block_bytes,
        fmt::format("at least block_rows ({}) x row_bytes ({})", rows.block_rows, rows.row_bytes));
  }
  if (rows.format == RowFormat::kDeepSeekV4) return check_planar_scales(rows, *page_bytes);
  return {};
}

// The span's rows lie in its blocks, and its blocks at offsets that a pointer can reach.
Status check_span_memory(const PagedRows& rows, const Span& span, const Where& where) {
  if (rows.base == nullptr) return invalid("rows.base", "null", "the address of the rows");
  if (span.blocks.data() == nullptr) return invalid(where.name("blocks"), "null", "block indexes");
  const auto held = checked_mul(span.blocks.size(), rows.block_rows);
  const auto end = checked_add(span.first_row, span.rows);
  if (!held || !end || *end > *held) {
    return invalid(where.name("first_row + rows"),
                   fmt::format("{} + {}", span.first_row, span.rows),
                   fmt::format("at most {}, {} blocks of {} rows", held.value_or(0),
                               span.blocks.size(), rows.block_rows));
  }
  // Of the blocks that are read: a table may be longer than its span, and many spans share one.
  const auto first_block = static_cast<std::size_t>(span.first_row / rows.block_rows);
  const auto end_block = static_cast<std::size_t>((*end - 1) / rows.block_rows) + 1;
  const auto read = span.blocks.subspan(first_block, end_block - first_block);
  const std::uint64_t last = *std::max_element(read.begin(), read.end());
  if (rows.block_count > 0 && last >= rows.block_count) {
    return invalid(where.name("blocks"), last,
                   fmt::format("indexes below rows.block_count ({})", rows.block_count));
  }
  const auto reach = checked_mul(last + 1, rows.block_bytes);
  if (!reach || *reach > std::uint64_t{INT64_MAX}) {
    return invalid(
        where.name("blocks"), last,
        fmt::format("indexes whose offset (x {} bytes) is below 2^63", rows.block_bytes));
  }
  return {};
}

Status check_relocation(const AttentionShape& shape, const Span& span, const Where& where) {
  if (span.delta == 0) return {};
  if (shape.rope == nullptr) {
    return fail(ErrorCode::Unsupported,
                fmt::format("{} is {}, which needs the layer's rope table; none was given",
                            where.name("delta"), span.delta));
  }
  if (shape.kind == RowKind::kLatent && shape.rope->rotary_dim() > 0 &&
      shape.rotary_offset < shape.value_dim) {
    return fail(
        ErrorCode::Unsupported,
        fmt::format("{} is {}, but the rows' values carry the rotation (rotary_offset {} is "
                    "below value_dim {}): they cannot be read at another position",
                    where.name("delta"), span.delta, shape.rotary_offset, shape.value_dim));
  }
  if (!shape.rope->fixed_frequencies()) {
    return fail(ErrorCode::Unsupported,
                fmt::format("{} is {}, but the rope's frequencies depend on the sequence's "
                            "length: its rows cannot be read at another position",
                            where.name("delta"), span.delta));
  }
  return {};
}

Status check_span_positions(const Span& span, const Where& where) {
  if (auto s = check_position(where, "position", span.position); !s) return s;
  if (auto s = check_position(where, "delta", span.delta); !s) return s;
  const std::int64_t attached = span.position + span.delta;
  if (auto s = check_position(where, "position + delta", attached); !s) return s;
  const auto room = static_cast<std::uint64_t>(Limits::kPositionMax - attached);
  if (span.rows <= room) return {};
  return invalid(where.name("rows"), span.rows,
                 fmt::format("at most {} from attached position {}", room, attached));
}

Status check_spans(const AttentionInputs& inputs, std::size_t sequence_index) {
  const SequenceInputs& sequence = inputs.sequences[sequence_index];
  std::int64_t next_free = -Limits::kPositionMax;
  for (std::size_t i = 0; i < sequence.spans.size(); ++i) {
    const Span& span = sequence.spans[i];
    if (span.rows == 0) continue;  // nothing of it is read
    const Where where{sequence_index, i};
    if (auto s = check_span_positions(span, where); !s) return s;
    if (auto s = check_span_memory(inputs.rows, span, where); !s) return s;
    if (auto s = check_relocation(inputs.shape, span, where); !s) return s;
    const std::int64_t attached = span.position + span.delta;
    if (attached < next_free) {
      return invalid(where.name("position + delta"), attached,
                     fmt::format("at least {}, where the spans before it end", next_free));
    }
    next_free = attached + static_cast<std::int64_t>(span.rows);
  }
  return {};
}

Status check_queries(const AttentionInputs& inputs, const SequenceInputs& sequence,
                     std::uint64_t next_query, const Where& where) {
  if (sequence.first_query < next_query) {
    return invalid(where.name("first_query"), sequence.first_query,
                   fmt::format("at least {}, where the sequences before it end", next_query));
  }
  const auto end = checked_add(sequence.first_query, sequence.queries);
  if (!end || *end > inputs.tokens) {
    return invalid(where.name("first_query + queries"),
                   fmt::format("{} + {}", sequence.first_query, sequence.queries),
                   fmt::format("at most tokens ({})", inputs.tokens));
  }
  if (auto s = check_position(where, "query_position", sequence.query_position); !s) return s;
  const auto room = static_cast<std::uint64_t>(Limits::kPositionMax - sequence.query_position);
  if (sequence.queries <= room) return {};
  return invalid(where.name("queries"), sequence.queries,
                 fmt::format("at most {} from position {}", room, sequence.query_position));
}

Status check_sequences(const AttentionInputs& inputs) {
  std::uint64_t next_query = 0;
  for (std::size_t i = 0; i < inputs.sequences.size(); ++i) {
    const SequenceInputs& sequence = inputs.sequences[i];
    if (auto s = check_queries(inputs, sequence, next_query, Where{i}); !s) return s;
    if (is_null(sequence.spans)) return invalid(Where{i}.name("spans"), "null", "spans, or none");
    if (auto s = check_spans(inputs, i); !s) return s;
    next_query = sequence.first_query + sequence.queries;
  }
  return {};
}

Status check_size(std::string_view field, std::uint64_t size, std::uint64_t rows,
                  std::uint64_t width, std::string_view factors) {
  const auto wanted = checked_mul(rows, width);
  if (wanted && size == *wanted) return {};
  return invalid(field, size, fmt::format("{} ({} x {})", factors, rows, width));
}

// What is asked of a call: widths of a query and of a result, per head.
Status check_call(const AttentionInputs& inputs, std::uint64_t query_width,
                  std::uint64_t result_width, std::uint64_t out_size, std::uint64_t lse_size) {
  const AttentionShape& shape = inputs.shape;
  if (auto s = check_rows(shape, inputs.rows); !s) return s;
  const std::uint64_t lse_row = shape.query_heads;
  if (auto s = check_size("size of out", out_size, inputs.tokens, lse_row * result_width,
                          "tokens x query_heads x value_dim");
      !s) {
    return s;
  }
  if (auto s = check_size("size of lse", lse_size, inputs.tokens, lse_row, "tokens x query_heads");
      !s) {
    return s;
  }
  if (!checked_mul(inputs.tokens, lse_row * query_width * sizeof(float))) {
    return invalid("tokens", inputs.tokens, "a count whose queries fit 64-bit addresses");
  }
  if (inputs.q == nullptr && inputs.tokens > 0) {
    return invalid("q", "null", "the address of the queries");
  }
  if (is_null(inputs.sinks)) return invalid("sinks", "null", "logits, or none");
  if (is_null(inputs.sequences)) return invalid("sequences", "null", "sequences, or none");
  if (!inputs.sinks.empty() && inputs.sinks.size() != shape.query_heads) {
    return invalid("size of sinks", inputs.sinks.size(),
                   fmt::format("0 or query_heads ({})", shape.query_heads));
  }
  return check_sequences(inputs);
}

Status check_expansion(const AttentionShape& shape, const LatentExpansion& expansion) {
  if (shape.kind != RowKind::kLatent) {
    return invalid("expansion", "given over grouped rows", "over latent rows");
  }
  const std::uint32_t rope = shape.key_dim - shape.value_dim;
  if (rope >= Limits::kHeadWidthMax) {
    return invalid("key_dim - value_dim", rope, "room for the content of a key");
  }
  if (auto s =
          check_range("expansion.content_dim", expansion.content_dim, Limits::kHeadWidthMax - rope);
      !s) {
    return s;
  }
  if (auto s = check_range("expansion.value_dim", expansion.value_dim, Limits::kHeadWidthMax); !s) {
    return s;
  }
  if (is_null(expansion.key_up)) return invalid("expansion.key_up", "null", "weights");
  if (is_null(expansion.value_up)) return invalid("expansion.value_up", "null", "weights");
  const std::uint64_t outputs = std::uint64_t{shape.query_heads} * shape.value_dim;
  if (auto s = check_size("size of expansion.key_up", expansion.key_up.size(),
                          expansion.content_dim, outputs, "content_dim x query_heads x latent_dim");
      !s) {
    return s;
  }
  return check_size("size of expansion.value_up", expansion.value_up.size(), expansion.value_dim,
                    outputs, "value_dim x query_heads x latent_dim");
}

}  // namespace

Status check_row_shape(const AttentionShape& shape) {
  if (auto s = check_kind(shape); !s) return s;
  if (auto s = check_range("kv_heads", shape.kv_heads, Limits::kHeadsMax); !s) return s;
  if (shape.kind == RowKind::kLatent && shape.kv_heads != 1) {
    return invalid("kv_heads", shape.kv_heads, "1 with latent rows");
  }
  return check_widths(shape);
}

Status check_rotary_channels(const AttentionShape& shape, const RopeTable* rope) {
  if (rope == nullptr) return {};
  const std::uint64_t rotary_end = std::uint64_t{shape.rotary_offset} + rope->rotary_dim();
  if (rotary_end <= shape.key_dim) return {};
  return invalid("rotary_offset + rotary_dim", rotary_end,
                 fmt::format("at most key_dim ({})", shape.key_dim));
}

Status check_paged_rows(const AttentionShape& shape, const PagedRows& rows) {
  return check_rows(shape, rows);
}

Status check_row_place(const PagedRows& rows, const Span& place) {
  return check_span_memory(rows, place, {});
}

Status check_attention_inputs(const AttentionInputs& inputs, std::uint64_t out_size,
                              std::uint64_t lse_size) {
  if (auto s = check_shape(inputs.shape); !s) return s;
  return check_call(inputs, inputs.shape.key_dim, inputs.shape.value_dim, out_size, lse_size);
}

Status check_prefill_inputs(const AttentionInputs& inputs, const LatentExpansion& expansion,
                            std::uint64_t out_size, std::uint64_t lse_size) {
  if (auto s = check_shape(inputs.shape); !s) return s;
  if (auto s = check_expansion(inputs.shape, expansion); !s) return s;
  const std::uint64_t rope = inputs.shape.key_dim - inputs.shape.value_dim;
  return check_call(inputs, expansion.content_dim + rope, expansion.value_dim, out_size, lse_size);
}

}  // namespace emblema
