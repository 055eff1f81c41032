// At which boundaries a sequence leaves a snapshot of its arena state, so that others can go on
// from there. Pure values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace emblema {

enum class SnapshotPolicy : std::uint8_t {
  kBoundaries,  // the prompt's last whole boundary and the one before it; the last one of a turn
  kFull,        // every whole boundary
  kPeriodic,    // every `period` tokens; a hit runs the tokens since then again (replay)
  kZero,        // none; a hit runs the last windows' tokens again (replay)
};

std::string_view to_string(SnapshotPolicy policy);

struct SnapshotSchedule {
  SnapshotPolicy policy = SnapshotPolicy::kBoundaries;
  std::uint64_t boundary_tokens = 1;
  std::uint64_t period_tokens = 0;  // kPeriodic: a multiple of boundary_tokens
  std::uint64_t prompt_tokens = 0;

  // REQUIRES: position is a multiple of boundary_tokens.
  bool wants(std::uint64_t position) const;
  // Stays only until the next one of the same sequence: tokens generated behind the prompt.
  bool is_rolling(std::uint64_t position) const {
    return policy == SnapshotPolicy::kBoundaries && position >= prompt_tokens;
  }
  // The first wanted position behind `tokens`; nothing with kZero.
  std::optional<std::uint64_t> next(std::uint64_t tokens) const;
};

}  // namespace emblema
