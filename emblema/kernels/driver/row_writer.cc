#include "emblema/kernels/driver/row_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "emblema/kernels/check_rows.h"
#include "emblema/layout/mx.h"

namespace emblema {
namespace {

// The two formats of one shape: e4m3 codes, `per_scale` behind each scale, then bf16.
struct FixedFormat {
  std::uint32_t codes = 0;
  std::uint32_t per_scale = 0;
  std::uint32_t rope = 0;
  std::uint32_t rope_offset = 0;  // in bytes
  std::uint32_t row_bytes = 0;

  std::uint32_t numbers() const { return codes + rope; }
};

constexpr FixedFormat kFp8DsMlaFormat = {512, 128, 64, 528, 656};
constexpr FixedFormat kDeepSeekV4Format = {448, 64, 64, 448, 576};
constexpr std::uint32_t kV4ScaleBytes = 8;  // 7 and one of padding
static_assert(kFp8DsMlaFormat.codes + kFp8DsMlaFormat.rope <= kPieceNumbersMax);

const FixedFormat& fixed_format(RowFormat format) {
  return format == RowFormat::kFp8DsMla ? kFp8DsMlaFormat : kDeepSeekV4Format;
}

ScaleRule rule_of(RowFormat format, const RowOptions& options) {
  return options.scale_rule.value_or(format == RowFormat::kFp8DsMla ? kVllmLatentScales
                                                                    : kDeepSeekV4Scales);
}

float scale_at(const PagedRows& layout, const RowWidths& widths, std::uint32_t first) {
  return first < widths.keys ? layout.key_scale : layout.value_scale;
}

float stored_scale(const FixedFormat& format, RowBytes<const std::byte> from, std::uint32_t block) {
  if (from.scales != nullptr) {
    return fp32_from_ue8m0(std::to_integer<std::uint8_t>(from.scales[block]));
  }
  float scale = 0;
  std::memcpy(&scale, from.row + format.codes + block * sizeof(scale), sizeof(scale));
  return scale;
}

// Gives back the scale as it was stored.
float store_scale(const FixedFormat& format, float scale, std::uint32_t block,
                  RowBytes<std::byte> to) {
  if (to.scales == nullptr) {
    std::memcpy(to.row + format.codes + block * sizeof(scale), &scale, sizeof(scale));
    return scale;
  }
  const std::uint8_t code = ue8m0_at_least(scale);
  to.scales[block] = std::byte{code};
  return fp32_from_ue8m0(code);
}

}  // namespace

std::uint32_t plain_bytes(Encoding encoding) {
  return bits_per_element(encoding) / 8;
}

std::uint64_t packed_row_bytes(const RowWidths& widths, const PagedRows& layout) {
  if (layout.format != RowFormat::kPlain) return fixed_format(layout.format).row_bytes;
  return widths.numbers() * plain_bytes(layout.encoding);
}

RowWriter::RowWriter(const AttentionShape& shape, const RowTarget& target,
                     const RowOptions& options, const RowPrimitives& primitives)
    : widths_(shape),
      key_dim_(shape.key_dim),
      target_(&target),
      primitives_(&primitives),
      rule_(rule_of(target.layout.format, options)),
      packed_bytes_(packed_row_bytes(widths_, target.layout)) {}

void RowWriter::write_plain(const float* numbers, std::uint32_t first, std::uint32_t count,
                            std::byte* row) const {
  const PagedRows& layout = target_->layout;
  primitives_->encode(numbers, count, layout.encoding, scale_at(layout, widths_, first),
                      row + std::uint64_t{first} * plain_bytes(layout.encoding));
}

void RowWriter::write_fixed(const float* numbers, RowBytes<std::byte> to) const {
  const FixedFormat& format = fixed_format(target_->layout.format);
  const float* content = numbers;
  float rounded[kPieceNumbersMax];
  if (rule_.through_bf16) {
    std::byte bf16[2 * kPieceNumbersMax];
    primitives_->encode(numbers, format.codes, Encoding::kBf16, 1.0F, bf16);
    primitives_->decode(bf16, format.codes, Encoding::kBf16, 1.0F, rounded);
    content = rounded;
  }
  for (std::uint32_t c = 0; c < format.codes; c += format.per_scale) {
    const float largest = primitives_->largest(content + c, format.per_scale);
    const float chosen = scale_for(largest, Encoding::kFp8E4m3, rule_);
    const float scale = store_scale(format, chosen, c / format.per_scale, to);
    primitives_->encode(content + c, format.per_scale, Encoding::kFp8E4m3, scale, to.row + c);
  }
  primitives_->encode(numbers + format.codes, format.rope, Encoding::kBf16, 1.0F,
                      to.row + format.rope_offset);
  if (to.scales != nullptr) to.scales[kV4ScaleBytes - 1] = std::byte{0};
}

void RowWriter::write(const float* numbers, const PairTurn* turn, std::uint32_t rotary_offset,
                      RowBytes<std::byte> to) const {
  if (turn != nullptr) {
    write_turned(numbers, *turn, rotary_offset, to);
  } else if (target_->layout.format != RowFormat::kPlain) {
    write_fixed(numbers, to);
  } else {
    write_plain(numbers, 0, widths_.keys, to.row);
    write_values(numbers, to.row);
  }
  fill_gap(to);
}

// What turns does so in memory of its own: what the caller gave stays as it is.
void RowWriter::write_turned(const float* numbers, const PairTurn& turn,
                             std::uint32_t rotary_offset, RowBytes<std::byte> to) const {
  float turned[kPieceNumbersMax];
  if (target_->layout.format != RowFormat::kPlain) {
    std::memcpy(turned, numbers, key_dim_ * sizeof(float));
    primitives_->turn(turn, turned + rotary_offset);
    return write_fixed(turned, to);
  }
  const std::uint32_t rotary_dim = 2 * turn.pairs;
  const std::uint32_t rotary_end = rotary_offset + rotary_dim;
  for (std::uint32_t key = 0; key < widths_.keys; key += key_dim_) {
    write_plain(numbers + key, key, rotary_offset, to.row);
    std::memcpy(turned, numbers + key + rotary_offset, rotary_dim * sizeof(float));
    primitives_->turn(turn, turned);
    write_plain(turned, key + rotary_offset, rotary_dim, to.row);
    write_plain(numbers + key + rotary_end, key + rotary_end, key_dim_ - rotary_end, to.row);
  }
  write_values(numbers, to.row);
}

void RowWriter::write_values(const float* numbers, std::byte* row) const {
  if (widths_.values == 0) return;
  write_plain(numbers + widths_.keys, widths_.keys, widths_.values, row);
}

void RowWriter::fill_gap(RowBytes<std::byte> to) const {
  std::memset(to.row + packed_bytes_, 0, target_->layout.row_bytes - packed_bytes_);
}

void read_plain(const RowPrimitives& primitives, const RowWidths& widths, const PagedRows& layout,
                const std::byte* row, std::uint32_t first, std::uint32_t count, float* to) {
  primitives.decode(row + std::uint64_t{first} * plain_bytes(layout.encoding), count,
                    layout.encoding, scale_at(layout, widths, first), to);
  primitives.settle_nans(to, count);
}

void read_fixed(const RowPrimitives& primitives, const PagedRows& layout,
                RowBytes<const std::byte> from, float* to) {
  const FixedFormat& format = fixed_format(layout.format);
  for (std::uint32_t c = 0; c < format.codes; c += format.per_scale) {
    primitives.decode(from.row + c, format.per_scale, Encoding::kFp8E4m3,
                      stored_scale(format, from, c / format.per_scale), to + c);
  }
  primitives.decode(from.row + format.rope_offset, format.rope, Encoding::kBf16, 1.0F,
                    to + format.codes);
  primitives.settle_nans(to, format.numbers());
}

Status check_row_options(const RowOptions& options) {
  if (options.isa) {
    if (auto s = check_isa(*options.isa); !s) return s;
  }
  if (!options.scale_rule) return {};
  const ScaleRule& rule = *options.scale_rule;
  if (rule.by_reciprocal) {
    return fail(ErrorCode::Invalid,
                "scale_rule.by_reciprocal is true; allowed: false, for no writer of these rows "
                "multiplies by a reciprocal");
  }
  const bool is_finite = std::isfinite(rule.amax_floor) && std::isfinite(rule.scale_floor);
  const float least = is_finite ? scale_for(0.0F, Encoding::kFp8E4m3, rule) : 0.0F;
  if (least > 0.0F && rule.amax_floor >= 0.0F && rule.scale_floor >= 0.0F) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("scale_rule has amax_floor {} and scale_floor {}; allowed: finite, not "
                          "below 0, and such that an empty block's scale is above 0",
                          rule.amax_floor, rule.scale_floor));
}

Status check_row_target(const AttentionShape& shape, const RowTarget& target, std::uint64_t rows) {
  PagedRows layout = target.layout;
  layout.base = target.base;
  if (auto s = check_paged_rows(shape, layout); !s) return s;
  return check_row_place(layout, {target.blocks, target.first_row, rows});
}

}  // namespace emblema
