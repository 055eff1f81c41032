// Where each byte of a block sits.
//
// Glossary, smallest to largest
//   entry   what a stream remembers at once: one token's K and V, one latent (stream.h)
//   row     the place of one entry in a page: `row_bytes` apart
//   page    the rows of one stream of one layer for one block's tokens, padded to 64 bytes
//           (an "OS page" is always written so)
//   block   the pages of all members of a group, contiguous, in layer order: what is hashed,
//           compared, copied and named as one range
//   region  a group's blocks, contiguous: [block][layer][page]
//
// In profile `native` rows are entries, packed, and pages are padded to 64 bytes with zeros. Others
// (profile.h) may split a page into segments: all rows' numbers first, then all rows' scales.
// Plain values; any thread may read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/layout/arena_layout.h"
#include "emblema/layout/profile.h"
#include "emblema/layout/stream_page.h"

namespace emblema {

struct BlockLayout {
  std::string group_name;
  Retention retention = Retention::kGrowing;
  std::uint64_t window_tokens = 0;  // of a window or a chunk
  std::uint64_t block_tokens = 0;
  std::uint64_t block_bytes = 0;
  std::vector<StreamPage> pages;

  // The page of a layer's stream, or nullptr where this group has none.
  const StreamPage* find(std::uint32_t layer, StreamRole role) const;

  // The first position that a token behind `tokens` committed ones reads: 0 for a growing group,
  // max(0, tokens - W + 1) for a window, the begin of its chunk for chunks.
  std::uint64_t visible_from(std::uint64_t tokens) const;

  // Blocks in front whose rows no token behind `tokens` committed ones reads: none for a growing
  // group; floor(max(0, tokens - W + 1) / block_tokens) for a window W; for chunks of C those of
  // the chunks that are over, floor(floor(tokens / C) x C / block_tokens).
  std::uint64_t released_at(std::uint64_t tokens) const;

  // Blocks that hold the rows of one sequence of `tokens` committed tokens: those not released. For
  // chunks, what the fullest chunk up to there took: right behind a chunk's end nothing is left,
  // but memory must have been there.
  std::uint64_t blocks_at(std::uint64_t tokens) const;

  // Most blocks that one sequence holds while `step_tokens` more are reserved on top of what is
  // committed, its whole length being `tokens`. Window: at most ceil((W-2+step)/B)+1. Chunks: the
  // rows since the chunk began and the step's.
  std::uint64_t blocks_peak(std::uint64_t tokens, std::uint64_t step_tokens) const;

  // How a sequence gets to its length: so many tokens reserved at a time, all committed, with
  // windows that keep what the last `draft_tokens` would need if they were taken back.
  struct Steps {
    std::uint64_t tokens = 1;
    std::uint64_t draft_tokens = 0;
  };

  // Blocks that a sequence holds once it has got to `tokens`: exact, unlike blocks_at() of a chunk
  // that is over.
  std::uint64_t blocks_behind(std::uint64_t tokens, const Steps& steps) const;

  // Most blocks that it holds on the way there from its first token; at most
  // blocks_peak(tokens, steps). Exact for steps that come round to the same place in a block within
  // 2^16 of them, else blocks_peak.
  std::uint64_t blocks_on_the_way(std::uint64_t tokens, const Steps& steps) const;
};

struct ModelLayout {
  Profile profile = Profile::kNative;
  Fingerprint
      fingerprint;  // the geometry's, and the profile: equal where bytes are interchangeable
  std::vector<BlockLayout> groups;
  ArenaLayout arena;
  // Of a native layout with state: what a snapshot at a boundary holds, as one block: window rows
  // that the next token reads, rows that are not compressed yet, state. `block_tokens` is the
  // distance of boundaries: the smallest common multiple of the groups' blocks.
  std::optional<BlockLayout> snapshot;

  // Invalid where sizes do not fit 64 bits. Unsupported: a profile that does not fit the geometry;
  // names the layer, what it stores and what the profile takes.
  static Result<ModelLayout> with_profile(const ModelGeometry& geometry, Profile profile);
  static Result<ModelLayout> native(const ModelGeometry& geometry);

  // What one sequence of `tokens` committed tokens takes from the pool: whole blocks, page padding
  // and its arena slot.
  Result<std::uint64_t> allocated_bytes_per_sequence(std::uint64_t tokens) const;
};

// Byte offset of a row, in 64 bits: block x block_bytes + page offset + row x row_bytes. Slot ids
// beyond 2^31 and offsets beyond 2^32 are ordinary. REQUIRES: a page without segments; the product
// fits 64 bits (a pool's size did).
constexpr std::uint64_t row_offset_bytes(const BlockLayout& layout, const StreamPage& page,
                                         std::uint64_t block, std::uint64_t row) {
  return block * layout.block_bytes + page.offset_bytes + row * page.row_bytes;
}

// Where a region of a row begins, from the page's start; run i of it is i x run_stride_bytes on.
constexpr std::uint64_t region_offset_bytes(const StreamPage& page, const RowRegion& region,
                                            std::uint64_t row) {
  if (page.segments.empty()) return row * page.row_bytes + region.offset_bytes;
  const PageSegment& segment = page.segments[region.segment];
  return segment.offset_bytes + row * segment.row_bytes + region.offset_bytes;
}

}  // namespace emblema
