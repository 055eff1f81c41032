#include "emblema/session/engine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/check.h"
#include "emblema/session/engine_core.h"
#include "emblema/session/sequence_state.h"

namespace emblema {
namespace {

bool is_plain(Encoding encoding) {
  return encoding == Encoding::kBf16 || encoding == Encoding::kFp16 || encoding == Encoding::kFp32;
}

// Layers that an engine cannot serve from blocks of their own, named by what they are instead.
Status check_layer(const LayerGeometry& layer) {
  std::string what;
  if (layer.shares_with) {
    what = fmt::format("reads the rows of layer {}", *layer.shares_with);
  } else if (layer.chunk_tokens > 0) {
    what = fmt::format("attends within chunks of {} tokens", layer.chunk_tokens);
  } else if (layer.streams.empty()) {
    what = "does not attend";
  }
  for (const Stream& stream : layer.streams) {
    if (!what.empty() || stream.placement != Placement::kArena) continue;
    what = fmt::format("keeps a {} stream in the arena", to_string(stream.role));
  }
  if (what.empty()) return {};
  return fail(ErrorCode::Unsupported,
              fmt::format("layer {} ({}) {}; an engine holds latent and kv streams in blocks; this "
                          "model can be planned and laid out",
                          layer.index, layer.kind, what));
}

// Shape and page of every layer, as attention reads them.
Status describe_layers(EngineCore* core) {
  for (const LayerGeometry& layer : core->geometry.layers()) {
    if (Status ok = check_layer(layer); !ok) return ok;
    EngineCore::LayerView view;
    const Stream& stream = layer.streams.front();
    const auto ref = core->find_page(layer.index, stream.role);
    if (!ref || (stream.role != StreamRole::kKv && stream.role != StreamRole::kLatent)) {
      return fail(
          ErrorCode::Unsupported,
          fmt::format("layer {} ({}) keeps a {} stream in the {}; an engine holds latent and "
                      "kv streams in blocks",
                      layer.index, layer.kind, to_string(stream.role),
                      to_string(stream.placement)));
    }
    for (const EntryRegion& region : stream.regions) {
      if (is_plain(region.encoding)) continue;
      return fail(ErrorCode::Unsupported,
                  fmt::format("kv dtype {}: an engine holds rows of bf16, fp16 or fp32; this dtype "
                              "can be planned",
                              to_string(core->geometry.options().kv_dtype)));
    }
    view.group = ref->group;
    view.page = ref->page;
    const bool latent = stream.role == StreamRole::kLatent;
    view.shape = {.kind = latent ? RowKind::kLatent : RowKind::kGrouped,
                  .query_heads = layer.query_heads,
                  .kv_heads = layer.kv_heads,
                  .key_dim = layer.key_dim,
                  .value_dim = layer.value_dim,
                  .scale = layer.scale,
                  .softcap = layer.softcap,
                  .window_tokens = layer.window_tokens,
                  .rotary_offset = latent ? layer.value_dim : 0,
                  .rope = nullptr};
    if (layer.has_rope) {
      auto rope = RopeTable::from(layer.rope, layer.max_positions);
      if (!rope) return propagate(rope);
      view.rope = std::move(*rope);
      core->relocatable = core->relocatable && view.rope.fixed_frequencies();
    }
    core->layers.push_back(std::move(view));
  }
  return {};
}

Status check_options(const EngineOptions& options) {
  if (options.step_tokens == 0 || options.step_tokens > kSequenceTokensMax) {
    return fail(ErrorCode::Invalid, fmt::format("step_tokens is {}; allowed: 1 to {}",
                                                options.step_tokens, kSequenceTokensMax));
  }
  if (options.max_sequences == 0) {
    return fail(ErrorCode::Invalid, "max_sequences is 0; allowed: 1 and more");
  }
  if (options.digest_bits_for_test > 256) {
    return fail(ErrorCode::Invalid, fmt::format("digest_bits_for_test is {}; allowed: 0 to 256",
                                                options.digest_bits_for_test));
  }
  return {};
}

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

std::optional<EngineCore::PageRef> EngineCore::find_page(std::uint32_t layer,
                                                         StreamRole role) const {
  for (std::uint32_t g = 0; g < layout.groups.size(); ++g) {
    if (const StreamPage* page = layout.groups[g].find(layer, role)) return PageRef{g, page};
  }
  return std::nullopt;
}

Result<Engine> Engine::open(const ModelGeometry& geometry, const EngineOptions& options) {
  if (Status ok = check_options(options); !ok) return propagate(ok);
  auto core = std::make_shared<EngineCore>(geometry);
  core->options = options;
  auto layout = ModelLayout::native(geometry);
  if (!layout) return propagate(layout);
  core->layout = std::move(*layout);
  if (Status ok = describe_layers(core.get()); !ok) return propagate(ok);
  auto plan = plan_pool(core->layout, options.pool_bytes,
                        {.sequence_tokens = options.sequence_tokens,
                         .max_positions = geometry.model().max_positions,
                         .max_sequences = options.max_sequences,
                         .step_tokens = options.step_tokens});
  if (!plan) return propagate(plan);
  core->plan = std::move(*plan);
  core->quotas = std::make_unique<QuotaBook>(options.tenant_quota_bytes, options.tenant_quotas);
  auto blocks =
      BlockManager::open(core->layout, core->plan,
                         {.metadata_only = options.metadata_only,
                          .share_content = options.share_content,
                          .share_content_across_tenants = options.share_content_across_tenants,
                          .seal = options.seal,
                          .event_sink = options.event_sink,
                          .why_across_tenants = options.why_across_tenants,
                          .digest_bits_for_test = options.digest_bits_for_test});
  if (!blocks) return propagate(blocks);
  core->blocks = std::move(*blocks);
  return Engine(std::move(core));
}

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
  const std::uint64_t limit = request.tokens.empty() ? 0 : request.tokens.size() - 1;
  if (Status ok = state->admit_start(limit); !ok) return propagate(ok);
  ChainMatch found = core_->blocks->match(state->identity, request.tokens, request.extra, limit);
  state->hit_tokens = found.tokens;
  state->begin_part(0, std::move(found));
  if (Status ok = state->admit_found(); !ok) return propagate(ok);
  state->rebuild_spans();
  return Sequence(std::move(state));
}

Result<SegmentLookup> Engine::segment(const StartRequest& request) {
  if (Status ok = check_request(request); !ok) return propagate(ok);
  if (request.tokens.empty()) {
    return fail(ErrorCode::Invalid, "segment of 0 tokens; allowed: 1 and more");
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
  return core_->blocks->check_invariants();
}

}  // namespace emblema
