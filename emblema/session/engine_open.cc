// Opening an engine: what its options and its model allow, and how memory is divided.
#include <algorithm>
#include <new>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "emblema/contract/check.h"
#include "emblema/layout/paged_rows.h"
#include "emblema/session/engine.h"
#include "emblema/session/engine_core.h"

namespace emblema {
namespace {

constexpr std::uint64_t kStepsMax = 1u << 20;

// Rows of an encoder are counted, not held: only an engine that holds nothing can have them.
Status check_layer(const LayerGeometry& layer, bool metadata_only) {
  if (metadata_only) return {};
  for (const Stream& stream : layer.streams) {
    if (stream.role != StreamRole::kCross) continue;
    return fail(ErrorCode::Unsupported,
                fmt::format("layer {} ({}) keeps a cross stream in the arena; an engine holds no "
                            "rows of an encoder yet; this model can be planned and laid out",
                            layer.index, layer.kind));
  }
  return {};
}

// The page that attention of this layer reads, or why there is none.
void find_rows(const EngineCore& core, const LayerGeometry& layer, EngineCore::LayerView* view) {
  for (const StreamRole role : {StreamRole::kKv, StreamRole::kLatent}) {
    const auto ref = core.find_page(layer.index, role);
    if (!ref) continue;
    view->group = ref->group;
    const auto rows = paged_rows_of(*ref->page);
    if (!rows) {
      view->unreadable =
          fmt::format("stores rows as {}; kernels here read bf16, fp16, fp32, fp8 and fp8_ds_mla",
                      to_string(core.geometry.options().kv_dtype));
      return;
    }
    view->rows = *rows;
    view->rows.block_bytes = core.layout.groups[ref->group].block_bytes;
    view->page = ref->page;
    return;
  }
  view->unreadable = layer.query_heads == 0 || layer.kind == "none"
                         ? "does not attend"
                         : "has no latent or kv rows in blocks";
}

// Shape and page of every layer, as attention reads them.
Status describe_layers(EngineCore* core) {
  for (const LayerGeometry& layer : core->geometry.layers()) {
    if (Status ok = check_layer(layer, core->options.metadata_only); !ok) return ok;
    EngineCore::LayerView view;
    find_rows(*core, layer, &view);
    const bool latent = view.page != nullptr && view.page->role == StreamRole::kLatent;
    view.shape = {.kind = latent ? RowKind::kLatent : RowKind::kGrouped,
                  .query_heads = layer.query_heads,
                  .kv_heads = layer.kv_heads,
                  .key_dim = layer.key_dim,
                  .value_dim = layer.value_dim,
                  .scale = layer.scale,
                  .softcap = layer.softcap,
                  .window_tokens = layer.window_tokens,
                  .chunk_tokens = layer.chunk_tokens,
                  .rotary_offset = latent ? layer.value_dim : 0,
                  .rope = nullptr};
    if (view.page != nullptr && layer.has_rope) {
      auto rope = RopeTable::from(layer.rope, layer.max_positions);
      if (!rope) return propagate(rope);
      view.rope = std::move(*rope);
      core->relocatable = core->relocatable && view.rope.fixed_frequencies();
    }
    core->layers.push_back(std::move(view));
  }
  for (const BlockLayout& group : core->layout.groups) {
    if (group.retention != Retention::kChunk) continue;
    core->chunk_tokens =
        std::lcm(std::max<std::uint64_t>(core->chunk_tokens, 1), group.window_tokens);
  }
  return {};
}

Status check_choices(const EngineOptions& options) {
  if (options.seal != SealMode::kInline && options.seal != SealMode::kDeferred) {
    return fail(ErrorCode::Invalid, fmt::format("seal is {}; allowed: kInline (0), kDeferred (1)",
                                                static_cast<int>(options.seal)));
  }
  if (options.snapshots > SnapshotPolicy::kZero) {
    return fail(ErrorCode::Invalid,
                fmt::format("snapshots is {}; allowed: kBoundaries (0), kFull (1), kPeriodic (2), "
                            "kZero (3)",
                            static_cast<int>(options.snapshots)));
  }
  return {};
}

Status check_options(const EngineOptions& options) {
  if (Status ok = check_choices(options); !ok) return ok;
  if (options.step_tokens == 0 || options.step_tokens > kSequenceTokensMax) {
    return fail(ErrorCode::Invalid, fmt::format("step_tokens is {}; allowed: 1 to {}",
                                                options.step_tokens, kSequenceTokensMax));
  }
  if (options.max_sequences == 0) {
    return fail(ErrorCode::Invalid, "max_sequences is 0; allowed: 1 and more");
  }
  if (options.steps_max == 0 || options.steps_max > kStepsMax) {
    return fail(ErrorCode::Invalid,
                fmt::format("steps_max is {}; allowed: 1 to {}", options.steps_max, kStepsMax));
  }
  if (options.draft_tokens_max > kDraftTokensMax) {
    return fail(ErrorCode::Invalid, fmt::format("draft_tokens_max is {}; allowed: up to {}",
                                                options.draft_tokens_max, kDraftTokensMax));
  }
  if (options.digest_bits_for_test > 256) {
    return fail(ErrorCode::Invalid, fmt::format("digest_bits_for_test is {}; allowed: 0 to 256",
                                                options.digest_bits_for_test));
  }
  return {};
}

Status choose_snapshots(EngineCore* core) {
  const EngineOptions& options = core->options;
  const std::uint64_t boundary = core->layout.snapshot->block_tokens;
  core->schedule = {.policy = options.snapshots,
                    .boundary_tokens = boundary,
                    .period_tokens = options.snapshot_period_tokens};
  if (options.snapshots == SnapshotPolicy::kPeriodic &&
      (options.snapshot_period_tokens == 0 || options.snapshot_period_tokens % boundary != 0)) {
    return fail(ErrorCode::Invalid,
                fmt::format("snapshot_period_tokens is {}; allowed: multiples of {}, where hits of "
                            "this model end",
                            options.snapshot_period_tokens, boundary));
  }
  if (options.snapshots == SnapshotPolicy::kZero &&
      core->layout.arena.unit(ArenaClass::kState).bytes > 0) {
    return fail(ErrorCode::Unsupported,
                "snapshots is zero, but this model keeps recurrent state, which only all tokens "
                "make again; allowed: boundaries, full, periodic");
  }
  return {};
}

SnapshotRule rule_of(const EngineCore& core) {
  if (!core.layout.snapshot) return SnapshotRule::kNone;
  switch (core.options.snapshots) {
    case SnapshotPolicy::kPeriodic:
      return SnapshotRule::kNewest;
    case SnapshotPolicy::kZero:
      return SnapshotRule::kNone;
    default:
      return SnapshotRule::kEndHit;
  }
}

Result<PoolPlan> divide(const EngineCore& core) {
  const EngineOptions& options = core.options;
  const bool keeps = core.layout.snapshot && options.snapshots != SnapshotPolicy::kZero;
  const std::uint64_t asked = options.snapshot_bytes.value_or(0);
  if (asked > 0 && !keeps) {
    return fail(ErrorCode::Invalid,
                fmt::format("snapshot_bytes is {}; allowed: 0, for {}", asked,
                            core.layout.snapshot ? "the policy zero leaves none"
                                                 : "this model has no state to be kept in them"));
  }
  if (asked > options.pool_bytes) {
    return fail(ErrorCode::Invalid, fmt::format("snapshot_bytes is {}; allowed: up to pool_bytes, "
                                                "which is {}",
                                                asked, options.pool_bytes));
  }
  const std::uint64_t usual = keeps ? default_snapshot_bytes(core.layout, options.pool_bytes) : 0;
  return plan_pool(core.layout, options.pool_bytes,
                   {.sequence_tokens = options.sequence_tokens,
                    .max_positions = core.geometry.model().max_positions,
                    .max_sequences = options.max_sequences,
                    .step_tokens = options.step_tokens,
                    .steps_max = options.steps_max,
                    .draft_tokens_max = options.draft_tokens_max,
                    .snapshot_bytes = options.snapshot_bytes.value_or(usual)});
}

Status open_arena(EngineCore* core) {
  if (core->layout.arena.empty()) return {};
  auto layout = core->layout.arena.with_drafts(core->options.draft_tokens_max);
  if (!layout) return propagate(layout);
  auto arena = StateArena::open({.layout = std::move(*layout),
                                 .slots = core->plan.arena_slots,
                                 .steps = core->options.steps_max,
                                 .step_tokens = core->options.step_tokens,
                                 .metadata_only = core->options.metadata_only});
  if (!arena) return propagate(arena);
  core->arena = std::move(*arena);
  return {};
}

}  // namespace

std::optional<EngineCore::PageRef> EngineCore::find_page(std::uint32_t layer,
                                                         StreamRole role) const {
  if (layer >= geometry.layers().size()) return std::nullopt;
  layer = geometry.layers()[layer].shares_with.value_or(layer);
  for (std::uint32_t g = 0; g < layout.groups.size(); ++g) {
    if (const StreamPage* page = layout.groups[g].find(layer, role)) return PageRef{g, page};
  }
  return std::nullopt;
}

namespace {

// A group's blocks are numbered in 32 bits.
Status check_block_counts(const EngineCore& core) {
  for (std::size_t g = 0; g < core.plan.groups.size(); ++g) {
    if (core.plan.groups[g].blocks < UINT32_MAX) continue;
    return fail(ErrorCode::Invalid,
                fmt::format("pool_bytes is {}, which is {} blocks of group '{}'; allowed: up to {} "
                            "blocks",
                            core.options.pool_bytes, core.plan.groups[g].blocks,
                            core.layout.groups[g].group_name, UINT32_MAX - 1));
  }
  return {};
}

}  // namespace

Result<Engine> Engine::open(const ModelGeometry& geometry, const EngineOptions& options) {
  try {
    return open_unguarded(geometry, options);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::Io,
                fmt::format("memory to account for a pool of {} was refused; a smaller pool_bytes "
                            "would fit",
                            format_bytes(options.pool_bytes)));
  }
}

Result<Engine> Engine::open_unguarded(const ModelGeometry& geometry, const EngineOptions& options) {
  if (Status ok = check_options(options); !ok) return propagate(ok);
  auto core = std::make_shared<EngineCore>(geometry);
  core->options = options;
  auto layout = ModelLayout::native(geometry);
  if (!layout) return propagate(layout);
  core->layout = std::move(*layout);
  if (Status ok = describe_layers(core.get()); !ok) return propagate(ok);
  if (core->layout.snapshot) {
    if (Status ok = choose_snapshots(core.get()); !ok) return propagate(ok);
  }
  auto plan = divide(*core);
  if (!plan) return propagate(plan);
  core->plan = std::move(*plan);
  if (Status ok = check_block_counts(*core); !ok) return propagate(ok);
  if (Status ok = open_arena(core.get()); !ok) return propagate(ok);
  core->quotas = std::make_unique<QuotaBook>(options.tenant_quota_bytes, options.tenant_quotas);
  auto blocks =
      BlockManager::open(core->layout, core->plan,
                         {.metadata_only = options.metadata_only,
                          .share_content = options.share_content,
                          .share_content_across_tenants = options.share_content_across_tenants,
                          .seal = options.seal,
                          .snapshots = rule_of(*core),
                          .event_sink = options.event_sink,
                          .why_across_tenants = options.why_across_tenants,
                          .digest_bits_for_test = options.digest_bits_for_test});
  if (!blocks) return propagate(blocks);
  core->blocks = std::move(*blocks);
  return Engine(std::move(core));
}

}  // namespace emblema
