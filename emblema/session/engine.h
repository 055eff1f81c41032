// The cache of one model on one rank: what an inference loop opens once.
//
//   auto model    = load_model_config("deepseek-v2-lite");
//   auto geometry = ModelGeometry::from(*model);
//   auto engine   = Engine::open(*geometry, {.pool_bytes = 4_GiB});
//   auto sequence = engine->start({.tokens = prompt, .tenant = "a"});
//
// Any thread may call any member. Sequences and segments keep what they need alive; the engine
// object itself may go first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/pool/state_arena.h"
#include "emblema/session/engine_options.h"
#include "emblema/session/quota.h"
#include "emblema/session/segment.h"
#include "emblema/session/sequence.h"

namespace emblema {

// Whose request it is and what it says. Everything here decides what may be found.
struct StartRequest {
  std::span<const TokenId> tokens = {};  // the prompt
  std::string_view tenant = {};
  std::string_view salt = {};
  Digest adapter = {};                // of the adapter's content; none = the base model
  std::vector<ExtraId> extra = {};    // what is not a token, at its offset in the prompt
  bool recompute_last_block = false;  // a hit ends one boundary earlier: draft models want the
                                      // hidden states of the last tokens before it
};

// Encodes a segment that was not stored (or not whole): run `sequence()` like any other, from
// sequence().hit_tokens() to the end of the span, then seal().
class SegmentBuilder {
 public:
  Sequence& sequence() { return sequence_; }

  // Ends the building; the segment can be found from now on.
  // Invalid: tokens missing, or rows still reserved; the builder stays as it was. Called again, it
  // gives another hold on the same segment.
  Result<Segment> seal();

 private:
  friend class Engine;
  SegmentBuilder(Sequence sequence, std::shared_ptr<const SegmentContent> content)
      : sequence_(std::move(sequence)), content_(std::move(content)) {}
  Sequence sequence_;
  std::shared_ptr<const SegmentContent> content_;
};

// Exactly one of the two is there.
struct SegmentLookup {
  std::optional<Segment> found;
  std::optional<SegmentBuilder> builder;
};

struct EngineStats {
  BlockStats blocks;                    // hits, sharing, collisions, evictions
  BlockCounts totals;                   // summed over groups
  std::uint64_t refused_for_quota = 0;  // requests of all tenants
  std::uint64_t region_bytes = 0;
  StateArena::Counts arena;  // zero without one
  std::uint64_t snapshots_taken = 0;
  std::uint64_t snapshots_missed = 0;   // steps ran past a boundary where one was wanted
  std::uint64_t snapshots_refused = 0;  // no memory for one could be had
  bool huge_pages = false;              // every group's region was advised for 2 MiB pages
};

class Engine {
 public:
  // Invalid: an option out of range. OutOfBlocks: the pool is too small (names the bytes needed).
  // Io: memory was refused. Unsupported: rows of an encoder, unless metadata_only; snapshot policy
  // zero of a model with recurrent state.
  static Result<Engine> open(const ModelGeometry& geometry, const EngineOptions& options);

  // A sequence that already holds the longest stored prefix of the prompt: at most all but one
  // token, and a boundary at which everything is there, state included (or Sequence::replay() says
  // what to run again). Invalid: extra ids outside the prompt or out of order. OutOfBlocks: no
  // arena slot is free (max_sequences), or the tenant's quota has no room for the blocks found;
  // nothing was changed.
  Result<Sequence> start(const StartRequest& request);

  // The stored segment of exactly these tokens for this identity, or a builder for it.
  // Invalid: no tokens; extra ids as in start(). Unsupported: models with state in the arena.
  Result<SegmentLookup> segment(const StartRequest& request);

  // Keeps the longest stored prefix of the request from being evicted while the Pin lives.
  Pin pin(const StartRequest& request);

  // What start() would find of the request, block by block, and why not the rest (block/why.h).
  // Changes nothing: no count, no order of eviction. For operators. Invalid: extra ids as in
  // start().
  Result<WhyReport> why(const StartRequest& request) const;

  // Deferred sealing: shares content of up to so many blocks; gives back how many it handled.
  std::uint64_t seal_pending(std::uint64_t budget_blocks);

  // Drops everything that no sequence, segment or pin holds. Gives back the blocks freed.
  std::uint64_t evict_idle();

  EngineStats stats() const;
  TenantUsage usage(std::string_view tenant) const;
  BlockCounts counts(std::uint32_t group) const;
  const ModelGeometry& geometry() const;
  const ModelLayout& layout() const;
  const PoolPlan& plan() const;
  Status check_invariants() const;

 private:
  explicit Engine(std::shared_ptr<EngineCore> core) : core_(std::move(core)) {}
  static Result<Engine> open_unguarded(const ModelGeometry& geometry,
                                       const EngineOptions& options);  // may throw bad_alloc
  CacheIdentity identity_of(const StartRequest& request) const;
  std::shared_ptr<EngineCore> core_;
};

}  // namespace emblema
