// What a sequence keeps outside blocks: DeepSeek-V4's windows and the rows that wait to be
// compressed, recurrent state, rows of an encoder.
//
// Glossary
//   unit     memory of one class for one sequence: the pages of all layers' streams of that class
//   ring     a unit of rows, one for each token: token p's row is p mod `rows`
//   version  a unit of state: its value behind one certain token; never changed once committed
//   slot     all units of one sequence
//   step     the units that one step in flight writes, so that giving it up changes nothing
// Plain values; any thread may read.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/layout/stream_page.h"

namespace emblema {

enum class ArenaClass : std::uint8_t {
  kWindow,  // rings of window rows
  kTail,    // rings of rows that are not compressed yet
  kState,   // recurrent and convolution state
  kCross,   // rows of an encoder: written once
};
inline constexpr std::size_t kArenaClasses = 4;

std::string_view to_string(ArenaClass arena_class);

struct ArenaUnit {
  std::uint64_t rows = 0;   // of the shortest page: a ring's length, 1 for state
  std::uint64_t bytes = 0;  // of all pages, each padded to 64; 0: the model has no such streams
  std::vector<StreamPage> pages;  // in layer order; offsets from the unit's start

  const StreamPage* find(std::uint32_t layer, StreamRole role) const;
};

struct ArenaLayout {
  std::array<ArenaUnit, kArenaClasses> units;
  std::uint64_t versions = 1;          // of state in a slot: draft tokens + 1
  std::uint64_t slot_bytes = 0;        // 0: the model has no arena streams
  std::uint64_t state_bytes = 0;       // of these, compressor rows and recurrent state
  std::uint64_t window_row_bytes = 0;  // one token's window rows, over all layers

  const ArenaUnit& unit(ArenaClass which) const { return units[static_cast<std::size_t>(which)]; }

  // The same for sequences that may take back up to `draft_tokens` committed tokens: rings are that
  // much longer, and so many more versions of state are kept. Invalid: more than kDraftTokensMax,
  // or sizes past 64 bits.
  Result<ArenaLayout> with_drafts(std::uint64_t draft_tokens) const;

  // Window units of one step: as many rings as hold the rows of `step_tokens` tokens.
  std::uint64_t step_windows(std::uint64_t step_tokens) const;
  // One step's bytes: its window units, one unit of tails and as many versions as a slot has.
  // UINT64_MAX where that does not fit 64 bits.
  std::uint64_t step_bytes(std::uint64_t step_tokens) const;

  bool empty() const { return slot_bytes == 0; }
};

inline constexpr std::uint64_t kDraftTokensMax = 1024;

// Where hits may end in a model without blocks (every layer recurrent).
inline constexpr std::uint64_t kStateBoundaryTokens = 64;

}  // namespace emblema
