#include "emblema/layout/block_layout.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"
#include "emblema/layout/arena_pages.h"
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

// What must be kept of the arena at a boundary. A window of W shows W - 1 rows to the next token.
Result<BlockLayout> snapshot_of(const ArenaLayout& arena, const std::vector<BlockLayout>& groups) {
  BlockLayout snapshot;
  snapshot.group_name = "snapshots";
  snapshot.retention = Retention::kFixed;
  snapshot.block_tokens = groups.empty() ? kStateBoundaryTokens : 1;
  for (const BlockLayout& group : groups) {
    const std::uint64_t factor =
        group.block_tokens / std::gcd(group.block_tokens, snapshot.block_tokens);
    const auto tokens = mul_bytes(snapshot.block_tokens, factor, "tokens between snapshots");
    if (!tokens) return propagate(tokens);
    snapshot.block_tokens = *tokens;
  }
  for (const ArenaClass which : {ArenaClass::kWindow, ArenaClass::kTail, ArenaClass::kState}) {
    for (StreamPage page : arena.unit(which).pages) {
      if (which == ArenaClass::kWindow) page.rows -= 1;
      page.page_bytes = round_up(page.rows * page.row_bytes, kPageAlignmentBytes);
      page.offset_bytes = snapshot.block_bytes;
      snapshot.block_bytes += page.page_bytes;  // no more than a slot's, which fits
      snapshot.pages.push_back(std::move(page));
    }
  }
  std::stable_sort(snapshot.pages.begin(), snapshot.pages.end(),
                   [](const StreamPage& a, const StreamPage& b) { return a.layer < b.layer; });
  return snapshot;
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

std::uint64_t BlockLayout::visible_from(std::uint64_t tokens) const {
  switch (retention) {
    case Retention::kWindow:
      return tokens < window_tokens ? 0 : tokens - window_tokens + 1;
    case Retention::kChunk:
      return tokens / window_tokens * window_tokens;
    default:
      return 0;
  }
}

std::uint64_t BlockLayout::released_at(std::uint64_t tokens) const {
  EMBLEMA_CHECK(block_tokens > 0, "a block holds at least one token");
  return visible_from(tokens) / block_tokens;
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

std::uint64_t BlockLayout::blocks_behind(std::uint64_t tokens, const Steps& steps) const {
  const std::uint64_t certain = tokens > steps.draft_tokens ? tokens - steps.draft_tokens : 0;
  return ceil_div(tokens, block_tokens) - released_at(certain);
}

std::uint64_t BlockLayout::blocks_on_the_way(std::uint64_t tokens, const Steps& steps) const {
  if (retention == Retention::kGrowing) return ceil_div(tokens, block_tokens);
  // Held blocks depend on where in a block (and a chunk) a step begins, so they repeat. Until the
  // first row is let go they only grow.
  constexpr std::uint64_t kStepsMax = std::uint64_t{1} << 16;
  const std::uint64_t step = std::min(steps.tokens, tokens);
  const std::uint64_t chunk = retention == Retention::kChunk ? window_tokens : 1;
  const std::uint64_t round =
      checked_mul(chunk / std::gcd(chunk, block_tokens), block_tokens).value_or(UINT64_MAX);
  const std::uint64_t steps_in_round = round / std::gcd(round, step);
  const std::uint64_t count = ceil_div(tokens, step);
  const std::uint64_t first_release = window_tokens / step;
  const std::uint64_t begin = first_release > 1 ? first_release - 1 : 0;
  if (steps_in_round > kStepsMax) {
    return blocks_peak(tokens, checked_add(steps.tokens, steps.draft_tokens).value_or(UINT64_MAX));
  }
  const std::uint64_t drafts_in_steps = ceil_div(steps.draft_tokens, step);
  std::uint64_t most = 0;
  const auto visit = [&](std::uint64_t index) {
    const std::uint64_t committed = index * step;
    const std::uint64_t end = committed + std::min(step, tokens - committed);
    const std::uint64_t certain =
        committed > steps.draft_tokens ? committed - steps.draft_tokens : 0;
    most = std::max(most, ceil_div(end, block_tokens) - released_at(certain));
  };
  const std::uint64_t last = std::min(count, begin + drafts_in_steps + 2 * steps_in_round + 2);
  for (std::uint64_t index = std::min(begin, count - 1); index < last; ++index) visit(index);
  visit(count - 1);
  return most;
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
  auto arena = arena_of(geometry, profile);
  if (!arena) return propagate(arena);
  layout.arena = std::move(*arena);
  if (geometry.has_state() && profile == Profile::kNative) {
    auto snapshot = snapshot_of(layout.arena, layout.groups);
    if (!snapshot) return propagate(snapshot);
    layout.snapshot = std::move(*snapshot);
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
