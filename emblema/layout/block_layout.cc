#include "emblema/layout/block_layout.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"
#include "emblema/layout/page_layout.h"

namespace emblema {
namespace {

Result<BlockLayout> block_of(const ModelGeometry& geometry, const CacheGroup& group,
                             Profile profile) {
  BlockLayout block;
  block.group_name = group.name;
  block.retention = group.retention;
  block.window_tokens = group.window_tokens;
  block.block_tokens = group.block_tokens;
  for (const CacheGroup::Member& member : group.members) {
    const Stream& stream = geometry.layers()[member.layer].streams[member.stream];
    auto page = page_of(profile, member.layer, stream, group.block_tokens / stream.stride_tokens);
    if (!page) return propagate(page);
    page->offset_bytes = block.block_bytes;
    const auto end = add_bytes(block.block_bytes, page->page_bytes,
                               fmt::format("block bytes of group '{}'", group.name));
    if (!end) return propagate(end);
    block.block_bytes = *end;
    block.pages.push_back(std::move(*page));
  }
  // Last: what a group stores says more than how many tokens of it.
  if (const auto ok = check_block_tokens(profile, group); !ok) return propagate(ok);
  return block;
}

Status add_to_arena(Profile profile, const Stream& stream, std::uint32_t layer,
                    ArenaLayout* arena) {
  const std::string what = fmt::format("arena bytes of layer {}", layer);
  const auto page = page_of(profile, layer, stream, stream.retention_tokens);
  if (!page) return propagate(page);
  const auto slot = add_bytes(arena->slot_bytes, page->page_bytes, what);
  if (!slot) return propagate(slot);
  arena->slot_bytes = *slot;
  if (stream.retention == Retention::kFixed) {
    arena->state_bytes += page->page_bytes;  // a part of slot_bytes, so it fits
    return {};
  }
  if (stream.retention == Retention::kEncoder) return {};  // written once, by no step
  const auto rows = add_bytes(arena->window_row_bytes, stream.entry_bytes, what);
  if (!rows) return propagate(rows);
  arena->window_row_bytes = *rows;
  return {};
}

// The native layout is what a geometry's fingerprint stands for.
Fingerprint fingerprint_with(const Fingerprint& geometry, Profile profile) {
  if (profile == Profile::kNative) return geometry;
  constexpr std::string_view kRole = "emblema layout profile";
  std::vector<std::byte> bytes;
  for (const char c : kRole) bytes.push_back(static_cast<std::byte>(c));
  for (const std::uint8_t byte : geometry.bytes) bytes.push_back(std::byte{byte});
  bytes.push_back(static_cast<std::byte>(profile));
  return sha256(bytes);
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
  return with_profile(geometry, Profile::kNative);
}

Result<ModelLayout> ModelLayout::with_profile(const ModelGeometry& geometry, Profile profile) {
  ModelLayout layout;
  layout.profile = profile;
  layout.fingerprint = fingerprint_with(geometry.fingerprint(), profile);
  for (const CacheGroup& group : geometry.groups()) {
    auto block = block_of(geometry, group, profile);
    if (!block) return propagate(block);
    layout.groups.push_back(std::move(*block));
  }
  for (const LayerGeometry& layer : geometry.layers()) {
    for (const Stream& stream : layer.streams) {
      if (stream.placement != Placement::kArena) continue;
      const auto ok = add_to_arena(profile, stream, layer.index, &layout.arena);
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
