// Plain values that describe one attention call over paged rows: what a cache hands to a kernel.
// Nothing here owns memory; everything must outlive the call.
//
// Neither the region nor its rows need any alignment. Of a table of blocks those that a span reads
// are looked at; of a span without rows nothing is.
//
// A sequence is a list of spans. A span is a run of consecutive tokens whose rows lie in a list of
// blocks. Its rows were written for positions `position`, `position` + 1, ... and are read as if at
// position + delta ("attached position"): causality and windows use attached positions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "emblema/geometry/encoding.h"
#include "emblema/layout/rope_table.h"

namespace emblema {

struct Span {
  std::span<const std::uint32_t> blocks =
      {};                       // block indexes in the group's region, in token order
  std::uint64_t first_row = 0;  // row of `blocks` that holds the span's first token
  std::uint64_t rows = 0;       // tokens
  std::int64_t position = 0;    // stored position of the first token
  std::int64_t delta = 0;       // attached position = stored position + delta
};

// How one row holds its numbers.
enum class RowFormat : std::uint8_t {
  kPlain,       // one after the other, all in `encoding`
  kFp8DsMla,    // 656 bytes: [512 e4m3][4 fp32 scales, of 128 each][64 bf16]; a latent of 512 + 64
  kDeepSeekV4,  // [448 e4m3][64 bf16], 576 bytes; its 7 UE8M0 scales (of 64 each) and a byte of
                // padding lie behind all rows of the page, at scales_offset + r * 8; keys and
                // values are the same 512 numbers
};

// How the rows of one layer's stream lie in memory.
// Row r of block b starts at base + b * block_bytes + r * row_bytes, r < block_rows.
struct PagedRows {
  const std::byte* base = nullptr;  // the region plus the page's offset in a block
  std::uint64_t block_bytes = 0;    // distance between the same page of two blocks
  std::uint64_t row_bytes = 0;
  std::uint64_t block_rows = 0;
  Encoding encoding = Encoding::kBf16;  // of kPlain: kBf16, kFp16, kFp32 or kFp8E4m3
  std::uint64_t block_count = 0;  // blocks in the region: no index may reach it; 0: not stated
  RowFormat format = RowFormat::kPlain;
  std::uint64_t scales_offset = 0;  // kDeepSeekV4: of a page's scales, from the page's start
  float key_scale = 1.0F;           // kFp8E4m3: of all keys (latent rows: of all numbers)
  float value_scale = 1.0F;         // kFp8E4m3 and grouped rows: of all values
};

enum class RowKind : std::uint8_t {
  kLatent,   // [value_dim latent][key_dim - value_dim rotary key]; one row for all heads; the
             // value is the row's first value_dim elements
  kGrouped,  // [kv_heads][key_dim] keys, then [kv_heads][value_dim] values
};

struct AttentionShape {
  RowKind kind = RowKind::kGrouped;
  std::uint32_t query_heads = 0;  // a multiple of kv_heads
  std::uint32_t kv_heads = 0;     // 1 with kLatent
  std::uint32_t key_dim = 0;      // width of a query and of a key
  std::uint32_t value_dim = 0;
  double scale = 1.0;
  double softcap = 0.0;             // > 0: z = softcap * tanh(z / softcap), before the mask
  std::uint64_t window_tokens = 0;  // > 0: query at position i sees keys with i - j < window
  std::uint64_t chunk_tokens = 0;   // > 0: and keys of its own chunk, from its last multiple on
                                    // (a negative one before position 0)
  // The first rotary channel of a query: value_dim with kLatent, 448 with rows of kDeepSeekV4
  // (whose values carry the rotation: delta != 0 is refused there).
  std::uint32_t rotary_offset = 0;
  const RopeTable* rope = nullptr;  // needed only where a span has delta != 0

  // The first attached position that a query at `position` sees; may be before 0.
  std::int64_t first_visible(std::int64_t position) const;
};

inline std::int64_t AttentionShape::first_visible(std::int64_t position) const {
  std::int64_t first = std::numeric_limits<std::int64_t>::min();
  constexpr std::uint64_t kEndless = std::uint64_t{1} << 62;
  if (window_tokens > 0 && window_tokens < kEndless) {
    first = position - static_cast<std::int64_t>(window_tokens) + 1;
  }
  if (chunk_tokens > 0) {
    // How far into its chunk; before position 0 counted from the chunk's end.
    const std::uint64_t into_chunk =
        position >= 0
            ? static_cast<std::uint64_t>(position) % chunk_tokens
            : chunk_tokens - 1 - static_cast<std::uint64_t>(-(position + 1)) % chunk_tokens;
    if (into_chunk < kEndless) {
      first = std::max(first, position - static_cast<std::int64_t>(into_chunk));
    }
  }
  return first;
}

// One sequence of a batch: which queries are its own and which rows it sees.
struct SequenceInputs {
  std::span<const Span> spans = {};  // ascending, non-overlapping attached positions
  std::uint64_t first_query = 0;     // index of its first query row in AttentionInputs::q
  std::uint64_t queries = 1;         // consecutive tokens, at positions query_position, + 1, ...
  std::int64_t query_position = 0;   // causal: a query sees attached positions <= its own
};

struct AttentionInputs {
  AttentionShape shape = {};
  PagedRows rows = {};
  const float* q = nullptr;  // [tokens][query_heads][key_dim], already rotated at its position
  std::uint64_t tokens = 0;  // query rows in q, over all sequences
  std::span<const SequenceInputs> sequences = {};
  std::span<const float> sinks = {};  // [query_heads] raw logits, or empty
};

}  // namespace emblema
