// One sequence of tokens and its place in the cache: what an inference loop holds per request.
//
//   reserve(n)            blocks for n more tokens, all or nothing
//   rows(layer, ...)      where to write the new rows of one layer
//   inputs(layer, ...)    what attention reads: committed and reserved rows, causal by position
//   commit(ids)           all layers of these tokens are written and accepted: now they can be
//                         found
//   truncate(n)           takes tokens back
//
// A model may keep state outside blocks (window rows and compressor rows of DeepSeek-V4, recurrent
// state). Such rows of reserved tokens lie in a step buffer; commit moves the accepted ones, so
// that cancel() changes nothing. Sequences that start with a hit get a copy of a snapshot, or run
// some tokens again (replay).
//
// Positions are attached positions: they count the tokens of attached segments. A sequence is a
// list of spans; rows of an attached segment keep the position they were stored at and carry a
// delta.
//
// Move-only. One thread at a time per sequence; different sequences from any threads. Dying, at any
// point, gives back every block. rows() and inputs() neither allocate nor lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emblema/block/block_manager.h"
#include "emblema/contract/result.h"
#include "emblema/layout/attention_inputs.h"
#include "emblema/session/segment.h"

namespace emblema {

struct EngineCore;

// Tokens first ... first + count - 1, as positions.
struct TokenRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

// Rows of consecutive tokens, `row_bytes` apart, in one block.
struct RowChunk {
  std::byte* data = nullptr;
  std::uint64_t rows = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t first_token = 0;  // attached position of the first row; of a stream with a stride
                                  // that of its group's first token
};

// The chunks of one rows() call, in token order; valid until the next change of the sequence.
class RowView {
 public:
  std::uint64_t size() const { return chunks_; }
  RowChunk operator[](std::uint64_t chunk) const;

 private:
  friend class Sequence;
  void count_chunks();
  std::byte* base_ = nullptr;  // region plus page offset
  const std::uint32_t* blocks_ = nullptr;
  std::uint64_t block_bytes_ = 0;
  std::uint64_t row_bytes_ = 0;
  std::uint64_t block_rows_ = 0;
  std::uint64_t first_row_ = 0;  // in blocks_
  std::uint64_t rows_ = 0;
  std::uint64_t first_token_ = 0;
  std::uint64_t stride_ = 1;
  std::uint64_t chunks_ = 0;
};

class Sequence {
 public:
  Sequence(Sequence&&) noexcept;
  Sequence& operator=(Sequence&&) noexcept;
  ~Sequence();

  std::uint64_t tokens() const;           // committed, attached segments included
  std::uint64_t reserved_tokens() const;  // reserved and not yet committed
  std::uint64_t hit_tokens() const;       // found by start(): need not be computed
  const std::string& tenant() const;

  // Room for n more tokens behind what is reserved. Copies the tail block if somebody shares it.
  // Invalid: more than step_tokens at once, or past the end of a replay. OutOfBlocks: the pool, the
  // tenant's quota or, of a model with arena streams, the step buffers (steps_max) have no room;
  // nothing was taken.
  Status reserve(std::uint64_t n);

  // Gives back what is reserved and not committed.
  void cancel();

  // Where to write rows of `count` tokens from position `first`; a layer that shares another's rows
  // gives that layer's. Every position must be reserved and not committed. Of a stream with a
  // stride: the rows of the groups that close within these tokens. Of kState: the state behind each
  // token, kept for the last draft_tokens_max + 1 reserved ones; kCompressor: for the last ones as
  // many as it waits for, and the drafts. Invalid otherwise, where the layer has no such stream, or
  // for rows in blocks while tokens are replayed.
  Result<RowView> rows(std::uint32_t layer, StreamRole role, std::uint64_t first,
                       std::uint64_t count) const;

  // Inputs for `queries` query rows at positions first, first + 1, ... over this sequence's rows of
  // the layer. q: [queries][query_heads][key_dim], rotated. Sinks are the caller's to fill in.
  // Valid until the next change of the sequence. Invalid: no such layer, or a position behind what
  // is reserved. Unsupported: rows that no kernel here reads.
  Result<AttentionInputs> inputs(std::uint32_t layer, const float* q, std::uint64_t first,
                                 std::uint64_t queries) const;

  // All layers of the next ids.size() reserved tokens are written and accepted. Full blocks are
  // sealed and can be found from now on; what stays reserved may be written again (drafts).
  // Invalid, nothing changed: more than reserved, ids that differ from the prompt given to start,
  // or so few of the reserved that the state behind them was not kept (draft_tokens_max).
  Status commit(std::span<const TokenId> ids);

  // A second sequence with the same past, at any token; both copy the tail block and what they hold
  // in the arena when they write. Invalid: with rows reserved (commit or cancel first), or
  // replaying. OutOfBlocks: the tenant's quota, or no arena slot is free.
  Result<Sequence> fork();

  // Takes back all but the first n tokens, reserved ones too; the prompt is no longer expected, but
  // its extra ids stay at their offsets. Exact for any n where all rows are still held: always
  // within draft_tokens_max of the furthest token that was reserved, but not to before a hit. Else
  // the sequence goes back to the longest stored boundary before n; what must be run again comes
  // back: {tokens(), n - tokens()}, and is expected by commit(). Count 0: exact. With a snapshot
  // policy that replays, replay() comes first, as after start().
  // Invalid, nothing changed: n past tokens(), inside an attached segment, of a segment's builder,
  // or replaying.
  Result<TokenRange> truncate(std::uint64_t n);

  // Tokens that a hit could not bring back the state of: run them through the model again before
  // anything else, by reserve / rows / commit from position `first` on (commit expects the same
  // ids), then finish_replay(). Meanwhile rows in blocks are there to be read and not written, and
  // windows begin at `first`. Count 0: nothing to do, the usual case.
  TokenRange replay() const;
  // Invalid: not all of them were run.
  Status finish_replay();

  // Where a step should end so that the next snapshot of the engine's policy can be left: a
  // position past tokens(). Nothing: none is wanted. Steps that run past it lose that snapshot
  // (EngineStats).
  std::optional<std::uint64_t> next_snapshot() const;

  // Puts a segment behind this sequence's tokens, zero copy. `following` are the tokens to be run
  // next: as much of them as was stored behind this very segment is taken as a prefix hit (at most
  // all but one), and they are then expected by commit(). Gives back the tokens hit.
  // Invalid: rows reserved, a prompt that is not run to its end, a segment of another identity or
  // engine, or a position inside a chunk. OutOfBlocks: the tenant's quota. Unsupported: rotary
  // frequencies that depend on the length, state in the arena.
  Result<std::uint64_t> attach(const Segment& segment, std::span<const TokenId> following = {});

  // For readers and tests: the spans that attention sees in a group, and the blocks held there.
  std::span<const Span> spans(std::uint32_t group) const;
  std::vector<BlockId> held_blocks(std::uint32_t group) const;
  // Windows in the arena: what is committed, then what is reserved; `blocks` are arena units.
  std::vector<Span> window_spans() const;
  // Bytes of a committed row: empty in metadata-only mode, behind a window, or of a state that is
  // not kept. kState: the state behind that token.
  ConstByteSpan row_bytes(std::uint32_t layer, StreamRole role, std::uint64_t position) const;

 private:
  friend class Engine;
  friend class SegmentBuilder;
  struct State;
  explicit Sequence(std::unique_ptr<State> state);
  State& live() const;
  std::unique_ptr<State> state_;
};

}  // namespace emblema
