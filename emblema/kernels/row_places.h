// Where the rows of a call lie in paged memory: what append_rows writes, what convert_rows reads
// and writes. Plain values; nothing here owns memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "emblema/kernels/isa.h"
#include "emblema/layout/attention_inputs.h"
#include "emblema/layout/scaled_block.h"

namespace emblema {

// Rows first_row, first_row + 1, ... of a list of blocks, in token order, as in a Span.
struct RowTarget {
  std::byte* base = nullptr;  // the region plus the page's offset in a block
  PagedRows layout = {};      // how rows lie there; its own base plays no part
  std::span<const std::uint32_t> blocks = {};
  std::uint64_t first_row = 0;
};

struct RowSource {
  PagedRows layout = {};
  std::span<const std::uint32_t> blocks = {};
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
};

// `rows` rows from `data` on, layout.row_bytes apart, such as one chunk of Sequence::rows():
//   contiguous_rows(chunk.data, chunk.rows, {.row_bytes = chunk.row_bytes, .encoding = ...})
// Of `layout` count how rows are stored and row_bytes. Not for kDeepSeekV4, whose scales lie apart.
inline RowTarget contiguous_rows(std::byte* data, std::uint64_t rows, const PagedRows& layout) {
  static constexpr std::uint32_t kOnlyBlock = 0;
  RowTarget target;
  target.base = data;
  target.layout = layout;
  target.layout.block_rows = rows;
  target.layout.block_bytes = rows * layout.row_bytes;
  target.layout.block_count = 1;
  target.blocks = {&kOnlyBlock, 1};
  return target;
}

struct RowOptions {
  std::optional<Isa> isa = {};  // none: best_isa()
  // How kFp8DsMla and kDeepSeekV4 choose their scales; plain rows store none. None:
  // kVllmLatentScales and kDeepSeekV4Scales. by_reciprocal is refused.
  std::optional<ScaleRule> scale_rule = {};
};

}  // namespace emblema
