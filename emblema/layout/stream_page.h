// How the rows of one stream of one layer lie in a page (block_layout.h has the glossary).
// Plain values; any thread may read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emblema/geometry/encoding.h"
#include "emblema/geometry/stream.h"

namespace emblema {

inline constexpr std::uint64_t kPageAlignmentBytes = 64;

// One named run of numbers inside a row.
struct RowRegion {
  std::string name;
  std::uint64_t offset_bytes = 0;  // from the start of the row's part in its segment
  std::uint64_t elements = 0;
  Encoding encoding = Encoding::kBf16;
  std::uint32_t segment = 0;  // index into StreamPage::segments
  // Numbers that lie beside their scales: runs of so many, each so far from the one before. 0: one
  // run of all.
  std::uint64_t run_elements = 0;
  std::uint64_t run_stride_bytes = 0;
};

// A part of a planar page: `row_bytes` of each of its rows, packed.
struct PageSegment {
  std::uint64_t offset_bytes = 0;  // from the page's start
  std::uint64_t row_bytes = 0;
};

struct StreamPage {
  std::uint32_t layer = 0;
  StreamRole role = StreamRole::kKv;
  std::uint64_t offset_bytes = 0;  // from the block's start, a multiple of 64
  std::uint64_t rows = 0;          // block tokens / stride
  std::uint64_t row_bytes = 0;     // of one row, over all segments
  std::uint64_t page_bytes = 0;    // rows x row_bytes, padded
  std::vector<RowRegion> regions;
  std::vector<PageSegment> segments{};  // empty: rows lie whole, one after the other
};

}  // namespace emblema
