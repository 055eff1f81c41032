// Engines, and what starts in them: sequences and segments.
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "emblema/c/c_call.h"
#include "emblema/c/c_handles.h"
#include "emblema/layout/pool_plan.h"

namespace emblema::c_interface {
namespace {

Result<EngineOptions> engine_options_of(const emblema_engine_options& given) {
  EngineOptions options;
  options.pool_bytes = given.pool_bytes;
  options.identity.weights_id = digest_of(given.weights_id);
  options.sequence_tokens = given.sequence_tokens;
  if (given.max_sequences > 0) options.max_sequences = given.max_sequences;
  if (given.step_tokens > 0) options.step_tokens = given.step_tokens;
  if (given.seal > EMBLEMA_SEAL_DEFERRED) {
    return fail(ErrorCode::Invalid,
                fmt::format("seal is {}; allowed: 0 (inline), 1 (deferred)", given.seal));
  }
  options.seal = given.seal == EMBLEMA_SEAL_DEFERRED ? SealMode::kDeferred : SealMode::kInline;
  const auto no_sharing = flag_of("no_content_sharing", given.no_content_sharing);
  if (!no_sharing) return propagate(no_sharing);
  options.share_content = !*no_sharing;
  const auto across = flag_of("share_content_across_tenants", given.share_content_across_tenants);
  if (!across) return propagate(across);
  options.share_content_across_tenants = *across;
  const auto metadata_only = flag_of("metadata_only", given.metadata_only);
  if (!metadata_only) return propagate(metadata_only);
  options.metadata_only = *metadata_only;
  if (Status ok = check_reserved("reserved of emblema_engine_options", given.reserved); !ok) {
    return propagate(ok);
  }
  return options;
}

Status open_engine(const emblema_model& model, const emblema_engine_options* given,
                   emblema_engine** out) {
  const auto known = read_struct("emblema_engine_options", given);
  if (!known) return propagate(known);
  const auto options = engine_options_of(*known);
  if (!options) return propagate(options);
  // Rows there have no role in this header, so that nobody could write them: a hit would be on
  // nothing.
  if (model.geometry.has_arena()) {
    return fail(
        ErrorCode::Unsupported,
        fmt::format("model {} ({}) keeps state outside blocks, which the C interface has no "
                    "calls for; it can be planned, and run from C++",
                    model.geometry.model().name, model.geometry.attention_in_words()));
  }
  auto engine = Engine::open(model.geometry, *options);
  if (!engine) return propagate(engine);
  *out = std::make_unique<emblema_engine>(emblema_engine{std::move(*engine)}).release();
  return {};
}

Result<std::vector<ExtraId>> extras_of(const emblema_request& given) {
  if (given.extra_count > kSequenceTokensMax || (given.extra == nullptr && given.extra_count > 0)) {
    return fail(ErrorCode::Invalid,
                fmt::format("extra is {} with extra_count {}; allowed: up to {} at one address",
                            given.extra == nullptr ? "null" : "an address", given.extra_count,
                            kSequenceTokensMax));
  }
  std::vector<ExtraId> extras;
  extras.reserve(given.extra_count);
  for (std::uint64_t i = 0; i < given.extra_count; ++i) {
    extras.push_back({given.extra[i].offset, digest_of(given.extra[i].digest)});
  }
  return extras;
}

Result<StartRequest> request_of(const emblema_request* given) {
  const auto known = read_struct("emblema_request", given);
  if (!known) return propagate(known);
  if (Status ok = check_reserved("reserved of emblema_request", known->reserved); !ok) {
    return propagate(ok);
  }
  StartRequest request;
  const auto tokens = tokens_of("tokens", known->tokens, known->token_count);
  if (!tokens) return propagate(tokens);
  request.tokens = *tokens;
  const auto tenant = text_of("tenant", known->tenant, known->tenant_bytes);
  if (!tenant) return propagate(tenant);
  request.tenant = *tenant;
  const auto salt = text_of("salt", known->salt, known->salt_bytes);
  if (!salt) return propagate(salt);
  request.salt = *salt;
  request.adapter = digest_of(known->adapter);
  auto extras = extras_of(*known);
  if (!extras) return propagate(extras);
  request.extra = std::move(*extras);
  return request;
}

Status begin_segment(emblema_engine& engine, const emblema_request* given, emblema_segment** found,
                     emblema_sequence** builder) {
  const auto request = request_of(given);
  if (!request) return propagate(request);
  auto lookup = engine.engine.segment(*request);
  if (!lookup) return propagate(lookup);
  if (lookup->found) {
    *found =
        std::make_unique<emblema_segment>(emblema_segment{std::move(*lookup->found)}).release();
  } else {
    *builder =
        std::make_unique<emblema_sequence>(emblema_sequence{std::move(*lookup->builder)}).release();
  }
  return {};
}

emblema_stats stats_of(const Engine& engine) {
  const EngineStats now = engine.stats();
  emblema_stats stats{};
  stats.groups = static_cast<std::uint32_t>(engine.layout().groups.size());
  stats.prefix_hit_tokens = now.blocks.prefix_hit_tokens;
  stats.segment_hit_tokens = now.blocks.segment_hit_tokens;
  stats.content_shared_blocks = now.blocks.content_shared_blocks;
  stats.content_collisions = now.blocks.content_collisions;
  stats.duplicate_unequal = now.blocks.duplicate_unequal;
  stats.evicted_blocks = now.blocks.evicted_blocks;
  stats.copied_blocks = now.blocks.copied_blocks;
  stats.capacity_blocks = now.totals.capacity;
  stats.free_blocks = now.totals.free;
  stats.open_blocks = now.totals.open;
  stats.referenced_blocks = now.totals.referenced;
  stats.idle_blocks = now.totals.idle;
  stats.logical_bytes = now.totals.logical_bytes;
  stats.physical_bytes = now.totals.physical_bytes;
  return stats;
}

}  // namespace
}  // namespace emblema::c_interface

using namespace emblema;
using namespace emblema::c_interface;

emblema_status emblema_engine_open(const emblema_model* model,
                                   const emblema_engine_options* options, emblema_engine** out) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"out", out}}); !ok) return ok;
    *out = nullptr;
    if (Status ok = require({{"model", model}}); !ok) return ok;
    return open_engine(*model, options, out);
  });
}

void emblema_engine_close(emblema_engine* engine) {
  delete engine;
}

emblema_status emblema_engine_stats(const emblema_engine* engine, emblema_stats* stats) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"engine", engine}}); !ok) return ok;
    return write_struct("emblema_stats", stats_of(engine->engine), stats);
  });
}

emblema_status emblema_engine_seal_pending(emblema_engine* engine, uint64_t budget_blocks,
                                           uint64_t* handled) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"engine", engine}}); !ok) return ok;
    const std::uint64_t count = engine->engine.seal_pending(budget_blocks);
    if (handled != nullptr) *handled = count;
    return {};
  });
}

emblema_status emblema_engine_evict_idle(emblema_engine* engine, uint64_t* freed_blocks) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"engine", engine}}); !ok) return ok;
    const std::uint64_t count = engine->engine.evict_idle();
    if (freed_blocks != nullptr) *freed_blocks = count;
    return {};
  });
}

emblema_status emblema_sequence_start(emblema_engine* engine, const emblema_request* request,
                                      emblema_sequence** out) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"out", out}}); !ok) return ok;
    *out = nullptr;
    if (Status ok = require({{"engine", engine}}); !ok) return ok;
    const auto known = request_of(request);
    if (!known) return propagate(known);
    auto sequence = engine->engine.start(*known);
    if (!sequence) return propagate(sequence);
    *out = std::make_unique<emblema_sequence>(emblema_sequence{std::move(*sequence)}).release();
    return {};
  });
}

emblema_status emblema_segment_begin(emblema_engine* engine, const emblema_request* request,
                                     emblema_segment** found, emblema_sequence** builder) {
  return guarded([&]() -> Status {
    if (Status ok = require({{"found", found}, {"builder", builder}}); !ok) return ok;
    *found = nullptr;
    *builder = nullptr;
    if (Status ok = require({{"engine", engine}}); !ok) return ok;
    return begin_segment(*engine, request, found, builder);
  });
}
