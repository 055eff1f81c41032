#include "emblema/layout/page_layout.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"

namespace emblema {
namespace {

constexpr std::uint64_t kV4PageMultipleBytes = 576;
constexpr std::uint64_t kV4RowBytes = 576;  // [448 e4m3][64 bf16]; the scales lie apart
constexpr std::uint64_t kFlashMlaPageTokens = 64;
constexpr std::uint64_t kFp32Bytes = 4;

bool is(const Stream& stream, std::initializer_list<std::pair<std::uint64_t, Encoding>> regions) {
  return std::equal(stream.regions.begin(), stream.regions.end(), regions.begin(), regions.end(),
                    [](const EntryRegion& region, const auto& wanted) {
                      return region.elements == wanted.first && region.encoding == wanted.second;
                    });
}

// "512 x fp8_e4m3 + 4 x fp32 + 64 x bf16"
std::string regions_in_words(const Stream& stream) {
  std::string text;
  for (const EntryRegion& region : stream.regions) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : " + ", region.elements,
                        to_string(region.encoding));
  }
  return text;
}

tl::unexpected<Error> misfit(Profile profile, std::uint32_t layer, const Stream& stream,
                             std::string_view allowed) {
  return fail(
      ErrorCode::Unsupported,
      fmt::format("profile {} has no layout for the {} entries of layer {}, {}; allowed: {}",
                  to_string(profile), to_string(stream.role), layer, regions_in_words(stream),
                  allowed));
}

// Puts all regions into one segment, in order.
Result<StreamPage> packed_page(const Stream& stream) {
  StreamPage page;
  page.row_bytes = stream.entry_bytes;
  std::uint64_t offset_bytes = 0;
  for (const EntryRegion& region : stream.regions) {
    const auto bytes = region_bytes(region);
    if (!bytes) return propagate(bytes);
    page.regions.push_back({region.name, offset_bytes, region.elements, region.encoding});
    offset_bytes += *bytes;  // no overflow: entry_bytes is the sum of all
  }
  return page;
}

// Two segments: the first `data_bytes` of every row, then the rest of every row. REQUIRES: a region
// begins there.
Result<StreamPage> planar_page(const Stream& stream, std::uint64_t rows, std::uint64_t data_bytes) {
  auto page = packed_page(stream);
  if (!page) return page;
  const auto data = mul_bytes(rows, data_bytes, "bytes of a page's data segment");
  if (!data) return propagate(data);
  page->segments = {{0, data_bytes}, {*data, stream.entry_bytes - data_bytes}};
  for (RowRegion& region : page->regions) {
    if (region.offset_bytes < data_bytes) continue;
    region.segment = 1;
    region.offset_bytes -= data_bytes;
  }
  return page;
}

// Keys first; scales, where there are any, in a segment of their own.
Result<StreamPage> indexer_page(const Stream& stream, std::uint64_t rows) {
  if (stream.regions.size() < 2) return packed_page(stream);
  const auto keys = region_bytes(stream.regions.front());
  if (!keys) return propagate(keys);
  return planar_page(stream, rows, *keys);
}

// Pairs (numbers, scales): every block of 32 behind its scale.
Result<StreamPage> ggml_page(const Stream& stream) {
  StreamPage page;
  page.row_bytes = stream.entry_bytes;
  std::uint64_t offset_bytes = 0;
  for (std::size_t i = 0; i + 1 < stream.regions.size(); i += 2) {
    const EntryRegion& numbers = stream.regions[i];
    const EntryRegion& scales = stream.regions[i + 1];
    if (scales.elements == 0) continue;  // a latent without rotary channels
    const std::uint64_t block = numbers.elements / scales.elements;
    const std::uint64_t scale_bytes = bits_per_element(scales.encoding) / 8;
    const std::uint64_t stride = scale_bytes + block * bits_per_element(numbers.encoding) / 8;
    page.regions.push_back(
        {scales.name, offset_bytes, scales.elements, scales.encoding, 0, 1, stride});
    page.regions.push_back({numbers.name, offset_bytes + scale_bytes, numbers.elements,
                            numbers.encoding, 0, block, stride});
    offset_bytes += scales.elements * stride;
  }
  return page;
}

// [K][scale][V][scale], head after head.
Result<StreamPage> token_head_page(std::uint32_t layer, const Stream& stream) {
  const std::uint64_t heads = stream.regions[1].elements;
  const std::uint64_t key_dim = stream.regions[0].elements / heads;
  const std::uint64_t value_dim = stream.regions[2].elements / heads;
  if (key_dim % kFp32Bytes != 0 || value_dim % kFp32Bytes != 0) {
    return fail(ErrorCode::Unsupported,
                fmt::format("profile token_head puts fp32 scales behind each head's keys and "
                            "values, but layer {} has {} and {} of them; allowed: multiples of {}",
                            layer, key_dim, value_dim, kFp32Bytes));
  }
  const std::uint64_t stride = key_dim + value_dim + 2 * kFp32Bytes;
  StreamPage page;
  page.row_bytes = stream.entry_bytes;
  std::uint64_t offset_bytes = 0;
  for (const EntryRegion& region : stream.regions) {
    const std::uint64_t run = region.elements / heads;
    page.regions.push_back(
        {region.name, offset_bytes, region.elements, region.encoding, 0, run, stride});
    offset_bytes += run * bits_per_element(region.encoding) / 8;
  }
  return page;
}

bool is_ggml(const Stream& stream) {
  return stream.regions.size() >= 2 && stream.regions[1].encoding == Encoding::kFp16 &&
         (stream.regions[0].encoding == Encoding::kInt8 ||
          stream.regions[0].encoding == Encoding::kInt4);
}

bool is_token_head(const Stream& stream) {
  return stream.role == StreamRole::kKv && stream.regions.size() == 4 &&
         stream.regions[1].encoding == Encoding::kFp32 && stream.regions[1].elements > 0;
}

bool is_flashmla_latent(const Stream& stream) {
  return stream.role == StreamRole::kLatent &&
         (is(stream, {{512, Encoding::kBf16}, {64, Encoding::kBf16}}) ||
          is(stream, {{512, Encoding::kFp16}, {64, Encoding::kFp16}}));
}

bool is_656_byte_latent(const Stream& stream) {
  return stream.role == StreamRole::kLatent &&
         is(stream, {{512, Encoding::kFp8E4m3}, {4, Encoding::kFp32}, {64, Encoding::kBf16}});
}

bool is_584_byte_entry(const Stream& stream) {
  return (stream.role == StreamRole::kCompressed || stream.role == StreamRole::kWindow) &&
         is(stream, {{448, Encoding::kFp8E4m3},
                     {64, Encoding::kBf16},
                     {7, Encoding::kUe8m0},
                     {1, Encoding::kPad8}});
}

Result<StreamPage> rows_of(Profile profile, std::uint32_t layer, const Stream& stream,
                           std::uint64_t rows) {
  const bool is_index = stream.role == StreamRole::kIndexer;
  switch (profile) {
    case Profile::kNative:
      return packed_page(stream);
    case Profile::kFlashMla:
      if (is_index) return indexer_page(stream, rows);
      if (is_flashmla_latent(stream)) return packed_page(stream);
      return misfit(profile, layer, stream, "latents of 512 + 64 in bf16 or fp16");
    case Profile::kFp8DsMla:
      if (is_index) return indexer_page(stream, rows);
      if (is_656_byte_latent(stream)) return packed_page(stream);
      return misfit(profile, layer, stream, "latents of 512 + 64 with kv dtype fp8_ds_mla");
    case Profile::kV4:
    case Profile::kV4Sglang:
      if (stream.role == StreamRole::kCompressor) return packed_page(stream);
      if (is_index && stream.regions.size() == 2) return indexer_page(stream, rows);
      if (is_584_byte_entry(stream)) return planar_page(stream, rows, kV4RowBytes);
      return misfit(profile, layer, stream,
                    "DeepSeek-V4 entries of 448 + 64 with kv dtype fp8_ds_mla, index keys in fp8 "
                    "or mxfp4");
    case Profile::kGgml:
      if (is_ggml(stream)) return ggml_page(stream);
      return misfit(profile, layer, stream, "keys and values, or latents, in q8_0 or q4_0");
    case Profile::kTokenHead:
      if (is_token_head(stream)) return token_head_page(layer, stream);
      return misfit(profile, layer, stream,
                    "keys and values in int8_per_token_head or fp8_per_token_head");
  }
  return misfit(profile, layer, stream, "a known profile");
}

std::uint64_t page_multiple_bytes(Profile profile, const Stream& stream) {
  const bool is_index = stream.role == StreamRole::kIndexer;
  const bool is_rounded = (profile == Profile::kV4 && is_index) || is_584_byte_entry(stream);
  const bool is_v4 = profile == Profile::kV4 || profile == Profile::kV4Sglang;
  return is_v4 && is_rounded ? kV4PageMultipleBytes : kPageAlignmentBytes;
}

}  // namespace

Result<StreamPage> page_of(Profile profile, std::uint32_t layer, const Stream& stream,
                           std::uint64_t rows) {
  auto page = rows_of(profile, layer, stream, rows);
  if (!page) return page;
  page->layer = layer;
  page->role = stream.role;
  page->rows = rows;
  const std::string what = fmt::format("page bytes of layer {}", layer);
  const std::uint64_t multiple = page_multiple_bytes(profile, stream);
  const auto bytes = mul_bytes(rows, page->row_bytes, what);
  if (!bytes) return propagate(bytes);
  const auto padded = add_bytes(*bytes, multiple - 1, what);
  if (!padded) return propagate(padded);
  page->page_bytes = *padded / multiple * multiple;
  return page;
}

Status check_block_tokens(Profile profile, const CacheGroup& group) {
  if (profile != Profile::kFlashMla || group.block_tokens == kFlashMlaPageTokens) return {};
  return fail(ErrorCode::Unsupported,
              fmt::format("block_tokens of group '{}' is {}; allowed with profile {}: {}",
                          group.name, group.block_tokens, to_string(profile), kFlashMlaPageTokens));
}

}  // namespace emblema
