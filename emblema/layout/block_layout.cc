#include "emblema/layout/block_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"

namespace emblema {
namespace {

// Bytes of `rows` rows, padded to the page alignment.
Result<std::uint64_t> padded_rows(std::uint64_t rows, std::uint64_t row_bytes,
                                  std::string_view what) {
  const auto bytes = mul_bytes(rows, row_bytes, what);
  if (!bytes) return bytes;
  const auto padded = add_bytes(*bytes, kPageAlignmentBytes - 1, what);
  if (!padded) return padded;
  return *padded / kPageAlignmentBytes * kPageAlignmentBytes;
}

Result<std::vector<RowRegion>> packed_regions(const Stream& stream) {
  std::vector<RowRegion> regions;
  std::uint64_t offset_bytes = 0;
  for (const EntryRegion& region : stream.regions) {
    const auto bytes = region_bytes(region);
    if (!bytes) return propagate(bytes);
    regions.push_back({region.name, offset_bytes, region.elements, region.encoding});
    offset_bytes += *bytes;  // no overflow: entry_bytes is the sum of all
  }
  return regions;
}

Result<StreamPage> native_page(const Stream& stream, std::uint32_t layer,
                               const BlockLayout& block) {
  StreamPage page;
  page.layer = layer;
  page.role = stream.role;
  page.offset_bytes = block.block_bytes;
  page.rows = block.block_tokens / stream.stride_tokens;
  page.row_bytes = stream.entry_bytes;
  const auto bytes =
      padded_rows(page.rows, page.row_bytes, fmt::format("page bytes of layer {}", layer));
  if (!bytes) return propagate(bytes);
  page.page_bytes = *bytes;
  auto regions = packed_regions(stream);
  if (!regions) return propagate(regions);
  page.regions = std::move(*regions);
  return page;
}

Result<BlockLayout> native_block(const ModelGeometry& geometry, const CacheGroup& group) {
  BlockLayout block;
  block.group_name = group.name;
  block.retention = group.retention;
  block.window_tokens = group.window_tokens;
  block.block_tokens = group.block_tokens;
  for (const CacheGroup::Member& member : group.members) {
    const Stream& stream = geometry.layers()[member.layer].streams[member.stream];
    auto page = native_page(stream, member.layer, block);
    if (!page) return propagate(page);
    const auto end = add_bytes(block.block_bytes, page->page_bytes,
                               fmt::format("block bytes of group '{}'", group.name));
    if (!end) return propagate(end);
    block.block_bytes = *end;
    block.pages.push_back(std::move(*page));
  }
  return block;
}

Status add_to_arena(const Stream& stream, std::uint32_t layer, ArenaLayout* arena) {
  const std::string what = fmt::format("arena bytes of layer {}", layer);
  const auto bytes = padded_rows(stream.retention_tokens, stream.entry_bytes, what);
  if (!bytes) return propagate(bytes);
  const auto slot = add_bytes(arena->slot_bytes, *bytes, what);
  if (!slot) return propagate(slot);
  arena->slot_bytes = *slot;
  if (stream.retention == Retention::kFixed) {
    arena->state_bytes += *bytes;  // a part of slot_bytes, so it fits
    return {};
  }
  if (stream.retention == Retention::kEncoder) return {};  // written once, by no step
  const auto rows = add_bytes(arena->window_row_bytes, stream.entry_bytes, what);
  if (!rows) return propagate(rows);
  arena->window_row_bytes = *rows;
  return {};
}

}  // namespace

const StreamPage* BlockLayout::find(std::uint32_t layer, StreamRole role) const {
  const auto first = std::lower_bound(
      pages.begin(), pages.end(), layer,
      [](const StreamPage& page, std::uint32_t wanted) { return page.layer < wanted; });
  for (auto page = first; page != pages.end() && page->layer == layer; ++page) {
    if (page->role == role) return &*page;
  }
  return nullptr;
}

namespace {

// Most blocks that `rows` consecutive rows touch when the first lies at a multiple of `chunk`.
std::uint64_t blocks_of_chunk(std::uint64_t rows, std::uint64_t chunk_tokens,
                              std::uint64_t block_tokens) {
  const std::uint64_t latest_offset = block_tokens - std::gcd(block_tokens, chunk_tokens);
  const auto sum = checked_add(rows, latest_offset);
  return ceil_div(sum.value_or(UINT64_MAX), block_tokens);
}

}  // namespace

std::uint64_t BlockLayout::released_at(std::uint64_t tokens) const {
  EMBLEMA_CHECK(block_tokens > 0, "a block holds at least one token");
  switch (retention) {
    case Retention::kWindow:
      return tokens < window_tokens ? 0 : (tokens - window_tokens + 1) / block_tokens;
    case Retention::kChunk:
      return tokens / window_tokens * window_tokens / block_tokens;
    default:
      return 0;
  }
}

std::uint64_t BlockLayout::blocks_at(std::uint64_t tokens) const {
  EMBLEMA_CHECK(block_tokens > 0, "a block holds at least one token");
  const std::uint64_t filled = ceil_div(tokens, block_tokens);
  if (retention != Retention::kChunk) return filled - released_at(tokens);
  if (tokens <= window_tokens) return filled;
  return std::min(filled, blocks_of_chunk(window_tokens, window_tokens, block_tokens));
}

std::uint64_t BlockLayout::blocks_peak(std::uint64_t tokens, std::uint64_t step_tokens) const {
  EMBLEMA_CHECK(block_tokens > 0, "a block holds at least one token");
  const std::uint64_t step = std::min(step_tokens, tokens);
  const std::uint64_t committed = tokens - step;  // before the last step
  const std::uint64_t all = ceil_div(tokens, block_tokens);
  if (retention == Retention::kChunk) {
    if (committed < window_tokens) return all;
    return std::min(all, blocks_of_chunk(window_tokens - 1 + step, window_tokens, block_tokens));
  }
  if (retention != Retention::kWindow || committed < window_tokens - 1) return all;
  // With c tokens committed, rows c - W + 1 ... c + step - 1 are held: W - 1 + step of them. They
  // touch most blocks when the first lies as late in its block as c <= `committed` allows.
  const std::uint64_t first_row = committed + 1 - window_tokens;
  const std::uint64_t offset = std::min(block_tokens - 1, first_row);
  return ceil_div(offset + (window_tokens - 1) + step, block_tokens);
}

std::uint64_t ArenaLayout::step_bytes(std::uint64_t step_tokens) const {
  const auto rows = checked_mul(step_tokens, window_row_bytes);
  const auto sum = rows ? checked_add(*rows, state_bytes) : std::nullopt;
  return sum.value_or(UINT64_MAX);
}

Result<ModelLayout> ModelLayout::native(const ModelGeometry& geometry) {
  ModelLayout layout;
  layout.profile = "native";
  for (const CacheGroup& group : geometry.groups()) {
    auto block = native_block(geometry, group);
    if (!block) return propagate(block);
    layout.groups.push_back(std::move(*block));
  }
  for (const LayerGeometry& layer : geometry.layers()) {
    for (const Stream& stream : layer.streams) {
      if (stream.placement != Placement::kArena) continue;
      const auto ok = add_to_arena(stream, layer.index, &layout.arena);
      if (!ok) return propagate(ok);
    }
  }
  return layout;
}

Result<std::uint64_t> ModelLayout::allocated_bytes_per_sequence(std::uint64_t tokens) const {
  const std::string what = fmt::format("allocated bytes of one sequence of {} tokens", tokens);
  std::uint64_t sum = arena.slot_bytes;
  for (const BlockLayout& group : groups) {
    const auto bytes = mul_bytes(group.blocks_at(tokens), group.block_bytes, what);
    if (!bytes) return bytes;
    const auto next = add_bytes(sum, *bytes, what);
    if (!next) return next;
    sum = *next;
  }
  return sum;
}

}  // namespace emblema
