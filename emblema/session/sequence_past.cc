// A sequence and its past: taking tokens back, replaying what a hit could not bring, snapshots.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/canary.h"
#include "emblema/contract/check.h"
#include "emblema/session/engine_core.h"
#include "emblema/session/sequence_state.h"

namespace emblema {

Status Sequence::State::check_idle(std::string_view what) const {
  if (builds_segment) {
    return fail(ErrorCode::Invalid, fmt::format("{} of a segment's builder; seal it first", what));
  }
  if (replay.count > 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("{} with {} tokens to be replayed; run them, then finish_replay()",
                            what, replay.first + replay.count - replay_at));
  }
  if (reserved > 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("{} with {} tokens reserved; commit or cancel first", what, reserved));
  }
  return {};
}

Result<RowView> Sequence::State::arena_rows(std::uint32_t layer, StreamRole role,
                                            std::uint64_t first, std::uint64_t count) const {
  if (!arena) {
    return fail(ErrorCode::Invalid,
                fmt::format("layer {} has no {} stream of its own", layer, to_string(role)));
  }
  const auto place = arena->step_rows(layer, role, first, count, end() + reserved);
  if (!place) return propagate(place);
  if (place->base == nullptr) {
    return fail(ErrorCode::Unsupported, "rows of a metadata-only engine; it holds no bytes");
  }
  RowView view;
  view.base_ = place->base;
  view.blocks_ = place->units;
  view.block_bytes_ = place->unit_bytes;
  view.row_bytes_ = place->row_bytes;
  view.block_rows_ = place->rows;
  view.first_row_ = place->first_row;
  view.rows_ = count;
  view.first_token_ = first;
  view.count_chunks();
  return view;
}

// ---- taking up a hit ---------------------------------------------------------------------------

void Sequence::State::take_up(ChainMatch found) {
  const std::uint64_t tokens = found.tokens;
  const auto group = core->blocks->snapshot_group();
  std::optional<SealedBlock> snapshot;
  std::uint64_t at = 0;  // of the snapshot
  if (group) {
    ChainMatch::Group& snapshots = found.groups[*group];
    const std::uint64_t distance = core->schedule.boundary_tokens;
    snapshot_chain = snapshots.entries * distance;
    if (!snapshots.blocks.empty()) {
      snapshot = std::move(snapshots.blocks.front());
      at = (snapshots.first_block + 1) * distance;
    }
  }
  begin_part(0, std::move(found));
  if (!arena) return;
  if (core->schedule.policy == SnapshotPolicy::kZero) {
    // Layer l's window rows depend on the W - 1 tokens before them in layer l - 1, and so on down.
    const std::uint64_t window = core->layout.arena.unit(ArenaClass::kWindow).rows;
    const std::uint64_t layers = core->geometry.layers().size();
    at = tokens - std::min(tokens, (window - std::min<std::uint64_t>(window, 1)) * layers);
  }
  if (snapshot) {
    arena->restore(at, *core->layout.snapshot, snapshot->bytes());
  } else {
    arena->clear(at);
  }
  replay = {at, tokens - at};
  replay_at = at;
}

TokenRange Sequence::replay() const {
  return live().replay;
}

Status Sequence::finish_replay() {
  State& s = live();
  const std::uint64_t end = s.replay.first + s.replay.count;
  if (s.replay.count > 0 && (s.replay_at != end || s.reserved > 0)) {
    return fail(ErrorCode::Invalid,
                fmt::format("finish_replay at token {} of {} to {}; run the others first",
                            s.replay_at, s.replay.first, end));
  }
  s.replay = {};
  return {};
}

Status Sequence::State::check_step(std::uint64_t n) const {
  const std::uint64_t rest = replay.first + replay.count - replay_at - reserved;
  if (replay.count > 0 && n > rest) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("reserve of {} tokens with {} left to be replayed; allowed: up to those, "
                    "then finish_replay()",
                    n, rest));
  }
  const std::uint64_t step_max = core->options.step_tokens;
  if (n <= step_max - std::min(step_max, reserved)) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("reserve of {} tokens behind {} reserved; allowed: step_tokens = {} at "
                          "once",
                          n, reserved, step_max));
}

Status Sequence::State::reserve_replay(std::uint64_t n) {
  if (Status ok = arena->reserve(replay_at, reserved + n); !ok) return ok;
  reserved += n;
  return {};
}

Status Sequence::State::commit_replay(std::span<const TokenId> ids) {
  for (std::uint64_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == part_tokens[replay_at + i]) continue;
    return fail(ErrorCode::Invalid,
                fmt::format("commit of token {} at position {} of a replay; the sequence has {} "
                            "there",
                            ids[i], replay_at + i, part_tokens[replay_at + i]));
  }
  if (Status ok = arena->check_commit(ids.size(), reserved); !ok) return ok;
  arena->commit(replay_at, ids.size(), reserved);
  replay_at += ids.size();
  reserved -= ids.size();
  return {};
}

// ---- taking tokens back ------------------------------------------------------------------------

// Whether every row that token `tokens` reads is held.
bool Sequence::State::is_exact_at(std::uint64_t tokens) const {
  if (arena && !arena->is_exact_at(tokens)) return false;
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    if (tokens > 0 && readable_from(g, tokens, 1) > tokens) return false;
  }
  return true;
}

// Makes the part that `tokens` lies in the last one. REQUIRES: not inside a segment, nothing
// reserved.
void Sequence::State::reopen_part(std::uint64_t tokens) {
  if (tokens >= tail().position) return;
  parts.pop_back();
  const auto is_behind = [&](const Part& part) {
    return part.is_segment ? tokens < part.position + part.tokens : tokens <= part.position;
  };
  while (!parts.empty() && is_behind(parts.back())) parts.pop_back();
  extras.clear();
  expected.clear();
  if (parts.empty()) return begin_part(0, core->blocks->match(identity, {}, {}, 0));
  Part& last = parts.back();
  if (!last.is_segment) {
    part_tokens = std::move(last.token_ids);
    extras = std::move(last.extras);
    tips = std::move(last.tips);
    return;
  }
  part_tokens.clear();
  tips.clear();
  for (const Tip& tip : last.tips) tips.push_back(tip.share());
  Part fresh{.is_segment = false, .position = tokens, .tokens = 0, .runs = {}};
  fresh.runs.resize(group_count());
  parts.push_back(std::move(fresh));
}

// Shortens the last part. Its extra ids stay where they are, also behind the cut: what is run there
// again may be the image once more, and must never be found by somebody who has only its tokens.
// The rows of the tokens taken back stay in a block that is cut: they are
// written over, or zeroed when it is sealed.
void Sequence::State::cut(std::uint64_t tokens) {
  reopen_part(tokens);
  const std::uint64_t in_part = tokens - tail().position;
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    GroupRun& run = tail().runs[g];
    const std::uint64_t size = block_tokens(g);
    const std::uint64_t wanted = ceil_div(in_part, size);
    while (run.end_block() > wanted && !run.open.empty()) run.open.pop_back();
    while (run.end_block() > wanted && !run.sealed.empty()) run.sealed.pop_back();
    run.first_block = std::min(run.first_block, wanted);
    const std::uint64_t gone = tail().tokens / size - in_part / size;
    tips[g] = core->blocks->ancestor(tips[g], EMBLEMA_CANARY(kChainNotCut) ? 0 : gone);
  }
  if (snapshot_chain > 0) {
    const std::uint64_t distance = core->schedule.boundary_tokens;
    const std::uint64_t chain = std::min(snapshot_chain, tokens / distance * distance);
    tips.back() = core->blocks->ancestor(tips.back(), (snapshot_chain - chain) / distance);
    snapshot_chain = chain;
  }
  tail().tokens = in_part;
  part_tokens.resize(in_part);
  expected.clear();
  if (arena) arena->cut(tokens);
  rebuild_spans();
}

// Rows behind `tokens` are gone: as a new request with these tokens would start.
TokenRange Sequence::State::find_again(std::uint64_t tokens) {
  part_tokens.resize(tokens);
  expected = part_tokens;
  ChainMatch found = core->blocks->match(identity, expected, extras, tokens);
  parts.clear();
  const std::uint64_t first = found.tokens;
  take_up(std::move(found));
  rebuild_spans();
  return {first, tokens - first};
}

Result<TokenRange> Sequence::truncate(std::uint64_t n) {
  State& s = live();
  if (s.builds_segment || s.replay.count > 0) {
    if (Status ok = s.check_idle("truncate"); !ok) return propagate(ok);
  }
  if (n > s.committed()) {
    return fail(ErrorCode::Invalid,
                fmt::format("truncate to {} tokens; allowed: up to {}", n, s.committed()));
  }
  for (const Part& part : s.parts) {
    if (!part.is_segment || n <= part.position || n >= part.position + part.tokens) continue;
    return fail(ErrorCode::Invalid,
                fmt::format("truncate to {} tokens, inside the segment attached at {} to {}; "
                            "allowed: its ends, or outside",
                            n, part.position, part.position + part.tokens));
  }
  const bool exact = s.is_exact_at(n);
  if (!exact && s.parts.size() > 1) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("truncate to {} tokens: rows of its window were released and lie behind "
                    "a segment; allowed: within draft_tokens_max = {} of {}",
                    n, s.core->options.draft_tokens_max, s.committed()));
  }
  cancel();
  if (!exact) return s.find_again(n);
  s.cut(n);
  return TokenRange{n, 0};
}

// ---- snapshots ---------------------------------------------------------------------------------

std::optional<std::uint64_t> Sequence::next_snapshot() const {
  const State& s = live();
  if (!s.core->blocks->snapshot_group() || s.core->plan.snapshots == 0) return std::nullopt;
  return s.schedule().next(s.committed());
}

SnapshotSchedule Sequence::State::schedule() const {
  SnapshotSchedule schedule = core->schedule;
  schedule.prompt_tokens = expected.size();
  return schedule;
}

// Takes the snapshots' chain along to the last whole boundary, leaving snapshots where the policy
// wants them and the state is at hand.
void Sequence::State::leave_snapshots() {
  if (!core->blocks->snapshot_group() || core->plan.snapshots == 0) return;
  const SnapshotSchedule wanted = schedule();
  const std::uint64_t distance = wanted.boundary_tokens;
  while (snapshot_chain + distance <= committed()) {
    const std::uint64_t boundary = snapshot_chain + distance;
    bool left = false;
    if (wanted.wants(boundary)) {
      if (arena->is_exact_at(boundary)) {
        left = leave_snapshot(boundary);
      } else {
        ++core->snapshots_missed;
      }
    }
    if (!left) {
      tips.back() = core->blocks->extend(
          tips.back(), std::span<const TokenId>(part_tokens).subspan(snapshot_chain, distance),
          extras_within(snapshot_chain, distance));
    }
    snapshot_chain = boundary;
  }
}

// False where there is no memory: a snapshot is a wish, the step goes on without it.
bool Sequence::State::leave_snapshot(std::uint64_t boundary) {
  const std::uint32_t group = *core->blocks->snapshot_group();
  std::vector<std::uint64_t> counts(core->blocks->group_count(), 0);
  counts[group] = 1;
  auto taken = core->blocks->take(counts, identity.tenant);
  if (!taken) {
    ++core->snapshots_refused;
    return false;
  }
  OpenBlock open = std::move((*taken)[group].front());
  arena->save(boundary, *core->layout.snapshot, open.bytes());
  const std::uint64_t distance = core->schedule.boundary_tokens;
  SealedBlock sealed = core->blocks->seal(std::move(open), distance);
  const BlockId own = sealed.id();
  auto published = core->blocks->publish(
      std::move(sealed), tips.back(),
      std::span<const TokenId>(part_tokens).subspan(boundary - distance, distance),
      extras_within(boundary - distance, distance));
  tips.back() = std::move(published.tip);
  const bool is_own = published.block.id() == own;
  published.block = SealedBlock();
  ++core->snapshots_taken;
  if (!is_own || !schedule().is_rolling(boundary)) return true;
  if (rolling_snapshot.holds()) core->blocks->drop_idle(rolling_snapshot);
  rolling_snapshot = tips.back().share();
  return true;
}

}  // namespace emblema
