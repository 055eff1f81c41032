#include "emblema/kernels/driver/lane.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "emblema/contract/bytes.h"
#include "emblema/layout/rotation.h"

namespace emblema::driver {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr std::uint64_t kLine = 64;

// Bytes of one number of a plain row.
std::uint64_t element_bytes(Encoding encoding) {
  return bits_per_element(encoding) / 8;
}

std::uint32_t chunk_rows(const Unit& unit, std::uint64_t first) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(kChunkQueries, unit.count - first));
}

}  // namespace

std::byte* Carver::take(std::uint64_t bytes) {
  std::byte* at = memory_ == nullptr ? nullptr : memory_ + bytes_;
  bytes_ += round_up(bytes, kLine);
  return at;
}

void LaneSizes::include(const Call& call, const Unit& unit) {
  std::uint64_t unit_queries = 0;
  std::uint64_t unit_out = 0;
  for (std::uint64_t first = 0; first < unit.count; first += kChunkQueries) {
    const std::uint32_t rows = chunk_rows(unit, first);
    unit_queries += call.primitives.query_bytes(call.attended, rows);
    unit_out += call.primitives.out_bytes(call.attended, rows);
  }
  chunks = std::max(chunks, chunk_count(unit));
  query_bytes = std::max(query_bytes, unit_queries * unit.kv_head_count);
  out_bytes = std::max(out_bytes, unit_out * unit.kv_head_count);
}

Lane::Lane(const Call& call, const LaneSizes& sizes, Carver& carver)
    : call_(call),
      primitives_(call.primitives),
      block_rows_(call.primitives.block_rows(call.stored)),
      units_(carver.take_array<Unit>(sizes.joined)),
      chunks_(carver.take_array<Chunk>(sizes.joined * sizes.chunks)),
      queries_(carver.take(sizes.joined * sizes.query_bytes)),
      out_(carver.take(sizes.joined * sizes.out_bytes)),
      tops_(carver.take_array<float>(sizes.joined * sizes.chunks * kChunkQueries)),
      sums_(carver.take_array<double>(sizes.joined * sizes.chunks * kChunkQueries)),
      corrections_(carver.take_array<float>(kChunkQueries)),
      first_rows_(carver.take_array<std::uint32_t>(kChunkQueries)),
      end_rows_(carver.take_array<std::uint32_t>(kChunkQueries)),
      turned_(carver.take_array<float>(std::uint64_t{kChunkQueries} * call.attended.key_dim)),
      cosines_(carver.take_array<float>(call.attended.key_dim)),
      sines_(carver.take_array<float>(call.attended.key_dim)),
      result_(carver.take_array<float>(call.attended.value_dim)),
      stored_rows_(carver.take(primitives_.row_bytes(call.stored))),
      attended_rows_(stored_rows_),
      weights_(carver.take(primitives_.weight_bytes(kChunkQueries))) {
  for (BlockRows& block : blocks_) {
    block.rows = carver.take_array<const std::byte*>(kBlockRowsMax);
    block.scales = carver.take_array<const std::byte*>(kBlockRowsMax);
  }
  if (call.expansion == nullptr) return;
  const std::uint32_t latent = call.stored.value_dim;
  attended_rows_ = carver.take(primitives_.row_bytes(call.attended));
  key_up_ = carver.take(primitives_.matrix_bytes(call.expansion->content_dim, latent));
  value_up_ = carver.take(primitives_.matrix_bytes(call.expansion->value_dim, latent));
}

void Lane::run(std::span<const UnitRun> units, const Split& split) {
  begin(units);
  const auto& spans = units.front().unit.sequence->spans;
  for (std::size_t i = split.begin.span; i < spans.size() && i <= split.end.span; ++i) {
    const Span& span = spans[i];
    if (span.rows == 0) continue;
    const RowRange range = intersection(seen_rows(span), split.piece(span, i));
    if (!range.is_empty()) attend_span(span, range);
  }
  finish(units);
}

// Chunks and their packed queries stay from one split of the same units to the next.
void Lane::begin(std::span<const UnitRun> units) {
  const bool are_here = units.size() == unit_count_ &&
                        std::equal(units.begin(), units.end(), units_.begin(),
                                   [](const UnitRun& a, const Unit& b) { return a.unit == b; });
  if (!are_here) {
    is_packed_ = false;
    unit_count_ = chunk_count_ = 0;
    std::byte* queries = queries_;
    std::byte* out = out_;
    for (const UnitRun& run : units) units_[unit_count_++] = run.unit;
    // Head by head, whose rows are loaded for all units at once.
    for (std::uint32_t head = 0; head < units_[0].kv_head_count; ++head) {
      for (std::uint32_t unit = 0; unit < unit_count_; ++unit) {
        add_chunks(unit, head, &queries, &out);
      }
    }
  }
  const Chunk& last = chunks_[chunk_count_ - 1];
  std::memset(out_, 0,
              static_cast<std::size_t>(last.out - out_) +
                  primitives_.out_bytes(call_.attended, last.count));
  std::fill_n(tops_.begin(), chunk_count_ * kChunkQueries, kNothing);
  std::fill_n(sums_.begin(), chunk_count_ * kChunkQueries, 0.0);
}

void Lane::add_chunks(std::uint32_t index, std::uint32_t head, std::byte** queries,
                      std::byte** out) {
  const Unit& unit = units_[index];
  for (std::uint64_t first = 0; first < unit.count; first += kChunkQueries) {
    const std::uint64_t at = chunk_count_ * kChunkQueries;
    Chunk& chunk = chunks_[chunk_count_++];
    chunk.sequence = unit.sequence;
    chunk.unit = index;
    chunk.kv_head = unit.first_kv_head + head;
    chunk.count = chunk_rows(unit, first);
    chunk.first = unit.first + first;
    chunk.row = head * unit.count + first;
    chunk.queries = *queries;
    chunk.out = *out;
    chunk.top = &tops_[at];
    chunk.sum = &sums_[at];
    *queries += primitives_.query_bytes(call_.attended, chunk.count);
    *out += primitives_.out_bytes(call_.attended, chunk.count);
  }
}

// The rows of a span that one of the units sees.
RowRange Lane::seen_rows(const Span& span) const {
  RowRange seen = unit_rows(call_, units_[0], span);
  for (std::uint64_t i = 1; i < unit_count_; ++i) {
    const RowRange more = unit_rows(call_, units_[i], span);
    seen = {std::min(seen.first, more.first), std::max(seen.end, more.end)};
  }
  return seen;
}

// Packs the queries, turned by -delta: (R(t) q) . (R(p + delta) k) = (R(t - delta) q) . (R(p) k)
void Lane::pack_chunks(std::int64_t delta) {
  if (is_packed_ && packed_delta_ == delta) return;
  is_packed_ = true;
  packed_delta_ = delta;
  const std::uint32_t width = call_.attended.key_dim;
  const AttentionShape& shape = call_.inputs.shape;
  const std::uint32_t stored_tail = shape.key_dim - shape.rotary_offset;
  const std::uint32_t rotary_offset =
      call_.expansion == nullptr ? shape.rotary_offset : width - stored_tail;
  const bool turns = delta != 0 && shape.rope->rotary_dim() > 0;
  if (turns) fill_rotation(*shape.rope, -delta, 1.0, cosines_, sines_);
  for (std::uint64_t i = 0; i < chunk_count_; ++i) {
    const Chunk& chunk = chunks_[i];
    const float* queries[kChunkQueries];
    for (std::uint32_t q = 0; q < chunk.count; ++q) {
      const std::uint64_t row = call_.result_row(*chunk.sequence, chunk.kv_head, chunk.first + q);
      queries[q] = call_.inputs.q + row * width;
      if (!turns) continue;
      float* turned = &turned_[std::size_t{q} * width];
      std::copy_n(queries[q], width, turned);
      apply_rotation(*shape.rope, cosines_, sines_, turned + rotary_offset);
      queries[q] = turned;
    }
    primitives_.pack_queries(call_.attended, queries, chunk.count, chunk.queries);
  }
}

// Blocks end at multiples of the primitives' block, counted in rows of the span's own blocks, so
// that where sums are cut depends on the span alone and whole pages stay whole.
RowRange Lane::next_block(const Span& span, std::uint64_t row, std::uint64_t end) const {
  const std::uint64_t rows = block_rows_;
  const std::uint64_t cut = ((span.first_row + row) / rows + 1) * rows - span.first_row;
  return {row, std::min(end, cut)};
}

// Moves the first row back to where a group of rows begins (row_step), counted from the beginning
// of its block, or of the span within it.
RowRange Lane::from_whole_groups(const Span& span, RowRange range) const {
  const std::uint64_t rows = block_rows_;
  const std::uint64_t block = (span.first_row + range.first) / rows * rows;
  const std::uint64_t begin = block > span.first_row ? block - span.first_row : 0;
  range.first -= (range.first - begin) % primitives_.row_step;
  return range;
}

void Lane::attend_span(const Span& span, RowRange range) {
  range = from_whole_groups(span, range);
  pack_chunks(span.delta);
  find_rows(span, next_block(span, range.first, range.end), blocks_[0]);
  for (std::size_t at = 0; blocks_[at].range.first < range.end; at ^= 1) {
    BlockRows& next = blocks_[at ^ 1];
    find_rows(span, next_block(span, blocks_[at].range.end, range.end), next);
    attend_block(span, blocks_[at], next.range.is_empty() ? nullptr : &next);
  }
}

void Lane::find_rows(const Span& span, const RowRange& range, BlockRows& block) const {
  const PagedRows& layout = call_.inputs.rows;
  block.range = range;
  std::uint64_t row = span.first_row + range.first;
  const std::uint64_t end = span.first_row + range.end;
  std::size_t i = 0;
  while (row < end) {
    const std::uint64_t in_block = row % layout.block_rows;
    const std::uint64_t run = std::min(end - row, layout.block_rows - in_block);
    const std::byte* page = layout.base + span.blocks[row / layout.block_rows] * layout.block_bytes;
    for (std::uint64_t r = in_block; r < in_block + run; ++r, ++i) {
      block.rows[i] = page + r * layout.row_bytes;
      block.scales[i] = page + layout.scales_offset + r * 8;
    }
    row += run;
  }
}

void Lane::attend_block(const Span& span, const BlockRows& block, const BlockRows* next) {
  const PagedRows& layout = call_.inputs.rows;
  is_loaded_ = false;
  RowPrefetch prefetch;
  std::uint64_t share = 0;  // lines to ask for in each of a chunk's two steps
  // A unit of some of the KV heads reads a row's parts, not the row.
  const bool reads_all = units_[0].kv_head_count == call_.kv_heads || call_.stored.value_in_key;
  if (next != nullptr && reads_all) {
    prefetch.rows = next->rows.data();
    prefetch.row_lines = static_cast<std::uint32_t>((layout.row_bytes + kLine - 1) / kLine);
    prefetch.left = (next->range.end - next->range.first) * prefetch.row_lines;
    share = (prefetch.left + 2 * chunk_count_ - 1) / (2 * chunk_count_);
  }
  for (std::uint64_t i = 0; i < chunk_count_; ++i) {
    bool all = false;
    const Chunk& chunk = chunks_[i];
    if (!see_rows(chunk, span, block.range, &all)) continue;
    load_rows(block, chunk.kv_head);
    weigh(chunk, block, all, prefetch.take(share));
    accumulate(chunk, block, all, prefetch.take(share));
  }
}

// Which rows of the block each query of the chunk sees; false where none sees any.
bool Lane::see_rows(const Chunk& chunk, const Span& span, const RowRange& range, bool* all) {
  const auto visible = [&](std::uint32_t q) {
    return intersection(call_.visible_rows(span, call_.position(*chunk.sequence, chunk.first + q)),
                        range);
  };
  // Ranges move on with the position: what the first and the last see entirely, all see.
  *all = visible(0) == range && visible(chunk.count - 1) == range;
  if (*all) return true;
  bool any = false;
  for (std::uint32_t q = 0; q < chunk.count; ++q) {
    const RowRange seen = visible(q);
    const bool sees = !seen.is_empty();
    any |= sees;
    first_rows_[q] = sees ? static_cast<std::uint32_t>(seen.first - range.first) : 0;
    end_rows_[q] = sees ? static_cast<std::uint32_t>(seen.end - range.first) : 0;
  }
  return any;
}

void Lane::load_rows(const BlockRows& block, std::uint32_t kv_head) {
  if (is_loaded_ && loaded_head_ == kv_head) return;
  is_loaded_ = true;
  loaded_head_ = kv_head;
  StoredRows stored;
  stored.layout = &call_.inputs.rows;
  stored.rows = block.rows.data();
  stored.scales = block.scales.data();
  stored.count = static_cast<std::uint32_t>(block.range.end - block.range.first);
  if (call_.expansion == nullptr) {
    const AttentionShape& shape = call_.inputs.shape;
    const std::uint64_t element = element_bytes(call_.inputs.rows.encoding);
    stored.key_offset = std::uint64_t{kv_head} * shape.key_dim * element;
    stored.value_offset =
        (std::uint64_t{shape.kv_heads} * shape.key_dim + std::uint64_t{kv_head} * shape.value_dim) *
        element;
    primitives_.load_rows(call_.stored, stored, stored_rows_);
    return;
  }
  primitives_.load_rows(call_.stored, stored, stored_rows_);
  load_expansion(kv_head);
  ExpandTask task;
  task.latent = call_.stored;
  task.expanded = call_.attended;
  task.rows = stored_rows_;
  task.row_count = stored.count;
  task.key_up = key_up_;
  task.value_up = value_up_;
  task.to = attended_rows_;
  primitives_.expand_rows(task);
}

void Lane::load_expansion(std::uint32_t head) {
  if (has_expansion_ && expansion_head_ == head) return;
  has_expansion_ = true;
  expansion_head_ = head;
  const LatentExpansion& weights = *call_.expansion;
  const std::uint32_t latent = call_.stored.value_dim;
  const std::size_t at = std::size_t{head} * latent;
  primitives_.pack_matrix(weights.key_up.data() + at * weights.content_dim, weights.content_dim,
                          latent, key_up_);
  primitives_.pack_matrix(weights.value_up.data() + at * weights.value_dim, weights.value_dim,
                          latent, value_up_);
}

void Lane::weigh(const Chunk& chunk, const BlockRows& block, bool all,
                 const RowPrefetch& prefetch) {
  WeighTask task;
  task.widths = call_.attended;
  task.scale = static_cast<float>(call_.inputs.shape.scale);
  task.softcap = static_cast<float>(call_.inputs.shape.softcap);
  task.queries = chunk.queries;
  task.query_count = chunk.count;
  task.rows = attended_rows_;
  task.row_count = static_cast<std::uint32_t>(block.range.end - block.range.first);
  task.first_row = all ? nullptr : first_rows_.data();
  task.end_row = all ? nullptr : end_rows_.data();
  task.top = chunk.top;
  task.sum = chunk.sum;
  task.corrections = corrections_.data();
  task.weights = weights_;
  task.prefetch = prefetch;
  primitives_.weigh_rows(task);
}

// Queries that see the same rows (the heads of one token, mostly) go on together; a row that one
// does not see is not multiplied by 0 for it: it may hold NaN.
void Lane::accumulate(const Chunk& chunk, const BlockRows& block, bool all,
                      const RowPrefetch& prefetch) {
  AccumulateTask task;
  task.widths = call_.attended;
  task.rows = attended_rows_;
  task.weights = weights_;
  task.query_count = chunk.count;
  task.row_count = static_cast<std::uint32_t>(block.range.end - block.range.first);
  task.corrections = corrections_.data();
  task.out = chunk.out;
  if (all || primitives_.takes_ragged) {
    task.first_rows = all ? nullptr : first_rows_.data();
    task.end_rows = all ? nullptr : end_rows_.data();
    task.end_query = chunk.count;
    task.end_row = task.row_count;
    task.prefetch = prefetch;
    primitives_.accumulate_rows(task);
    return;
  }
  while (task.end_query < chunk.count) {
    task.first_query = task.end_query;
    task.first_row = first_rows_[task.first_query];
    task.end_row = end_rows_[task.first_query];
    while (task.end_query < chunk.count && first_rows_[task.end_query] == task.first_row &&
           end_rows_[task.end_query] == task.end_row) {
      ++task.end_query;
    }
    if (task.first_row < task.end_row) primitives_.accumulate_rows(task);
  }
}

void Lane::finish(std::span<const UnitRun> units) {
  for (std::uint64_t i = 0; i < chunk_count_; ++i) {
    const Chunk& chunk = chunks_[i];
    const UnitRun& run = units[chunk.unit];
    for (std::uint32_t q = 0; q < chunk.count; ++q) {
      if (run.partial != nullptr) {
        const Partial partial(run.partial, run.unit.rows(), call_.attended.value_dim);
        float* to = partial.out(chunk.row + q);
        primitives_.read_out(call_.attended, chunk.out, chunk.count, q, to);
        partial.set(chunk.row + q, chunk.top[q], chunk.sum[q]);
        continue;
      }
      primitives_.read_out(call_.attended, chunk.out, chunk.count, q, result_.data());
      write_result(call_, call_.result_row(*chunk.sequence, chunk.kv_head, chunk.first + q),
                   {result_.data(), chunk.top[q], chunk.sum[q]});
    }
  }
}

}  // namespace emblema::driver
