#include "emblema/kernels/driver/call.h"

#include <algorithm>

#include "emblema/contract/bytes.h"

namespace emblema::driver {
namespace {

// Splits are worth the merge from here on; longer sequences are cut into kSplitsMax at most.
constexpr std::uint64_t kSplitRows = 4096;
constexpr std::uint64_t kSplitsMax = 16;
// Queries and sums of a unit stay in a second-level cache's reach.
constexpr std::uint64_t kUnitBytes = 3 * kMiB;
constexpr std::uint64_t kUnitRowsMax = 2048;
constexpr std::uint64_t kUnitStep = 16;  // query rows that no primitive likes to cut

TileWidths stored_widths(const AttentionShape& shape) {
  return {shape.key_dim, shape.value_dim, shape.kind == RowKind::kLatent};
}

std::uint64_t split_rows_of(const SequenceInputs& sequence) {
  std::uint64_t rows = 0;
  for (const Span& span : sequence.spans) rows += span.rows;
  return std::max(kSplitRows, round_up((rows + kSplitsMax - 1) / kSplitsMax, kSplitRows));
}

}  // namespace

RowRange intersection(const RowRange& a, const RowRange& b) {
  return {std::max(a.first, b.first), std::min(a.end, b.end)};
}

Call::Call(const AttentionInputs& call_inputs, const LatentExpansion* call_expansion, Isa isa,
           float* out_rows, float* lse_rows)
    : inputs(call_inputs),
      expansion(call_expansion),
      primitives(primitives_of(isa, call_inputs.rows)),
      out(out_rows),
      lse(lse_rows),
      stored(stored_widths(call_inputs.shape)),
      attended(stored),
      kv_heads(call_inputs.shape.kv_heads) {
  if (expansion != nullptr) {
    const std::uint32_t rope = stored.key_dim - stored.value_dim;
    attended = {expansion->content_dim + rope, expansion->value_dim, false};
    kv_heads = inputs.shape.query_heads;
  }
  group = inputs.shape.query_heads / kv_heads;
  const std::uint64_t row_floats = std::uint64_t{attended.key_dim} + attended.value_dim;
  const std::uint64_t rows = kUnitBytes / (row_floats * sizeof(float));
  unit_limit =
      std::clamp<std::uint64_t>(rows / kChunkQueries * kChunkQueries, kChunkQueries, kUnitRowsMax);
}

RowRange Call::visible_rows(const Span& span, std::int64_t position) const {
  const std::int64_t begin = span.position + span.delta;
  if (position < begin) return {};
  RowRange range{0, std::min(span.rows, static_cast<std::uint64_t>(position - begin) + 1)};
  const std::int64_t first = inputs.shape.first_visible(position);
  if (first > begin) range.first = static_cast<std::uint64_t>(first - begin);
  return range;
}

bool UnitCutter::next(Unit* unit) {
  while (sequence_ < call_.inputs.sequences.size()) {
    const SequenceInputs& sequence = call_.inputs.sequences[sequence_];
    const std::uint64_t rows = sequence.queries * call_.group;  // per KV head
    if (rows == 0 || kv_head_ == call_.kv_heads) {
      ++sequence_;
      kv_head_ = 0;
      continue;
    }
    // In the expanded form one head: its weights are packed once for all rows.
    const std::uint64_t heads =
        call_.expansion != nullptr
            ? 1
            : std::clamp<std::uint64_t>(call_.unit_limit / round_up(rows, kUnitStep), 1,
                                        call_.kv_heads);
    const std::uint64_t count = std::min(rows - row_, call_.unit_limit);
    *unit = {&sequence, kv_head_,
             static_cast<std::uint32_t>(std::min<std::uint64_t>(heads, call_.kv_heads - kv_head_)),
             row_, count};
    row_ += count;
    if (row_ == rows) {
      row_ = 0;
      kv_head_ += unit->kv_head_count;
    }
    return true;
  }
  return false;
}

SplitCutter::SplitCutter(const Call& call, const Unit& unit)
    : call_(call), unit_(unit), split_rows_(split_rows_of(*unit.sequence)) {}

void SplitCutter::take_piece(std::uint64_t* taken, bool* sees) {
  const Span& span = unit_.sequence->spans[at_.span];
  // Cut where rows of blocks are a multiple of the split, whatever the span begins with.
  const std::uint64_t row = span.first_row + at_.row;
  const std::uint64_t cut = (row / split_rows_ + 1) * split_rows_ - span.first_row;
  const std::uint64_t end = std::min(span.rows, cut);
  if (!*sees) {
    *sees = !intersection(unit_rows(call_, unit_, span), {at_.row, end}).is_empty();
  }
  *taken += end - at_.row;
  at_.row = end;
  if (at_.row == span.rows) at_ = {at_.span + 1, 0};
}

bool SplitCutter::next(Split* split) {
  const auto& spans = unit_.sequence->spans;
  while (at_.span < spans.size()) {
    split->begin = at_;
    std::uint64_t taken = 0;
    bool sees = false;
    while (at_.span < spans.size() && taken < split_rows_) {
      if (spans[at_.span].rows == 0) {  // its other fields mean nothing and were not checked
        ++at_.span;
        continue;
      }
      take_piece(&taken, &sees);
    }
    split->end = at_;
    if (sees) return true;
  }
  return false;
}

bool same_rows(const Call& call, const Unit& a, const Split& a_split, const Unit& b,
               const Split& b_split) {
  if (a.first_kv_head != b.first_kv_head || a.kv_head_count != b.kv_head_count) return false;
  if (!(a_split.begin == b_split.begin && a_split.end == b_split.end)) return false;
  const auto& a_spans = a.sequence->spans;
  const auto& b_spans = b.sequence->spans;
  for (std::size_t i = a_split.begin.span; i <= a_split.end.span; ++i) {
    if (i >= a_spans.size() || i >= b_spans.size()) return a_spans.size() == b_spans.size();
    const Span& x = a_spans[i];
    const Span& y = b_spans[i];
    const RowRange piece = a_split.piece(x, i);
    if (!(piece == b_split.piece(y, i))) return false;
    if (piece.is_empty()) continue;
    if (x.first_row != y.first_row || x.position != y.position || x.delta != y.delta) return false;
    const std::uint64_t block_rows = call.inputs.rows.block_rows;
    const std::uint64_t first = (x.first_row + piece.first) / block_rows;
    const std::uint64_t end = (x.first_row + piece.end - 1) / block_rows + 1;
    if (!std::equal(&x.blocks[first], &x.blocks[end - 1] + 1, &y.blocks[first])) return false;
  }
  return true;
}

std::uint64_t chunk_count(const Unit& unit) {
  return unit.kv_head_count * ((unit.count + kChunkQueries - 1) / kChunkQueries);
}

RowRange unit_rows(const Call& call, const Unit& unit, const Span& span) {
  const SequenceInputs& sequence = *unit.sequence;
  const RowRange last =
      call.visible_rows(span, call.position(sequence, unit.first + unit.count - 1));
  const std::int64_t begin = span.position + span.delta;
  const std::int64_t first = call.inputs.shape.first_visible(call.position(sequence, unit.first));
  return {first > begin ? static_cast<std::uint64_t>(first - begin) : 0, last.end};
}

}  // namespace emblema::driver
