// What a sequence keeps. Internal to this room.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emblema/session/engine_core.h"
#include "emblema/session/sequence.h"
#include "emblema/session/sequence_arena.h"

namespace emblema {

// One group's blocks of one part, in token order: sealed ones, then open ones.
struct GroupRun {
  std::uint64_t first_block = 0;  // blocks before it were released, or never needed
  std::vector<SealedBlock> sealed;
  std::vector<OpenBlock> open;
  std::vector<std::uint32_t> indexes;  // of both, as spans show them

  std::uint64_t end_block() const { return first_block + sealed.size() + open.size(); }
};

// A run of the sequence's own tokens, or an attached segment.
struct Part {
  bool is_segment = false;
  std::uint64_t position = 0;  // attached position of its first token
  std::uint64_t tokens = 0;    // committed
  std::vector<GroupRun> runs;  // one per group

  // Once another part lies behind it: where chains go on, and of own tokens what they are. What
  // truncate() needs to make it the last one again.
  std::vector<Tip> tips = {};
  std::vector<TokenId> token_ids = {};
  std::vector<ExtraId> extras = {};

  std::int64_t delta() const { return is_segment ? static_cast<std::int64_t>(position) : 0; }
  // Own rows are stored at their attached position, a segment's from 0.
  std::int64_t stored_position() const {
    return is_segment ? 0 : static_cast<std::int64_t>(position);
  }
};

struct Sequence::State {
  std::shared_ptr<EngineCore> core;
  CacheIdentity identity;
  std::vector<Part> parts;  // the last one is the sequence's own and open to growth

  // Of the last part: its token ids, what commit() must find, where each group's chain goes on.
  std::vector<TokenId> part_tokens;
  std::vector<TokenId> expected;
  std::vector<ExtraId> extras;
  std::vector<Tip> tips;

  std::uint64_t reserved = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t tokens_max = UINT64_MAX;  // a segment's builder ends with its span
  bool builds_segment = false;

  // Of models with an arena; the last tip is then that of the snapshots' chain, `snapshot_chain`
  // tokens long.
  std::optional<SequenceArena> arena;
  std::uint64_t snapshot_chain = 0;
  Tip rolling_snapshot;  // this sequence's own, replaced by its next one
  TokenRange replay;     // count > 0: these tokens are being run again
  std::uint64_t replay_at = 0;

  std::uint64_t forward_epoch = 0;
  std::vector<std::vector<Span>> spans;  // per group, kept up to date
  SequenceInputs query;                  // what the last inputs() describes
  Charge charge;                         // of held_bytes(), kept right by rebuild_spans()

  Part& tail() { return parts.back(); }
  const Part& tail() const { return parts.back(); }
  std::uint64_t committed() const { return parts.back().position + parts.back().tokens; }
  std::uint64_t block_tokens(std::uint32_t group) const {
    return core->layout.groups[group].block_tokens;
  }
  std::uint32_t group_count() const {
    return static_cast<std::uint32_t>(core->layout.groups.size());
  }

  // What the rings of the arena and rows() count from.
  std::uint64_t end() const { return replay.count > 0 ? replay_at : committed(); }

  Result<RowView> arena_rows(std::uint32_t layer, StreamRole role, std::uint64_t first,
                             std::uint64_t count) const;
  [[nodiscard]] Status check_step(std::uint64_t n) const;
  [[nodiscard]] Status reserve_replay(std::uint64_t n);
  [[nodiscard]] Status commit_replay(std::span<const TokenId> ids);
  [[nodiscard]] Status check_attach(const Segment& segment) const;
  void push_segment(const Segment& segment, const std::vector<Tip>& behind);
  // Takes up what was found, as start() does: blocks, chains, state and what must be replayed. The
  // spans are rebuilt by whoever calls, once the quota has room.
  void take_up(ChainMatch found);
  bool is_exact_at(std::uint64_t tokens) const;
  void reopen_part(std::uint64_t tokens);
  void cut(std::uint64_t tokens);
  TokenRange find_again(std::uint64_t tokens);
  SnapshotSchedule schedule() const;
  void leave_snapshots();
  bool leave_snapshot(std::uint64_t boundary);
  // Invalid where `what` cannot be done now: tokens reserved, a builder, a replay.
  [[nodiscard]] Status check_idle(std::string_view what) const;

  void begin_part(std::uint64_t position, ChainMatch found);
  void seal_tail();
  void seal_full_blocks();
  void release_behind_windows();
  // The first position from `first` on where `queries` queries find every row of their windows.
  std::uint64_t readable_from(std::uint32_t group, std::uint64_t first,
                              std::uint64_t queries) const;
  void follow_forwards();
  void rebuild_spans();

  // Quotas (admission.cc): asked before anything is done.
  std::uint64_t held_bytes() const;         // logical
  Status admit_start(std::uint64_t limit);  // what is there to be found
  Status admit_found();                     // and what came since
  Result<Charge> admit_attach(const std::vector<std::uint64_t>& segment_blocks,
                              const std::vector<Tip>& behind, std::span<const TokenId> following,
                              std::uint64_t limit) const;
  std::vector<ExtraId> extras_within(std::uint64_t first, std::uint64_t count) const;
};

}  // namespace emblema
