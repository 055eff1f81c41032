#include "emblema/kernels/convert_rows.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "emblema/kernels/check_rows.h"
#include "emblema/kernels/driver/row_writer.h"

namespace emblema {
namespace {

Status of_side(std::string_view side, const Status& status) {
  if (status) return {};
  return fail(status.error().code, fmt::format("{}: {}", side, status.error().message));
}

Status check_source(const AttentionShape& shape, const RowSource& source) {
  if (auto s = check_paged_rows(shape, source.layout); !s) return s;
  return check_row_place(source.layout, {source.blocks, source.first_row, source.rows});
}

Status check_convert(const AttentionShape& shape, const RowSource& source, const RowTarget& target,
                     const RowOptions& options) {
  if (auto s = check_row_options(options); !s) return s;
  if (auto s = check_row_shape(shape); !s || source.rows == 0) return s;
  if (auto s = of_side("source", check_source(shape, source)); !s) return s;
  return of_side("target", check_row_target(shape, target, source.rows));
}

bool stores_alike(RowKind kind, const PagedRows& a, const PagedRows& b) {
  if (a.format != b.format) return false;
  if (a.format != RowFormat::kPlain) return true;
  if (a.encoding != b.encoding) return false;
  if (a.encoding != Encoding::kFp8E4m3) return true;
  return a.key_scale == b.key_scale && (kind == RowKind::kLatent || a.value_scale == b.value_scale);
}

// The bytes that hold numbers and scales, padding left aside.
void copy_row(RowBytes<const std::byte> from, std::uint64_t bytes, RowBytes<std::byte> to) {
  std::memcpy(to.row, from.row, bytes);
  if (to.scales == nullptr) return;
  std::memcpy(to.scales, from.scales, 7);
  to.scales[7] = std::byte{0};
}

// Piece by piece: a row of many heads has no place on the stack.
void recode_plain(const RowPrimitives& primitives, const RowWriter& writer, const PagedRows& layout,
                  const std::byte* from, std::uint32_t first, std::uint32_t end, std::byte* to) {
  float numbers[kPieceNumbersMax];
  while (first < end) {
    const std::uint32_t count = std::min(end - first, kPieceNumbersMax);
    read_plain(primitives, writer.widths(), layout, from, first, count, numbers);
    writer.write_plain(numbers, first, count, to);
    first += count;
  }
}

void recode_row(const RowPrimitives& primitives, const RowWriter& writer, const PagedRows& from,
                RowFormat to_format, RowBytes<const std::byte> source, RowBytes<std::byte> target) {
  const RowWidths& widths = writer.widths();
  if (from.format == RowFormat::kPlain && to_format == RowFormat::kPlain) {
    recode_plain(primitives, writer, from, source.row, 0, widths.keys, target.row);
    const std::uint32_t end = widths.keys + widths.values;
    return recode_plain(primitives, writer, from, source.row, widths.keys, end, target.row);
  }
  // A latent row, one side of a fixed format.
  float numbers[kPieceNumbersMax];
  if (from.format == RowFormat::kPlain) {
    read_plain(primitives, widths, from, source.row, 0, widths.keys, numbers);
  } else {
    read_fixed(primitives, from, source, numbers);
  }
  if (to_format == RowFormat::kPlain) {
    writer.write_plain(numbers, 0, widths.keys, target.row);
  } else {
    writer.write_fixed(numbers, target);
  }
}

}  // namespace

Status convert_rows(const AttentionShape& shape, const RowSource& source, const RowTarget& target,
                    const RowOptions& options) {
  if (auto s = check_convert(shape, source, target, options); !s) return s;
  const RowPrimitives& primitives = row_primitives_of(options.isa.value_or(best_isa()));
  const RowWriter writer(shape, target, options, primitives);
  const bool is_copy =
      !options.scale_rule && stores_alike(shape.kind, source.layout, target.layout);
  const std::uint64_t bytes = packed_row_bytes(writer.widths(), source.layout);
  for (std::uint64_t row = 0; row < source.rows; ++row) {
    const auto from =
        row_at(source.layout.base, source.layout, source.blocks, source.first_row + row);
    const RowBytes<std::byte> to = writer.at(row);
    if (is_copy) {
      copy_row(from, bytes, to);
    } else {
      recode_row(primitives, writer, source.layout, target.layout.format, from, to);
    }
    writer.fill_gap(to);
  }
  return {};
}

}  // namespace emblema
