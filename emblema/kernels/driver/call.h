// One attention call as the driver sees it, and how it is cut into work.
//
//   chunk   up to kChunkQueries query rows of one sequence and KV head: what a primitive takes
//   unit    chunks that one thread works on together, so that rows are loaded once for all of them
//   split   a run of a sequence's rows, cut at fixed places; partial results of its splits are
//           merged in order
//   item    one unit over one split; or several, of sequences that read the very same rows there
//           (a shared prefix), so that these are loaded once for all of them
//
// Where splits are cut depends on the sequence alone, and how units are cut changes no bits, so
// the thread count may decide that.
#pragma once

#include <cstdint>

#include "emblema/kernels/attention.h"
#include "emblema/kernels/block_primitives.h"

namespace emblema::driver {

// Rows [first, end) of a span.
struct RowRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  bool is_empty() const { return first >= end; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

RowRange intersection(const RowRange& a, const RowRange& b);

struct Call {
  const AttentionInputs& inputs;
  const LatentExpansion* expansion;  // or null
  const BlockPrimitives& primitives;
  float* out;
  float* lse;

  TileWidths stored;    // of the rows in the cache
  TileWidths attended;  // what scores and values are taken from: `stored`, or expanded
  std::uint32_t kv_heads = 0;
  std::uint32_t group = 0;       // query heads of one KV head
  std::uint64_t unit_limit = 0;  // query rows of a unit

  Call(const AttentionInputs& call_inputs, const LatentExpansion* call_expansion, Isa isa,
       float* out_rows, float* lse_rows);

  // Query row i of a sequence and KV head, counted token by token and within a token head by head.
  std::uint64_t result_row(const SequenceInputs& sequence, std::uint32_t kv_head,
                           std::uint64_t i) const {
    return (sequence.first_query + i / group) * inputs.shape.query_heads +
           std::uint64_t{kv_head} * group + i % group;
  }
  std::int64_t position(const SequenceInputs& sequence, std::uint64_t i) const {
    return sequence.query_position + static_cast<std::int64_t>(i / group);
  }
  // What a query at `position` sees of a span: attached positions <= its own, inside its window and
  // its chunk.
  RowRange visible_rows(const Span& span, std::int64_t position) const;
};

struct Unit {
  const SequenceInputs* sequence = nullptr;
  std::uint32_t first_kv_head = 0;
  std::uint32_t kv_head_count = 0;
  std::uint64_t first = 0;  // query rows of each of its KV heads
  std::uint64_t count = 0;

  std::uint64_t rows() const { return count * kv_head_count; }
  friend bool operator==(const Unit&, const Unit&) = default;
};

// Enumerates the units of a call, sequence by sequence.
class UnitCutter {
 public:
  explicit UnitCutter(const Call& call) : call_(call) {}
  bool next(Unit* unit);

 private:
  const Call& call_;
  std::size_t sequence_ = 0;
  std::uint32_t kv_head_ = 0;
  std::uint64_t row_ = 0;
};

// A place among a sequence's rows, and a run of them.
struct RowPlace {
  std::size_t span = 0;
  std::uint64_t row = 0;
  friend bool operator==(const RowPlace&, const RowPlace&) = default;
};
struct Split {
  RowPlace begin;
  RowPlace end;

  // Its rows of a span of the sequence.
  RowRange piece(const Span& span, std::size_t index) const {
    return {index == begin.span ? begin.row : 0, index == end.span ? end.row : span.rows};
  }
};

// Enumerates the splits of a unit's sequence in which one of its queries sees a row.
class SplitCutter {
 public:
  SplitCutter(const Call& call, const Unit& unit);
  bool next(Split* split);

 private:
  // Takes rows of the span at hand up to the next place where a split may end.
  void take_piece(std::uint64_t* taken, bool* sees);

  const Call& call_;
  const Unit& unit_;
  std::uint64_t split_rows_ = 0;
  RowPlace at_;
};

// Whether two units read the same rows in their splits: the same blocks at the same positions.
bool same_rows(const Call& call, const Unit& a, const Split& a_split, const Unit& b,
               const Split& b_split);

// Chunks of a unit: KV head by KV head.
std::uint64_t chunk_count(const Unit& unit);

// The rows of span that the unit's queries see, one query or another.
RowRange unit_rows(const Call& call, const Unit& unit, const Span& span);

}  // namespace emblema::driver
