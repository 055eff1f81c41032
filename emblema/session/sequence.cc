#include "emblema/session/sequence.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/canary.h"
#include "emblema/contract/check.h"
#include "emblema/session/sequence_state.h"

namespace emblema {

RowChunk RowView::operator[](std::uint64_t chunk) const {
  EMBLEMA_CHECK(chunk < chunks_, "a chunk of this view");
  const std::uint64_t first_block = first_row_ / block_rows_;
  const std::uint64_t begin =
      chunk == 0 ? first_row_ : (first_block + chunk) * block_rows_;  // row in the view's blocks
  const std::uint64_t end = std::min(first_row_ + rows_, (first_block + chunk + 1) * block_rows_);
  const std::uint64_t block = blocks_[first_block + chunk];
  return {base_ + block * block_bytes_ + begin % block_rows_ * row_bytes_, end - begin, row_bytes_,
          first_token_ + (begin - first_row_) * stride_};
}

void RowView::count_chunks() {
  chunks_ = rows_ == 0 ? 0 : (first_row_ + rows_ - 1) / block_rows_ - first_row_ / block_rows_ + 1;
}

Sequence::Sequence(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sequence::Sequence(Sequence&&) noexcept = default;
Sequence& Sequence::operator=(Sequence&&) noexcept = default;
Sequence::~Sequence() = default;

Sequence::State& Sequence::live() const {
  EMBLEMA_CHECK(state_ != nullptr, "a sequence that was not moved from");
  return *state_;
}

std::uint64_t Sequence::tokens() const {
  return live().committed();
}
std::uint64_t Sequence::reserved_tokens() const {
  return live().reserved;
}
std::uint64_t Sequence::hit_tokens() const {
  return live().hit_tokens;
}
const std::string& Sequence::tenant() const {
  return live().identity.tenant;
}

Status Sequence::reserve(std::uint64_t n) {
  State& s = live();
  if (Status ok = s.check_step(n); !ok) return ok;
  if (s.replay.count > 0) return s.reserve_replay(n);
  s.follow_forwards();
  const std::uint64_t rows = s.tail().tokens + s.reserved + n;
  std::vector<std::uint64_t> counts(s.core->blocks->group_count(), 0);
  std::vector<std::uint64_t> growth(s.group_count());
  std::vector<bool> reopens(s.group_count(), false);
  for (std::uint32_t g = 0; g < s.group_count(); ++g) {
    const GroupRun& run = s.tail().runs[g];
    const std::uint64_t wanted = ceil_div(rows, s.block_tokens(g));
    counts[g] = wanted > run.end_block() ? wanted - run.end_block() : 0;
    growth[g] = counts[g];  // a copy of the tail takes the place of what is held
    reopens[g] = n > 0 && run.open.empty() && s.tail().tokens % s.block_tokens(g) != 0;
    if (reopens[g] && s.core->blocks->needs_copy(run.sealed.back())) ++counts[g];
  }
  auto room = s.charge.room(s.core->bytes_of(growth));
  if (!room) return propagate(room);
  if (s.arena) {
    if (Status ok = s.arena->reserve(s.committed(), s.reserved + n); !ok) return ok;
  }
  auto taken = s.core->blocks->take(counts, s.identity.tenant);
  if (!taken) {
    if (s.arena && s.reserved == 0) s.arena->cancel();
    return propagate(taken);
  }
  for (std::uint32_t g = 0; g < s.group_count(); ++g) {
    GroupRun& run = s.tail().runs[g];
    std::vector<OpenBlock>& fresh = (*taken)[g];
    if (reopens[g]) {
      OpenBlock* spare = fresh.empty() ? nullptr : &fresh.back();
      run.open.push_back(s.core->blocks->reopen(std::move(run.sealed.back()), spare));
      run.sealed.pop_back();
    }
    for (OpenBlock& block : fresh) {
      if (block.holds()) run.open.push_back(std::move(block));
    }
    // The tail's other holder may have gone meanwhile; then the block for its copy is left over.
    while (run.end_block() > ceil_div(rows, s.block_tokens(g))) run.open.pop_back();
  }
  s.reserved += n;
  s.charge.absorb(std::move(*room));
  s.rebuild_spans();
  return {};
}

void Sequence::cancel() {
  State& s = live();
  s.reserved = 0;
  if (s.arena) s.arena->cancel();
  for (std::uint32_t g = 0; g < s.group_count(); ++g) {
    GroupRun& run = s.tail().runs[g];
    const std::uint64_t wanted = ceil_div(s.tail().tokens, s.block_tokens(g));
    while (!run.open.empty() && run.end_block() > wanted) run.open.pop_back();
  }
  s.rebuild_spans();
}

Result<RowView> Sequence::rows(std::uint32_t layer, StreamRole role, std::uint64_t first,
                               std::uint64_t count) const {
  const State& s = live();
  const std::uint64_t end = s.end() + s.reserved;
  if (first < s.end() || first > end || count > end - first) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("rows of {} tokens at position {}; allowed: reserved positions {} to {}", count,
                    first, s.end(), end));
  }
  const auto ref = s.core->find_page(layer, role);
  if (!ref) return s.arena_rows(layer, role, first, count);
  if (s.replay.count > 0) {
    return fail(ErrorCode::Invalid,
                fmt::format("{} rows of layer {} while tokens are replayed; allowed: rows in the "
                            "arena, until finish_replay()",
                            to_string(role), layer));
  }
  const BlockLayout& layout = s.core->layout.groups[ref->group];
  std::byte* region = s.core->blocks->region_base(ref->group);
  if (region == nullptr) {
    return fail(ErrorCode::Unsupported, "rows of a metadata-only engine; it holds no bytes");
  }
  const GroupRun& run = s.tail().runs[ref->group];
  RowView view;
  view.base_ = region + ref->page->offset_bytes;
  view.blocks_ = run.indexes.data();
  view.block_bytes_ = layout.block_bytes;
  view.row_bytes_ = ref->page->row_bytes;
  view.block_rows_ = ref->page->rows;
  view.stride_ = layout.block_tokens / ref->page->rows;
  // Row r of a stream with stride s is that of tokens r x s ... r x s + s - 1, written with the
  // last.
  const std::uint64_t in_part = first - s.tail().position;
  const std::uint64_t first_group = in_part / view.stride_;
  view.first_row_ = first_group - run.first_block * view.block_rows_;
  view.rows_ = (in_part + count) / view.stride_ - first_group;
  view.first_token_ = s.tail().position + first_group * view.stride_;
  view.count_chunks();
  return view;
}

Result<AttentionInputs> Sequence::inputs(std::uint32_t layer, const float* q, std::uint64_t first,
                                         std::uint64_t queries) const {
  const State& s = live();
  const std::uint64_t end = s.end() + s.reserved;
  if (layer >= s.core->layers.size() || first > end || queries > end - first) {
    return fail(ErrorCode::Invalid,
                fmt::format("{} queries of layer {} at position {}; allowed: layers below {}, "
                            "positions up to {}",
                            queries, layer, first, s.core->layers.size(), end));
  }
  const EngineCore::LayerView& view = s.core->layers[layer];
  if (view.page == nullptr) {
    return fail(ErrorCode::Unsupported,
                fmt::format("inputs of layer {}, which {}", layer, view.unreadable));
  }
  if (const std::uint64_t from = s.readable_from(view.group, first, queries); from > first) {
    return fail(
        ErrorCode::Invalid,
        fmt::format("queries of layer {} at position {}: rows in their window were released; "
                    "allowed: positions from {}",
                    layer, first, from));
  }
  std::byte* region = s.core->blocks->region_base(view.group);
  if (region == nullptr) {
    return fail(ErrorCode::Unsupported, "inputs of a metadata-only engine; it holds no bytes");
  }
  AttentionInputs inputs;
  inputs.shape = view.shape;
  inputs.shape.rope = &view.rope;
  inputs.rows = view.rows;
  inputs.rows.base = region + view.page->offset_bytes;
  inputs.rows.block_count = s.core->plan.groups[view.group].blocks;
  inputs.q = q;
  inputs.tokens = queries;
  state_->query = {.spans = s.spans[view.group],
                   .first_query = 0,
                   .queries = queries,
                   .query_position = static_cast<std::int64_t>(first)};
  inputs.sequences = {&state_->query, 1};
  return inputs;
}

Status Sequence::commit(std::span<const TokenId> ids) {
  State& s = live();
  const std::uint64_t in_part = s.tail().tokens;
  if (ids.size() > s.reserved) {
    return fail(ErrorCode::Invalid, fmt::format("commit of {} tokens; allowed: up to {} reserved",
                                                ids.size(), s.reserved));
  }
  if (ids.size() > s.tokens_max - s.committed()) {
    return fail(ErrorCode::Invalid, fmt::format("commit of {} tokens behind {}; the segment has {}",
                                                ids.size(), s.committed(), s.tokens_max));
  }
  if (s.replay.count > 0) return s.commit_replay(ids);
  for (std::uint64_t i = 0; i < ids.size() && in_part + i < s.expected.size(); ++i) {
    if (ids[i] == s.expected[in_part + i] || EMBLEMA_CANARY(kRejectedCommitted)) continue;
    return fail(ErrorCode::Invalid,
                fmt::format("commit of token {} at position {}; the prompt has {} there", ids[i],
                            s.committed() + i, s.expected[in_part + i]));
  }
  if (s.arena) {
    if (Status ok = s.arena->check_commit(ids.size(), s.reserved); !ok) return ok;
    s.arena->commit(s.committed(), ids.size(), s.reserved);
  }
  s.part_tokens.insert(s.part_tokens.end(), ids.begin(), ids.end());
  s.tail().tokens += ids.size();
  s.reserved -= ids.size();
  s.seal_full_blocks();
  s.leave_snapshots();
  s.release_behind_windows();
  s.rebuild_spans();
  return {};
}

Result<Sequence> Sequence::fork() {
  State& s = live();
  if (Status ok = s.check_idle("fork"); !ok) return propagate(ok);
  std::optional<SequenceArena> arena;
  if (s.arena) {
    auto copy = s.arena->fork();
    if (!copy) return propagate(copy);
    arena = std::move(*copy);
  }
  auto room = s.charge.room(s.held_bytes());
  if (!room) return propagate(room);
  s.seal_tail();
  auto child = std::make_unique<State>();
  child->core = s.core;
  child->charge = std::move(*room);
  child->identity = s.identity;
  child->part_tokens = s.part_tokens;
  child->expected = s.expected;
  child->extras = s.extras;
  child->hit_tokens = s.hit_tokens;
  child->forward_epoch = s.forward_epoch;
  child->arena = std::move(arena);
  child->snapshot_chain = s.snapshot_chain;
  for (const Tip& tip : s.tips) child->tips.push_back(tip.share());
  for (const Part& part : s.parts) {
    Part copy{.is_segment = part.is_segment,
              .position = part.position,
              .tokens = part.tokens,
              .runs = {},
              .token_ids = part.token_ids,
              .extras = part.extras};
    for (const Tip& tip : part.tips) copy.tips.push_back(tip.share());
    for (const GroupRun& run : part.runs) {
      GroupRun run_copy{.first_block = run.first_block, .sealed = {}, .open = {}, .indexes = {}};
      for (const SealedBlock& block : run.sealed) run_copy.sealed.push_back(block.share());
      copy.runs.push_back(std::move(run_copy));
    }
    child->parts.push_back(std::move(copy));
  }
  child->rebuild_spans();
  return Sequence(std::move(child));
}

std::span<const Span> Sequence::spans(std::uint32_t group) const {
  return live().spans[group];
}

std::vector<Span> Sequence::window_spans() const {
  const State& s = live();
  return s.arena ? s.arena->window_spans(s.end(), s.reserved) : std::vector<Span>();
}

std::vector<BlockId> Sequence::held_blocks(std::uint32_t group) const {
  std::vector<BlockId> held;
  for (const Part& part : live().parts) {
    for (const SealedBlock& block : part.runs[group].sealed) held.push_back(block.id());
    for (const OpenBlock& block : part.runs[group].open) held.push_back(block.id());
  }
  return held;
}

ConstByteSpan Sequence::row_bytes(std::uint32_t layer, StreamRole role,
                                  std::uint64_t position) const {
  const auto ref = live().core->find_page(layer, role);
  if (!ref && live().arena) return live().arena->row(layer, role, position, live().end());
  if (!ref || position >= live().committed()) return {};
  const BlockLayout& layout = live().core->layout.groups[ref->group];
  const std::byte* region = live().core->blocks->region_base(ref->group);
  for (const Part& part : live().parts) {
    if (position < part.position || position >= part.position + part.tokens) continue;
    const GroupRun& run = part.runs[ref->group];
    const std::uint64_t block = (position - part.position) / layout.block_tokens;
    const std::uint64_t stride = layout.block_tokens / ref->page->rows;
    const std::uint64_t row = (position - part.position) % layout.block_tokens / stride;
    if (region == nullptr || block < run.first_block) return {};
    return {
        region + row_offset_bytes(layout, *ref->page, run.indexes[block - run.first_block], row),
        ref->page->row_bytes};
  }
  return {};
}

}  // namespace emblema
