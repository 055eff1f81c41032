#include "emblema/session/sequence_arena.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/canary.h"
#include "emblema/contract/check.h"

namespace emblema {
namespace {

constexpr ArenaClass kRings[] = {ArenaClass::kWindow, ArenaClass::kTail};

std::optional<ArenaClass> class_of(StreamRole role) {
  switch (role) {
    case StreamRole::kWindow:
      return ArenaClass::kWindow;
    case StreamRole::kCompressor:
      return ArenaClass::kTail;
    case StreamRole::kState:
      return ArenaClass::kState;
    default:
      return std::nullopt;
  }
}

// REQUIRES: bytes of a unit, or none (metadata-only mode).
std::byte* row_at(ByteSpan unit, const StreamPage& page, std::uint64_t row) {
  return unit.data() + page.offset_bytes + row * page.row_bytes;
}

std::uint64_t back_from(std::uint64_t tokens, std::uint64_t rows) {
  return tokens - std::min(tokens, rows);
}

}  // namespace

Result<SequenceArena> SequenceArena::open(StateArena& arena, std::string tenant) {
  auto slot = arena.admit(StateArena::RightKind::kSlot);
  if (!slot) return propagate(slot);
  SequenceArena made(arena, std::move(tenant));
  made.slot_ = std::move(*slot);
  made.clear(0);
  return made;
}

Result<SequenceArena> SequenceArena::fork() const {
  auto slot = arena_->admit(StateArena::RightKind::kSlot);
  if (!slot) return propagate(slot);
  SequenceArena child(*arena_, tenant_);
  child.slot_ = std::move(*slot);
  for (const ArenaClass which : kRings) {
    const Ring& from = ring(which);
    if (!from.unit.holds()) continue;
    child.ring(which) = {from.unit.share(), from.twice, from.from};
  }
  for (const Version& version : versions_) {
    child.versions_.push_back({version.tokens, version.unit.share()});
  }
  return child;
}

void SequenceArena::clear(std::uint64_t tokens) {
  for (const ArenaClass which : kRings) {
    if (unit(which).bytes == 0) continue;
    Ring& one = ring(which);
    if (!one.unit.holds() || one.unit.is_shared()) {
      one.unit = {};
      one.unit = arena_->take(which, tenant_);
    }
    one.twice.assign(2, one.unit.index());
    one.from.assign(unit(which).pages.size(), tokens);
  }
  versions_.clear();
}

// Copy on write.
void SequenceArena::own(ArenaClass which) {
  Ring& one = ring(which);
  if (!one.unit.is_shared() || EMBLEMA_CANARY(kRingWrittenShared)) return;
  StateArena::Unit copy = arena_->take(which, tenant_);
  const ByteSpan from = one.unit.bytes();
  if (!from.empty()) std::memcpy(copy.bytes().data(), from.data(), from.size());
  one.unit = std::move(copy);
  one.twice.assign(2, one.unit.index());
}

// ---- the step in flight ------------------------------------------------------------------------

Status SequenceArena::reserve(std::uint64_t end, std::uint64_t reserved) {
  if (reserved == 0) return {};
  if (!step_.holds()) {
    auto right = arena_->admit(StateArena::RightKind::kStep);
    if (!right) return propagate(right);
    step_ = std::move(*right);
    const std::uint64_t windows = arena_->layout().step_windows(arena_->step_tokens());
    for (std::uint64_t i = 0; i < windows; ++i) {
      step_windows_.push_back(arena_->take(ArenaClass::kWindow, tenant_));
    }
    if (unit(ArenaClass::kTail).bytes > 0) step_tail_ = arena_->take(ArenaClass::kTail, tenant_);
    if (unit(ArenaClass::kState).bytes > 0) step_states_.resize(arena_->layout().versions);
  }
  const std::uint64_t versions = step_states_.size();
  for (std::uint64_t at = std::max(end, back_from(end + reserved, versions));
       versions > 0 && at < end + reserved; ++at) {
    StateArena::Unit& state = step_states_[at % versions];
    if (!state.holds()) state = arena_->take(ArenaClass::kState, tenant_);
  }
  list_step();
  return {};
}

void SequenceArena::list_step() {
  step_windows_twice_.clear();
  step_states_twice_.clear();
  for (int twice = 0; twice < 2; ++twice) {
    for (const StateArena::Unit& one : step_windows_) step_windows_twice_.push_back(one.index());
    for (const StateArena::Unit& one : step_states_) step_states_twice_.push_back(one.index());
  }
  step_tail_twice_.assign(2, step_tail_.index());
}

void SequenceArena::cancel() {
  step_windows_.clear();
  step_tail_ = {};
  step_states_.clear();
  step_ = {};
}

Status SequenceArena::check_commit(std::uint64_t accepted, std::uint64_t reserved) const {
  const bool keeps_all = unit(ArenaClass::kTail).bytes == 0 && unit(ArenaClass::kState).bytes == 0;
  const std::uint64_t drafts = arena_->layout().versions - 1;
  if (accepted == 0 || keeps_all || accepted + drafts >= reserved) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("commit of {} of {} reserved tokens; allowed: at least {}, for state "
                          "inside a step is kept for its last draft_tokens_max = {} tokens",
                          accepted, reserved, reserved - drafts, drafts));
}

void SequenceArena::commit(std::uint64_t end, std::uint64_t accepted, std::uint64_t reserved) {
  if (accepted == 0) return;
  for (const ArenaClass which : kRings) {
    if (unit(which).bytes > 0) commit_ring(which, end, accepted, reserved);
  }
  commit_states(end, accepted, reserved);
  if (accepted == reserved) cancel();
}

void SequenceArena::commit_ring(ArenaClass which, std::uint64_t end, std::uint64_t accepted,
                                std::uint64_t reserved) {
  own(which);
  Ring& to = ring(which);
  const std::vector<StreamPage>& pages = unit(which).pages;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const StreamPage& page = pages[i];
    const std::uint64_t in_step =
        which == ArenaClass::kWindow ? page.rows * step_windows_.size() : page.rows;
    // Rows that the step still has, and that the ring has room for.
    const std::uint64_t kept = back_from(end + reserved, in_step);
    const std::uint64_t first = std::max({end, back_from(end + accepted, page.rows), kept});
    for (std::uint64_t at = first; at < end + accepted; ++at) {
      const StateArena::Unit& from =
          which == ArenaClass::kWindow ? step_windows_[at % in_step / page.rows] : step_tail_;
      const ByteSpan bytes = from.bytes();
      if (bytes.empty()) continue;
      std::memcpy(row_at(to.unit.bytes(), page, at % page.rows),
                  row_at(bytes, page, at % page.rows), page.row_bytes);
    }
    const std::uint64_t lost = kept > end ? kept : 0;
    to.from[i] = std::max({to.from[i], back_from(end + accepted, page.rows), lost});
  }
}

void SequenceArena::commit_states(std::uint64_t end, std::uint64_t accepted,
                                  std::uint64_t reserved) {
  const std::uint64_t versions = step_states_.size();
  if (versions == 0) return;
  for (std::uint64_t at = std::max(end, back_from(end + reserved, versions)); at < end + accepted;
       ++at) {
    versions_.push_back({at + 1, std::move(step_states_[at % versions])});
  }
  while (!versions_.empty() && versions_.front().tokens + versions <= end + accepted) {
    versions_.pop_front();
  }
}

// ---- rows --------------------------------------------------------------------------------------

Result<SequenceArena::Place> SequenceArena::step_rows(std::uint32_t layer, StreamRole role,
                                                      std::uint64_t first, std::uint64_t count,
                                                      std::uint64_t step_end) const {
  const auto which = class_of(role);
  const StreamPage* page = which ? unit(*which).find(layer, role) : nullptr;
  if (page == nullptr) {
    return fail(ErrorCode::Invalid,
                fmt::format("layer {} has no {} stream of its own", layer, to_string(role)));
  }
  Place place{.base = arena_->base(*which),
              .unit_bytes = unit(*which).bytes,
              .row_bytes = page->row_bytes,
              .rows = page->rows};
  std::uint64_t in_step = page->rows;
  switch (*which) {
    case ArenaClass::kWindow:
      place.units = step_windows_twice_.data();
      in_step = page->rows * step_windows_.size();
      break;
    case ArenaClass::kTail:
      place.units = step_tail_twice_.data();
      break;
    default:
      place.units = step_states_twice_.data();
      in_step = step_states_.size();
      break;
  }
  const std::uint64_t kept_from = back_from(step_end, in_step);
  if (count > 0 && first < kept_from) {
    return fail(ErrorCode::Invalid,
                fmt::format("{} rows of layer {} at position {}; allowed: positions from {}, the "
                            "last {} of the step",
                            to_string(role), layer, first, kept_from, in_step));
  }
  if (place.base != nullptr) place.base += page->offset_bytes;
  place.first_row = count == 0 ? 0 : first % in_step;
  return place;
}

ConstByteSpan SequenceArena::row(std::uint32_t layer, StreamRole role, std::uint64_t position,
                                 std::uint64_t end) const {
  const auto which = class_of(role);
  const StreamPage* page = which ? unit(*which).find(layer, role) : nullptr;
  if (page == nullptr || position >= end) return {};
  if (*which == ArenaClass::kState) {
    for (const Version& version : versions_) {
      if (version.tokens != position + 1 || version.unit.bytes().empty()) continue;
      return {row_at(version.unit.bytes(), *page, 0), page->row_bytes};
    }
    return {};
  }
  const Ring& one = ring(*which);
  const auto index = static_cast<std::size_t>(page - unit(*which).pages.data());
  if (position < one.from[index] || one.unit.bytes().empty()) return {};
  return {row_at(one.unit.bytes(), *page, position % page->rows), page->row_bytes};
}

std::vector<Span> SequenceArena::window_spans(std::uint64_t end, std::uint64_t reserved) const {
  std::vector<Span> spans;
  const ArenaUnit& windows = unit(ArenaClass::kWindow);
  if (windows.bytes == 0) return spans;
  const std::uint64_t from = *std::ranges::max_element(window_.from);
  if (from < end) {
    spans.push_back({.blocks = window_.twice,
                     .first_row = from % windows.rows,
                     .rows = end - from,
                     .position = static_cast<std::int64_t>(from)});
  }
  if (reserved > 0) {
    spans.push_back({.blocks = step_windows_twice_,
                     .first_row = end % (windows.rows * step_windows_.size()),
                     .rows = reserved,
                     .position = static_cast<std::int64_t>(end)});
  }
  return spans;
}

// ---- past states -------------------------------------------------------------------------------

std::uint64_t SequenceArena::rows_read(ArenaClass which, const StreamPage& page) const {
  const std::uint64_t rows = page.rows - (arena_->layout().versions - 1);
  return which == ArenaClass::kWindow ? rows - 1 : rows;
}

bool SequenceArena::is_exact_at(std::uint64_t tokens) const {
  if (tokens == 0) return true;
  for (const ArenaClass which : kRings) {
    const std::vector<StreamPage>& pages = unit(which).pages;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (ring(which).from[i] > back_from(tokens, rows_read(which, pages[i]))) return false;
    }
  }
  return unit(ArenaClass::kState).bytes == 0 ||
         std::ranges::any_of(versions_, [&](const Version& one) { return one.tokens == tokens; });
}

void SequenceArena::cut(std::uint64_t tokens) {
  if (tokens == 0) return clear(0);
  while (!versions_.empty() && versions_.back().tokens > tokens) versions_.pop_back();
}

void SequenceArena::save(std::uint64_t tokens, const BlockLayout& layout, ByteSpan snapshot) const {
  if (snapshot.empty()) return;
  for (const StreamPage& page : layout.pages) {
    // Row i of a snapshot is that of position tokens - rows + i; a short sequence has zeros first.
    const ByteSpan to = snapshot.subspan(page.offset_bytes, page.page_bytes);
    std::memset(to.data(), 0, to.size());
    const std::uint64_t first = back_from(tokens, page.rows);
    for (std::uint64_t at = first; at < tokens; ++at) {
      const ConstByteSpan from = row(page.layer, page.role, at, tokens);
      EMBLEMA_CHECK(!from.empty(), "a snapshot of what is here");
      const std::uint64_t index = at + page.rows - tokens;
      std::memcpy(to.data() + index * page.row_bytes, from.data(), from.size());
    }
  }
}

void SequenceArena::restore(std::uint64_t tokens, const BlockLayout& layout,
                            ConstByteSpan snapshot) {
  clear(tokens);
  if (unit(ArenaClass::kState).bytes > 0) {
    versions_.push_back({tokens, arena_->take(ArenaClass::kState, tenant_)});
  }
  for (const StreamPage& page : layout.pages) {
    const ArenaClass which = *class_of(page.role);
    const StreamPage* own_page = unit(which).find(page.layer, page.role);
    const std::uint64_t first = back_from(tokens, page.rows);
    const bool is_state = which == ArenaClass::kState;
    const ByteSpan to = is_state ? versions_.back().unit.bytes() : ring(which).unit.bytes();
    if (!is_state) {
      ring(which).from[static_cast<std::size_t>(own_page - unit(which).pages.data())] = first;
    }
    if (to.empty() || snapshot.empty()) continue;
    for (std::uint64_t at = first; at < tokens; ++at) {
      const std::uint64_t index = at + page.rows - tokens;
      std::memcpy(row_at(to, *own_page, at % own_page->rows),
                  snapshot.data() + page.offset_bytes + index * page.row_bytes, page.row_bytes);
    }
  }
}

std::uint64_t SequenceArena::units_held(ArenaClass which) const {
  switch (which) {
    case ArenaClass::kWindow:
      return (window_.unit.holds() ? 1 : 0) + step_windows_.size();
    case ArenaClass::kTail:
      return (tail_.unit.holds() ? 1u : 0u) + (step_tail_.holds() ? 1u : 0u);
    default:
      return versions_.size() +
             static_cast<std::uint64_t>(std::ranges::count_if(
                 step_states_, [](const StateArena::Unit& one) { return one.holds(); }));
  }
}

}  // namespace emblema
