// Memory of what sequences keep outside blocks: equal units per class (layout/arena_layout.h), each
// held by one or more sequences.
//
// Rights first, units then: a sequence's right (a slot) or a step's right guarantees that the units
// it may hold can be taken, so take() never fails within them. A unit with several holders is never
// written: is_shared() tells, and whoever writes takes another one (copy on write).
//
// Threads: every member may be called from any thread; one short lock guards counts, no copying or
// zeroing happens inside it. bytes() of a unit: one writer while it is not shared, any readers.
// Invariant: units held <= (slots + steps) x units of each; a free unit has no holder.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/contract/bytes.h"
#include "emblema/contract/result.h"
#include "emblema/layout/arena_layout.h"
#include "emblema/os/memory.h"

namespace emblema {

class StateArena {
 public:
  struct Options {
    ArenaLayout layout;  // with its draft tokens
    std::uint64_t slots = 0;
    std::uint64_t steps = 1;
    std::uint64_t step_tokens = 1;
    bool metadata_only = false;  // accounts for units without memory behind them
  };

  // One hold on a unit; gives it back when it dies. Dies before its arena.
  class Unit {
   public:
    Unit() = default;
    Unit(Unit&& other) noexcept { swap(other); }
    Unit& operator=(Unit&& other) noexcept {
      Unit moved(std::move(other));
      swap(moved);
      return *this;
    }
    ~Unit();
    bool holds() const { return arena_ != nullptr; }
    std::uint32_t index() const { return index_; }
    Unit share() const;      // REQUIRES: holds()
    bool is_shared() const;  // somebody else holds it too
    ByteSpan bytes() const;  // empty in metadata-only mode

   private:
    friend class StateArena;
    Unit(StateArena* arena, ArenaClass which, std::uint32_t index)
        : arena_(arena), class_(which), index_(index) {}
    void swap(Unit& other) noexcept;
    StateArena* arena_ = nullptr;
    ArenaClass class_ = ArenaClass::kWindow;
    std::uint32_t index_ = 0;
  };

  enum class RightKind : std::uint8_t { kSlot, kStep };
  // A sequence's or a step's place; given back when it dies. Dies before its arena.
  class Right {
   public:
    Right() = default;
    Right(Right&& other) noexcept { *this = std::move(other); }
    Right& operator=(Right&& other) noexcept;
    ~Right();
    bool holds() const { return arena_ != nullptr; }

   private:
    friend class StateArena;
    Right(StateArena* arena, RightKind kind) : arena_(arena), kind_(kind) {}
    StateArena* arena_ = nullptr;
    RightKind kind_ = RightKind::kSlot;
  };

  // Invalid: sizes past 64 bits. Io: the memory was refused.
  static Result<std::unique_ptr<StateArena>> open(Options options);
  ~StateArena();  // REQUIRES: every Unit and Right is gone

  const ArenaLayout& layout() const { return options_.layout; }
  std::uint64_t step_tokens() const { return options_.step_tokens; }
  std::byte* base(ArenaClass which) const;  // null in metadata-only mode
  std::uint64_t unit_count(ArenaClass which) const;

  // OutOfBlocks: every slot (or step buffer) is taken; names the option that says how many.
  Result<Right> admit(RightKind kind);

  // A unit of one's own, zero where another tenant had it before. REQUIRES: a right to it.
  Unit take(ArenaClass which, std::string_view tenant);

  struct Counts {
    std::uint64_t slots = 0;
    std::uint64_t slots_used = 0;
    std::uint64_t steps_used = 0;
    std::array<std::uint64_t, kArenaClasses> units_used{};
    std::uint64_t zeroed_units = 0;

    friend bool operator==(const Counts&, const Counts&) = default;
  };
  Counts counts() const;

  // Recounts free and held units. Corrupt: names the first class that disagrees.
  [[nodiscard]] Status check_invariants() const;

 private:
  struct Region {
    MemoryRegion memory;
    std::vector<std::uint32_t> holders;
    std::vector<std::string> tenants;  // of the last holder; empty: never used
    std::vector<bool> used;            // since open
    std::vector<std::uint32_t> free;   // a stack
  };

  explicit StateArena(Options options) : options_(std::move(options)) {}
  Region& region(ArenaClass which) { return regions_[static_cast<std::size_t>(which)]; }
  const Region& region(ArenaClass which) const { return regions_[static_cast<std::size_t>(which)]; }
  ByteSpan bytes(ArenaClass which, std::uint32_t index) const;
  void give_back(ArenaClass which, std::uint32_t index);
  void leave(RightKind kind);

  Options options_;
  mutable std::mutex mutex_;
  std::array<Region, kArenaClasses> regions_;
  std::uint64_t slots_used_ = 0;
  std::uint64_t steps_used_ = 0;
  std::uint64_t zeroed_units_ = 0;
};

}  // namespace emblema
