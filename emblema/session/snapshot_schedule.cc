#include "emblema/session/snapshot_schedule.h"

#include <algorithm>

namespace emblema {
namespace {

// A hit is at most all but one token, so that the end of the prompt itself is of no use to it.
std::uint64_t last_boundary(const SnapshotSchedule& schedule) {
  const std::uint64_t usable =
      schedule.prompt_tokens - std::min<std::uint64_t>(schedule.prompt_tokens, 1);
  return usable / schedule.boundary_tokens * schedule.boundary_tokens;
}

}  // namespace

std::string_view to_string(SnapshotPolicy policy) {
  switch (policy) {
    case SnapshotPolicy::kBoundaries:
      return "boundaries";
    case SnapshotPolicy::kFull:
      return "full";
    case SnapshotPolicy::kPeriodic:
      return "periodic";
    case SnapshotPolicy::kZero:
      break;
  }
  return "zero";
}

bool SnapshotSchedule::wants(std::uint64_t position) const {
  if (position == 0) return false;
  switch (policy) {
    case SnapshotPolicy::kFull:
      return true;
    case SnapshotPolicy::kPeriodic:
      return position % period_tokens == 0;
    case SnapshotPolicy::kBoundaries: {
      const std::uint64_t last = last_boundary(*this);
      return position >= prompt_tokens || position == last || position + boundary_tokens == last;
    }
    case SnapshotPolicy::kZero:
      break;
  }
  return false;
}

std::optional<std::uint64_t> SnapshotSchedule::next(std::uint64_t tokens) const {
  const std::uint64_t following = (tokens / boundary_tokens + 1) * boundary_tokens;
  switch (policy) {
    case SnapshotPolicy::kZero:
      return std::nullopt;
    case SnapshotPolicy::kFull:
      return following;
    case SnapshotPolicy::kPeriodic:
      return (tokens / period_tokens + 1) * period_tokens;
    case SnapshotPolicy::kBoundaries:
      break;
  }
  if (wants(following)) return following;
  const std::uint64_t last = last_boundary(*this);
  return std::max(following, last - std::min(last, boundary_tokens));
}

}  // namespace emblema
