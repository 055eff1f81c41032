#include "emblema/session/engine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/check.h"
#include "emblema/session/engine_core.h"
#include "emblema/session/sequence_state.h"

namespace emblema {
namespace {

Status check_request(const StartRequest& request) {
  for (std::size_t i = 0; i < request.extra.size(); ++i) {
    const std::uint64_t offset = request.extra[i].offset;
    if (offset >= request.tokens.size()) {
      return fail(ErrorCode::Invalid,
                  fmt::format("extra id {} at offset {}; allowed: within the {} tokens", i, offset,
                              request.tokens.size()));
    }
    if (i > 0 && offset < request.extra[i - 1].offset) {
      return fail(ErrorCode::Invalid,
                  fmt::format("extra id {} at offset {} behind one at {}; allowed: ascending", i,
                              offset, request.extra[i - 1].offset));
    }
  }
  return {};
}

}  // namespace

CacheIdentity Engine::identity_of(const StartRequest& request) const {
  return {.geometry = core_->geometry.fingerprint(),
          .weights = core_->options.identity.weights_id,
          .adapter = request.adapter,
          .tenant = std::string(request.tenant),
          .salt = std::string(request.salt)};
}

Result<Sequence> Engine::start(const StartRequest& request) {
  if (Status ok = check_request(request); !ok) return propagate(ok);
  auto state = std::make_unique<Sequence::State>();
  state->core = core_;
  state->identity = identity_of(request);
  state->expected.assign(request.tokens.begin(), request.tokens.end());
  state->extras.assign(request.extra.begin(), request.extra.end());
  if (core_->arena) {
    auto arena = SequenceArena::open(*core_->arena, state->identity.tenant);
    if (!arena) return propagate(arena);
    state->arena = std::move(*arena);
  }
  const std::uint64_t limit = request.tokens.empty() ? 0 : request.tokens.size() - 1;
  if (Status ok = state->admit_start(limit); !ok) return propagate(ok);
  ChainMatch found = core_->blocks->match(state->identity, request.tokens, request.extra, limit,
                                          request.recompute_last_block);
  state->hit_tokens = found.tokens;
  state->take_up(std::move(found));
  if (Status ok = state->admit_found(); !ok) return propagate(ok);
  state->rebuild_spans();
  return Sequence(std::move(state));
}

Result<SegmentLookup> Engine::segment(const StartRequest& request) {
  if (Status ok = check_request(request); !ok) return propagate(ok);
  if (request.tokens.empty()) {
    return fail(ErrorCode::Invalid, "segment of 0 tokens; allowed: 1 and more");
  }
  if (core_->arena) {
    return fail(ErrorCode::Unsupported,
                "segment of a model with state in the arena: what a token leaves there depends on "
                "all before it; allowed: prefixes");
  }
  auto content = std::make_shared<const SegmentContent>(
      SegmentContent{identity_of(request),
                     {request.tokens.begin(), request.tokens.end()},
                     {request.extra.begin(), request.extra.end()}});
  ChainMatch found = core_->blocks->match_segment(content);
  SegmentLookup lookup;
  if (found.tokens == content->tokens.size()) {
    lookup.found.emplace();
    lookup.found->core_ = core_;
    lookup.found->content_ = content;
    for (ChainMatch::Group& group : found.groups) {
      lookup.found->runs_.push_back({group.first_block, std::move(group.blocks)});
    }
    return lookup;
  }
  auto state = std::make_unique<Sequence::State>();
  state->core = core_;
  state->identity = content->identity;
  state->expected = content->tokens;
  state->extras = content->extras;
  state->tokens_max = content->tokens.size();
  state->builds_segment = true;
  state->charge = Charge(core_->quotas.get(), request.tenant);
  state->hit_tokens = found.tokens;
  state->begin_part(0, std::move(found));
  state->rebuild_spans();
  lookup.builder.emplace(SegmentBuilder(Sequence(std::move(state)), std::move(content)));
  return lookup;
}

Result<Segment> SegmentBuilder::seal() {
  Sequence::State& s = *sequence_.state_;
  if (s.reserved > 0 || s.committed() != content_->tokens.size()) {
    return fail(ErrorCode::Invalid,
                fmt::format("seal of a segment of {} tokens with {} committed and {} reserved",
                            content_->tokens.size(), s.committed(), s.reserved));
  }
  s.seal_tail();
  Segment segment;
  segment.core_ = s.core;
  segment.content_ = content_;
  for (std::uint32_t g = 0; g < s.group_count(); ++g) {
    GroupRun& run = s.tail().runs[g];
    const std::uint64_t linked = s.committed() / s.block_tokens(g) * s.block_tokens(g);
    if (linked < s.committed()) {  // the last block is partial: findable in this chain only
      auto published =
          s.core->blocks->publish(std::move(run.sealed.back()), s.tips[g],
                                  std::span<const TokenId>(s.part_tokens).subspan(linked),
                                  s.extras_within(linked, s.committed() - linked));
      run.sealed.back() = std::move(published.block);
    }
    Segment::Run held{.first_block = run.first_block, .blocks = {}};
    for (const SealedBlock& block : run.sealed) held.blocks.push_back(block.share());
    segment.runs_.push_back(std::move(held));
  }
  s.rebuild_spans();
  return segment;
}

std::vector<BlockId> Segment::held_blocks(std::uint32_t group) const {
  std::vector<BlockId> held;
  for (const SealedBlock& block : runs_[group].blocks) held.push_back(block.id());
  return held;
}

Pin Engine::pin(const StartRequest& request) {
  return core_->blocks->pin(identity_of(request), request.tokens, request.extra).keeping(core_);
}

Result<WhyReport> Engine::why(const StartRequest& request) const {
  if (Status ok = check_request(request); !ok) return propagate(ok);
  const std::uint64_t limit = request.tokens.empty() ? 0 : request.tokens.size() - 1;
  return core_->blocks->why(identity_of(request), request.tokens, request.extra, limit);
}

std::uint64_t Engine::seal_pending(std::uint64_t budget_blocks) {
  return core_->blocks->seal_pending(budget_blocks);
}

std::uint64_t Engine::evict_idle() {
  return core_->blocks->evict_all();
}

EngineStats Engine::stats() const {
  EngineStats stats;
  stats.blocks = core_->blocks->stats();
  stats.snapshots_taken = core_->snapshots_taken;
  stats.snapshots_missed = core_->snapshots_missed;
  stats.snapshots_refused = core_->snapshots_refused;
  if (core_->arena) stats.arena = core_->arena->counts();
  stats.refused_for_quota = core_->quotas->refusals();
  stats.huge_pages = true;
  for (std::uint32_t g = 0; g < core_->layout.groups.size(); ++g) {
    const BlockCounts counts = core_->blocks->counts(g);
    stats.totals.capacity += counts.capacity;
    stats.totals.free += counts.free;
    stats.totals.open += counts.open;
    stats.totals.referenced += counts.referenced;
    stats.totals.idle += counts.idle;
    stats.totals.holds += counts.holds;
    stats.totals.entries += counts.entries;
    stats.totals.logical_bytes += counts.logical_bytes;
    stats.totals.physical_bytes += counts.physical_bytes;
    stats.region_bytes += counts.capacity * core_->layout.groups[g].block_bytes;
    stats.huge_pages = stats.huge_pages && core_->blocks->huge_pages(g);
  }
  return stats;
}

TenantUsage Engine::usage(std::string_view tenant) const {
  return core_->quotas->usage(tenant);
}

BlockCounts Engine::counts(std::uint32_t group) const {
  return core_->blocks->counts(group);
}
const ModelGeometry& Engine::geometry() const {
  return core_->geometry;
}
const ModelLayout& Engine::layout() const {
  return core_->layout;
}
const PoolPlan& Engine::plan() const {
  return core_->plan;
}
Status Engine::check_invariants() const {
  if (core_->arena) {
    if (Status ok = core_->arena->check_invariants(); !ok) return ok;
  }
  return core_->blocks->check_invariants();
}

}  // namespace emblema
