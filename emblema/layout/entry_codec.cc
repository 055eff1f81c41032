#include "emblema/layout/entry_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "emblema/layout/convert.h"
#include "emblema/layout/ggml_block.h"
#include "emblema/layout/mx.h"

namespace emblema {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are little-endian");

constexpr std::string_view kScaleSuffix = "_scale";

bool is_plain(Encoding encoding) {
  return encoding == Encoding::kFp32 || encoding == Encoding::kFp16 || encoding == Encoding::kBf16;
}

const RowRegion* scales_of(const StreamPage& page, const RowRegion& region) {
  for (const RowRegion& other : page.regions) {
    if (other.name.size() == region.name.size() + kScaleSuffix.size() &&
        other.name.starts_with(region.name) && other.name.ends_with(kScaleSuffix)) {
      return &other;
    }
  }
  return nullptr;
}

bool is_scales(const StreamPage& page, const RowRegion& region) {
  return std::any_of(page.regions.begin(), page.regions.end(),
                     [&](const RowRegion& other) { return scales_of(page, other) == &region; });
}

// Where number `first` of a region's row begins. REQUIRES: it begins a byte.
std::uint64_t number_offset_bytes(const StreamPage& page, const RowRegion& region,
                                  std::uint64_t row, std::uint64_t first) {
  const std::uint64_t begin = region_offset_bytes(page, region, row);
  const std::uint64_t run = region.run_elements == 0 ? region.elements : region.run_elements;
  return begin + first / run * region.run_stride_bytes +
         first % run * bits_per_element(region.encoding) / 8;
}

template <class Bits>
void put(std::byte* to, Bits bits) {
  std::memcpy(to, &bits, sizeof(bits));
}

template <class Bits>
Bits get(const std::byte* from) {
  Bits bits{};
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

void put_number(std::byte* to, Encoding encoding, float number) {
  if (encoding == Encoding::kFp32) return put(to, number);
  put(to, encoding == Encoding::kBf16 ? bf16_from_fp32(number) : fp16_from_fp32(number));
}

float get_number(const std::byte* from, Encoding encoding) {
  if (encoding == Encoding::kFp32) return get<float>(from);
  const auto bits = get<std::uint16_t>(from);
  return encoding == Encoding::kBf16 ? fp32_from_bf16(bits) : fp32_from_fp16(bits);
}

// A scale that a rule of powers of two made is stored as it is; NaN stays NaN.
void put_scale(std::byte* to, Encoding encoding, float scale) {
  if (encoding == Encoding::kUe8m0) return put(to, ue8m0_at_least(scale));
  put(to, scale);
}

float get_scale(const std::byte* from, Encoding encoding) {
  if (encoding == Encoding::kUe8m0) return fp32_from_ue8m0(get<std::uint8_t>(from));
  return get<float>(from);
}

void encode_ggml(std::span<const float> numbers, Encoding encoding, std::byte* codes,
                 std::byte* scale) {
  const GgmlNumbers block(numbers.data(), kGgmlBlockNumbers);
  put(scale, encoding == Encoding::kInt8 ? encode_q8_0(block, codes) : encode_q4_0(block, codes));
}

void decode_ggml(const std::byte* codes, const std::byte* scale, Encoding encoding,
                 std::span<float> numbers) {
  const GgmlNumbersOut block(numbers.data(), kGgmlBlockNumbers);
  const auto bits = get<std::uint16_t>(scale);
  if (encoding == Encoding::kInt8) {
    decode_q8_0(bits, codes, block);
  } else {
    decode_q4_0(bits, codes, block);
  }
}

bool is_known_block(Encoding codes, Encoding scales, std::uint64_t numbers) {
  switch (scales) {
    case Encoding::kFp16:
      return (codes == Encoding::kInt8 || codes == Encoding::kInt4) && numbers == kGgmlBlockNumbers;
    case Encoding::kUe8m0:
      return codes == Encoding::kFp8E4m3 || (codes == Encoding::kE2m1 && numbers % 2 == 0);
    case Encoding::kFp32:
      return codes == Encoding::kFp8E4m3 || codes == Encoding::kInt8;
    default:
      return false;
  }
}

tl::unexpected<Error> unreadable(const StreamPage& page, const RowRegion& region) {
  return fail(
      ErrorCode::Unsupported,
      fmt::format("region '{}' of the {} page of layer {} is {} without scales that say what "
                  "its codes mean; allowed: fp8_e4m3, bf16, fp16 and fp32 alone, others "
                  "with the scales of their block format",
                  region.name, to_string(page.role), page.layer, to_string(region.encoding)));
}

}  // namespace

ScaleRule default_scale_rule(StreamRole role, Encoding codes, Encoding scales) {
  if (codes == Encoding::kE2m1) return kMxfp4Scales;
  if (scales == Encoding::kUe8m0) return kDeepSeekV4Scales;
  if (role == StreamRole::kIndexer) return kIndexerScales;
  if (role == StreamRole::kKv) return kTokenHeadScales;
  return kVllmLatentScales;
}

Result<EntryCodec> EntryCodec::from(const StreamPage& page, const EntryCodecOptions& options) {
  EntryCodec codec;
  codec.page_ = page;
  std::size_t tensors = 0;
  for (const RowRegion& region : page.regions) {
    if (region.encoding == Encoding::kPad8 || is_scales(page, region)) continue;
    Part part;
    part.codes = region;
    part.block_numbers = region.elements;
    if (const RowRegion* scales = scales_of(page, region)) {
      part.scales = *scales;
      if (scales->elements > 0) part.block_numbers = region.elements / scales->elements;
      if (!is_known_block(region.encoding, scales->encoding, part.block_numbers)) {
        return unreadable(page, region);
      }
      part.rule = options.scale_rule.value_or(
          default_scale_rule(page.role, region.encoding, scales->encoding));
    } else if (region.encoding == Encoding::kFp8E4m3) {
      if (tensors < options.tensor_scales.size())
        part.tensor_scale = options.tensor_scales[tensors];
      ++tensors;
    } else if (!is_plain(region.encoding)) {
      return unreadable(page, region);
    }
    codec.row_numbers_ += region.elements;
    codec.parts_.push_back(std::move(part));
  }
  if (!options.tensor_scales.empty() && options.tensor_scales.size() != tensors) {
    return fail(ErrorCode::Invalid,
                fmt::format("tensor_scales has {} scales; allowed: {}, one for each region of the "
                            "page that stores none",
                            options.tensor_scales.size(), tensors));
  }
  for (const float scale : options.tensor_scales) {
    if (std::isfinite(scale) && scale > 0) continue;
    return fail(ErrorCode::Invalid,
                fmt::format("a tensor scale is {}; allowed: finite, above 0", scale));
  }
  return codec;
}

Status EntryCodec::check(std::uint64_t numbers, std::uint64_t row, std::uint64_t bytes) const {
  if (numbers != row_numbers_) {
    return fail(ErrorCode::Invalid,
                fmt::format("a row of {} numbers; allowed: {}", numbers, row_numbers_));
  }
  if (row >= page_.rows) {
    return fail(ErrorCode::Invalid,
                fmt::format("row is {}; allowed: below {}, the rows of the page", row, page_.rows));
  }
  if (bytes != page_.page_bytes) {
    return fail(ErrorCode::Invalid,
                fmt::format("a page of {} bytes; allowed: {}", bytes, page_.page_bytes));
  }
  return {};
}

Status EntryCodec::encode(std::span<const float> numbers, std::uint64_t row, ByteSpan bytes) const {
  if (const auto ok = check(numbers.size(), row, bytes.size()); !ok) return ok;
  for (const RowRegion& region : page_.regions) {
    if (region.encoding != Encoding::kPad8) continue;
    std::fill_n(bytes.data() + region_offset_bytes(page_, region, row), region.elements,
                std::byte{0});
  }
  for (const Part& part : parts_) {
    const std::span<const float> row_part = numbers.first(part.codes.elements);
    numbers = numbers.subspan(part.codes.elements);
    const Encoding encoding = part.codes.encoding;
    const std::uint64_t step = is_plain(encoding) ? 1 : part.block_numbers;
    for (std::uint64_t first = 0; first < row_part.size(); first += step) {
      std::byte* codes = bytes.data() + number_offset_bytes(page_, part.codes, row, first);
      const std::span<const float> block = row_part.subspan(first, step);
      if (is_plain(encoding)) {
        put_number(codes, encoding, block.front());
        continue;
      }
      if (!part.scales) {
        encode_scaled(block, encoding, part.tensor_scale, part.rule, codes);
        continue;
      }
      std::byte* scale = bytes.data() + number_offset_bytes(page_, *part.scales, row, first / step);
      if (part.scales->encoding == Encoding::kFp16) {
        encode_ggml(block, encoding, codes, scale);
        continue;
      }
      const float chosen = block_scale(block, encoding, part.rule);
      put_scale(scale, part.scales->encoding, chosen);
      encode_scaled(block, encoding, get_scale(scale, part.scales->encoding), part.rule, codes);
    }
  }
  return {};
}

Status EntryCodec::decode(ConstByteSpan bytes, std::uint64_t row, std::span<float> numbers) const {
  if (const auto ok = check(numbers.size(), row, bytes.size()); !ok) return ok;
  for (const Part& part : parts_) {
    const std::span<float> row_part = numbers.first(part.codes.elements);
    numbers = numbers.subspan(part.codes.elements);
    const Encoding encoding = part.codes.encoding;
    const std::uint64_t step = is_plain(encoding) ? 1 : part.block_numbers;
    for (std::uint64_t first = 0; first < row_part.size(); first += step) {
      const std::byte* codes = bytes.data() + number_offset_bytes(page_, part.codes, row, first);
      const std::span<float> block = row_part.subspan(first, step);
      if (is_plain(encoding)) {
        block.front() = get_number(codes, encoding);
        continue;
      }
      if (!part.scales) {
        decode_scaled(codes, encoding, part.tensor_scale, block);
        continue;
      }
      const std::byte* scale =
          bytes.data() + number_offset_bytes(page_, *part.scales, row, first / step);
      if (part.scales->encoding == Encoding::kFp16) {
        decode_ggml(codes, scale, encoding, block);
      } else {
        decode_scaled(codes, encoding, get_scale(scale, part.scales->encoding), block);
      }
    }
  }
  return {};
}

}  // namespace emblema
