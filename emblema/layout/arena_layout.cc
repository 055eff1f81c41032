#include "emblema/layout/arena_layout.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/bytes.h"
#include "emblema/contract/check.h"
#include "emblema/layout/arena_pages.h"
#include "emblema/layout/page_layout.h"

namespace emblema {
namespace {

ArenaClass class_of(const Stream& stream) {
  switch (stream.retention) {
    case Retention::kWindow:
      return ArenaClass::kWindow;
    case Retention::kEncoder:
      return ArenaClass::kCross;
    default:
      return stream.role == StreamRole::kState ? ArenaClass::kState : ArenaClass::kTail;
  }
}

Status push_page(StreamPage page, ArenaUnit* unit) {
  page.offset_bytes = unit->bytes;
  const auto end =
      add_bytes(unit->bytes, page.page_bytes, fmt::format("arena bytes of layer {}", page.layer));
  if (!end) return propagate(end);
  unit->bytes = *end;
  unit->rows = unit->pages.empty() ? page.rows : std::min(unit->rows, page.rows);
  unit->pages.push_back(std::move(page));
  return {};
}

Result<std::uint64_t> slot_bytes_of(const ArenaLayout& arena) {
  std::uint64_t sum = 0;
  for (const ArenaClass which :
       {ArenaClass::kWindow, ArenaClass::kTail, ArenaClass::kState, ArenaClass::kCross}) {
    const std::uint64_t count = which == ArenaClass::kState ? arena.versions : 1;
    const auto bytes = mul_bytes(arena.unit(which).bytes, count, "bytes of an arena slot");
    const auto next = bytes ? add_bytes(sum, *bytes, "bytes of an arena slot") : bytes;
    if (!next) return next;
    sum = *next;
  }
  return sum;
}

// The sums over units: what must fit 64 bits is in slot_bytes.
Result<ArenaLayout> summed(ArenaLayout arena) {
  const auto slot = slot_bytes_of(arena);
  if (!slot) return propagate(slot);
  arena.slot_bytes = *slot;
  arena.state_bytes = arena.unit(ArenaClass::kTail).bytes + arena.unit(ArenaClass::kState).bytes;
  arena.window_row_bytes = 0;
  for (const StreamPage& page : arena.unit(ArenaClass::kWindow).pages) {
    arena.window_row_bytes += page.row_bytes;
  }
  return arena;
}

}  // namespace

std::string_view to_string(ArenaClass arena_class) {
  switch (arena_class) {
    case ArenaClass::kWindow:
      return "window";
    case ArenaClass::kTail:
      return "tail";
    case ArenaClass::kState:
      return "state";
    case ArenaClass::kCross:
      break;
  }
  return "cross";
}

const StreamPage* ArenaUnit::find(std::uint32_t layer, StreamRole role) const {
  const auto page = std::ranges::find_if(
      pages, [&](const StreamPage& one) { return one.layer == layer && one.role == role; });
  return page == pages.end() ? nullptr : &*page;
}

Result<ArenaLayout> arena_of(const ModelGeometry& geometry, Profile profile) {
  ArenaLayout arena;
  for (const LayerGeometry& layer : geometry.layers()) {
    for (const Stream& stream : layer.streams) {
      if (stream.placement != Placement::kArena) continue;
      auto page = page_of(profile, layer.index, stream, stream.retention_tokens);
      if (!page) return propagate(page);
      ArenaUnit& unit = arena.units[static_cast<std::size_t>(class_of(stream))];
      if (const auto ok = push_page(std::move(*page), &unit); !ok) return propagate(ok);
    }
  }
  return summed(std::move(arena));
}

Result<ArenaLayout> ArenaLayout::with_drafts(std::uint64_t draft_tokens) const {
  if (draft_tokens > kDraftTokensMax) {
    return fail(ErrorCode::Invalid, fmt::format("draft_tokens_max is {}; allowed: up to {}",
                                                draft_tokens, kDraftTokensMax));
  }
  ArenaLayout longer = *this;
  longer.versions = draft_tokens + 1;
  for (const ArenaClass which : {ArenaClass::kWindow, ArenaClass::kTail}) {
    ArenaUnit& unit = longer.units[static_cast<std::size_t>(which)];
    std::vector<StreamPage> pages = std::exchange(unit, {}).pages;
    for (StreamPage& page : pages) {
      page.rows += draft_tokens;
      const auto bytes = mul_bytes(page.rows, page.row_bytes, "bytes of an arena page");
      if (!bytes) return propagate(bytes);
      const std::uint64_t padded = round_up(*bytes, kPageAlignmentBytes);
      page.page_bytes = std::max(page.page_bytes, padded);
      if (const auto ok = push_page(std::move(page), &unit); !ok) return propagate(ok);
    }
  }
  return summed(std::move(longer));
}

std::uint64_t ArenaLayout::step_windows(std::uint64_t step_tokens) const {
  const std::uint64_t rows = unit(ArenaClass::kWindow).rows;
  return rows == 0 ? 0 : ceil_div(step_tokens, rows);
}

std::uint64_t ArenaLayout::step_bytes(std::uint64_t step_tokens) const {
  const auto windows = checked_mul(step_windows(step_tokens), unit(ArenaClass::kWindow).bytes);
  const auto states = checked_mul(versions, unit(ArenaClass::kState).bytes);
  auto sum = windows && states ? checked_add(*windows, *states) : std::nullopt;
  if (sum) sum = checked_add(*sum, unit(ArenaClass::kTail).bytes);
  return sum.value_or(UINT64_MAX);
}

}  // namespace emblema
