// What one sequence keeps in the arena: rings of rows, versions of state, and those of the step in
// flight. Internal to this room.
//
//   step        rows and states of reserved tokens go here; giving the step up changes nothing
//   commit      moves the accepted rows into the rings and the accepted states behind the others
//   fork        shares every unit; whoever writes next copies its rings first (states never change)
//   save        a snapshot at a boundary, into a block of the snapshots' group
//   restore     from a snapshot: copies, so a snapshot is never anybody's live state
//
// `end` is the number of tokens behind the rings: what is committed, or how far a replay has come.
// One thread at a time. row places neither allocate nor lock.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "emblema/layout/attention_inputs.h"
#include "emblema/layout/block_layout.h"
#include "emblema/pool/state_arena.h"

namespace emblema {

class SequenceArena {
 public:
  // OutOfBlocks: no slot is free.
  static Result<SequenceArena> open(StateArena& arena, std::string tenant);

  // A second one of the same content. OutOfBlocks: no slot is free.
  Result<SequenceArena> fork() const;

  // ---- the step in flight ----------------------------------------------------------------------

  // Room for the rows and states of `reserved` tokens behind `end`; may be called again to make the
  // step longer. OutOfBlocks: every step buffer is in use.
  [[nodiscard]] Status reserve(std::uint64_t end, std::uint64_t reserved);
  void cancel();

  // Whether so many of the reserved tokens can be accepted. Invalid: a state inside the step that
  // was not kept.
  [[nodiscard]] Status check_commit(std::uint64_t accepted, std::uint64_t reserved) const;
  void commit(std::uint64_t end, std::uint64_t accepted, std::uint64_t reserved);

  // ---- rows ------------------------------------------------------------------------------------

  // Where rows of consecutive positions lie: row r at
  // base + units[r / rows] * unit_bytes + r % rows * row_bytes, from first_row on.
  struct Place {
    std::byte* base = nullptr;  // null in metadata-only mode
    const std::uint32_t* units = nullptr;
    std::uint64_t unit_bytes = 0;
    std::uint64_t row_bytes = 0;
    std::uint64_t rows = 0;
    std::uint64_t first_row = 0;
  };
  // Of reserved positions. Invalid: rows that a step of this length does not keep (names those that
  // it does).
  Result<Place> step_rows(std::uint32_t layer, StreamRole role, std::uint64_t first,
                          std::uint64_t count, std::uint64_t step_end) const;
  // A committed row, or the state behind the token at `position`; empty where it is not kept.
  ConstByteSpan row(std::uint32_t layer, StreamRole role, std::uint64_t position,
                    std::uint64_t end) const;
  // Windows of committed and reserved rows, as attention reads them: ring, then step.
  std::vector<Span> window_spans(std::uint64_t end, std::uint64_t reserved) const;

  // ---- past states -----------------------------------------------------------------------------

  // Whether everything that token `tokens` reads of the first `tokens` is here.
  bool is_exact_at(std::uint64_t tokens) const;
  // Forgets what is behind. REQUIRES: is_exact_at(tokens), no step in flight.
  void cut(std::uint64_t tokens);
  // Starts anew at `tokens`, without any row or state.
  void clear(std::uint64_t tokens);

  // REQUIRES: is_exact_at(tokens); a layout with ModelLayout::snapshot's pages.
  void save(std::uint64_t tokens, const BlockLayout& layout, ByteSpan snapshot) const;
  void restore(std::uint64_t tokens, const BlockLayout& layout, ConstByteSpan snapshot);

  // Units held, for readers and tests.
  std::uint64_t units_held(ArenaClass which) const;

 private:
  struct Version {
    std::uint64_t tokens = 0;  // the state behind so many
    StateArena::Unit unit;
  };
  struct Ring {
    StateArena::Unit unit;
    std::vector<std::uint32_t> twice;  // its index, twice: rows that wrap
    std::vector<std::uint64_t> from;   // per page: the first position whose row is there
  };
  SequenceArena(StateArena& arena, std::string tenant)
      : arena_(&arena), tenant_(std::move(tenant)) {}

  const ArenaUnit& unit(ArenaClass which) const { return arena_->layout().unit(which); }
  Ring& ring(ArenaClass which) { return which == ArenaClass::kWindow ? window_ : tail_; }
  const Ring& ring(ArenaClass which) const {
    return which == ArenaClass::kWindow ? window_ : tail_;
  }
  // Rows of a page that the next token reads.
  std::uint64_t rows_read(ArenaClass which, const StreamPage& page) const;
  void own(ArenaClass which);
  void list_step();
  void commit_ring(ArenaClass which, std::uint64_t end, std::uint64_t accepted,
                   std::uint64_t reserved);
  void commit_states(std::uint64_t end, std::uint64_t accepted, std::uint64_t reserved);

  StateArena* arena_;
  std::string tenant_;
  StateArena::Right slot_;  // before the units: it goes after them
  StateArena::Right step_;
  Ring window_;
  Ring tail_;
  std::deque<Version> versions_;  // ascending tokens; the last ones of what is committed

  std::vector<StateArena::Unit> step_windows_;
  StateArena::Unit step_tail_;
  std::vector<StateArena::Unit> step_states_;  // [position mod versions]
  std::vector<std::uint32_t> step_windows_twice_;
  std::vector<std::uint32_t> step_tail_twice_;
  std::vector<std::uint32_t> step_states_twice_;
};

}  // namespace emblema
