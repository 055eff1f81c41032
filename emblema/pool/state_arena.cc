#include "emblema/pool/state_arena.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/check.h"

namespace emblema {
namespace {

// Units that all slots and all steps hold at most.
Result<std::uint64_t> units_of(const StateArena::Options& options, ArenaClass which) {
  const ArenaLayout& layout = options.layout;
  if (layout.unit(which).bytes == 0) return 0;
  std::uint64_t per_slot = 1;
  std::uint64_t per_step = 1;
  if (which == ArenaClass::kWindow) per_step = layout.step_windows(options.step_tokens);
  if (which == ArenaClass::kState) per_slot = per_step = layout.versions;
  if (which == ArenaClass::kCross) per_step = 0;
  const auto slots = mul_bytes(options.slots, per_slot, "arena units of all slots");
  if (!slots) return slots;
  const auto steps = mul_bytes(options.steps, per_step, "arena units of all steps");
  if (!steps) return steps;
  const auto sum = add_bytes(*slots, *steps, "arena units");
  if (sum && *sum >= UINT32_MAX) {
    return fail(ErrorCode::Invalid, fmt::format("{} arena units of class {}; allowed: up to {}",
                                                *sum, to_string(which), UINT32_MAX - 1));
  }
  return sum;
}

}  // namespace

Result<std::unique_ptr<StateArena>> StateArena::open(Options options) {
  std::unique_ptr<StateArena> arena(new StateArena(std::move(options)));
  for (std::size_t i = 0; i < kArenaClasses; ++i) {
    const auto which = static_cast<ArenaClass>(i);
    const auto units = units_of(arena->options_, which);
    if (!units) return propagate(units);
    const auto bytes =
        mul_bytes(*units, arena->layout().unit(which).bytes, "bytes of an arena region");
    if (!bytes) return propagate(bytes);
    Region& region = arena->region(which);
    if (!arena->options_.metadata_only) {
      auto memory = MemoryRegion::map(*bytes);
      if (!memory) return propagate(memory);
      region.memory = std::move(*memory);
    }
    region.holders.assign(*units, 0);
    region.tenants.resize(*units);
    region.used.assign(*units, false);
    for (std::uint64_t left = *units; left > 0; --left) {
      region.free.push_back(static_cast<std::uint32_t>(left - 1));
    }
  }
  return arena;
}

StateArena::~StateArena() {
  EMBLEMA_CHECK(slots_used_ == 0 && steps_used_ == 0, "sequences go before their arena");
}

std::byte* StateArena::base(ArenaClass which) const {
  return region(which).memory.data();
}

std::uint64_t StateArena::unit_count(ArenaClass which) const {
  return region(which).holders.size();
}

ByteSpan StateArena::bytes(ArenaClass which, std::uint32_t index) const {
  if (options_.metadata_only) return {};
  const std::uint64_t size = layout().unit(which).bytes;
  return {base(which) + index * size, size};
}

Result<StateArena::Right> StateArena::admit(RightKind kind) {
  const std::lock_guard lock(mutex_);
  if (kind == RightKind::kSlot) {
    if (slots_used_ >= options_.slots) {
      return fail(ErrorCode::OutOfBlocks,
                  fmt::format("all {} arena slots are taken (max_sequences, as the pool holds "
                              "them); release a sequence, or open a larger pool",
                              options_.slots));
    }
    ++slots_used_;
  } else {
    if (steps_used_ >= options_.steps) {
      return fail(ErrorCode::OutOfBlocks,
                  fmt::format("all {} step buffers are taken (steps_max); commit or cancel a step "
                              "of another sequence",
                              options_.steps));
    }
    ++steps_used_;
  }
  return Right(this, kind);
}

StateArena::Unit StateArena::take(ArenaClass which, std::string_view tenant) {
  std::uint32_t index = 0;
  bool foreign = false;
  {
    const std::lock_guard lock(mutex_);
    Region& from = region(which);
    EMBLEMA_CHECK(!from.free.empty(), "rights cover every unit that is taken");
    index = from.free.back();
    from.free.pop_back();
    from.holders[index] = 1;
    foreign = from.used[index] && from.tenants[index] != tenant;
    if (!from.used[index] || foreign) from.tenants[index] = tenant;
    from.used[index] = true;
    if (foreign) ++zeroed_units_;
  }
  const ByteSpan memory = bytes(which, index);
  if (foreign && !memory.empty()) std::memset(memory.data(), 0, memory.size());
  return {this, which, index};
}

void StateArena::give_back(ArenaClass which, std::uint32_t index) {
  const std::lock_guard lock(mutex_);
  Region& to = region(which);
  EMBLEMA_CHECK(to.holders[index] > 0, "a unit is given back once");
  if (--to.holders[index] == 0) to.free.push_back(index);
}

void StateArena::leave(RightKind kind) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& used = kind == RightKind::kSlot ? slots_used_ : steps_used_;
  EMBLEMA_CHECK(used > 0, "a right is given back once");
  --used;
}

StateArena::Counts StateArena::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts{.slots = options_.slots,
                .slots_used = slots_used_,
                .steps_used = steps_used_,
                .units_used = {},
                .zeroed_units = zeroed_units_};
  for (std::size_t i = 0; i < kArenaClasses; ++i) {
    counts.units_used[i] = regions_[i].holders.size() - regions_[i].free.size();
  }
  return counts;
}

Status StateArena::check_invariants() const {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < kArenaClasses; ++i) {
    const Region& one = regions_[i];
    std::vector<bool> is_free(one.holders.size(), false);
    for (const std::uint32_t index : one.free) {
      if (is_free[index] || one.holders[index] > 0) {
        return fail(ErrorCode::Corrupt,
                    fmt::format("arena unit {} of class {} is free twice, or free and held", index,
                                to_string(static_cast<ArenaClass>(i))));
      }
      is_free[index] = true;
    }
    for (std::size_t index = 0; index < one.holders.size(); ++index) {
      if (one.holders[index] > 0 || is_free[index]) continue;
      return fail(ErrorCode::Corrupt, fmt::format("arena unit {} of class {} is lost", index,
                                                  to_string(static_cast<ArenaClass>(i))));
    }
  }
  return {};
}

StateArena::Unit::~Unit() {
  if (arena_ != nullptr) arena_->give_back(class_, index_);
}

void StateArena::Unit::swap(Unit& other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(class_, other.class_);
  std::swap(index_, other.index_);
}

StateArena::Unit StateArena::Unit::share() const {
  EMBLEMA_CHECK(holds(), "a unit");
  const std::lock_guard lock(arena_->mutex_);
  ++arena_->region(class_).holders[index_];
  return {arena_, class_, index_};
}

bool StateArena::Unit::is_shared() const {
  EMBLEMA_CHECK(holds(), "a unit");
  const std::lock_guard lock(arena_->mutex_);
  return arena_->region(class_).holders[index_] > 1;
}

ByteSpan StateArena::Unit::bytes() const {
  EMBLEMA_CHECK(holds(), "a unit");
  return arena_->bytes(class_, index_);
}

StateArena::Right& StateArena::Right::operator=(Right&& other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(kind_, other.kind_);
  return *this;
}

StateArena::Right::~Right() {
  if (arena_ != nullptr) arena_->leave(kind_);
}

}  // namespace emblema
