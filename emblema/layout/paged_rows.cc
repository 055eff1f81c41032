#include "emblema/layout/paged_rows.h"

#include <algorithm>
#include <array>

namespace emblema {
namespace {

struct Place {
  Encoding encoding;
  std::uint64_t elements;
  std::uint64_t offset_bytes;
  std::uint32_t segment;
};

template <std::size_t kCount>
bool has_regions(const StreamPage& page, const std::array<Place, kCount>& places) {
  return std::ranges::equal(page.regions, places, [](const RowRegion& have, const Place& want) {
    return have.encoding == want.encoding && have.elements == want.elements &&
           have.offset_bytes == want.offset_bytes && have.segment == want.segment &&
           have.run_elements == 0;
  });
}

bool is_fp8_ds_mla(const StreamPage& page) {
  constexpr std::array kRegions = {Place{Encoding::kFp8E4m3, 512, 0, 0},
                                   Place{Encoding::kFp32, 4, 512, 0},
                                   Place{Encoding::kBf16, 64, 528, 0}};
  return page.segments.empty() && has_regions(page, kRegions);
}

bool is_deepseek_v4(const StreamPage& page) {
  constexpr std::array kRegions = {
      Place{Encoding::kFp8E4m3, 448, 0, 0}, Place{Encoding::kBf16, 64, 448, 0},
      Place{Encoding::kUe8m0, 7, 0, 1}, Place{Encoding::kPad8, 1, 7, 1}};
  return page.segments.size() == 2 && page.segments[0].row_bytes == 576 &&
         page.segments[1].row_bytes == 8 && has_regions(page, kRegions);
}

// All numbers of a row in one encoding, from its first byte on.
bool is_plain(const StreamPage& page) {
  if (!page.segments.empty() || page.regions.empty()) return false;
  const Encoding encoding = page.regions.front().encoding;
  if (encoding != Encoding::kFp32 && encoding != Encoding::kFp16 && encoding != Encoding::kBf16 &&
      encoding != Encoding::kFp8E4m3) {
    return false;
  }
  std::uint64_t next = 0;
  for (const RowRegion& region : page.regions) {
    if (region.encoding != encoding || region.offset_bytes != next || region.run_elements != 0) {
      return false;
    }
    next += region.elements * bits_per_element(encoding) / 8;
  }
  return true;
}

}  // namespace

std::optional<PagedRows> paged_rows_of(const StreamPage& page) {
  PagedRows rows;
  rows.block_rows = page.rows;
  rows.row_bytes = page.row_bytes;
  if (is_fp8_ds_mla(page)) {
    rows.format = RowFormat::kFp8DsMla;
  } else if (is_deepseek_v4(page)) {
    rows.format = RowFormat::kDeepSeekV4;
    rows.row_bytes = page.segments[0].row_bytes;
    rows.scales_offset = page.segments[1].offset_bytes;
  } else if (is_plain(page)) {
    rows.encoding = page.regions.front().encoding;
  } else {
    return std::nullopt;
  }
  return rows;
}

}  // namespace emblema
