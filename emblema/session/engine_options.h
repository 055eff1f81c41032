// What an engine is opened with. Behaviour first, then what only changes speed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "emblema/block/block_manager.h"
#include "emblema/contract/ids.h"
#include "emblema/session/snapshot_schedule.h"

namespace emblema {

struct EngineIdentity {
  // A digest of the weights (of their index file, or of a revision): two fine-tunes of one base
  // have the same config. May stay empty in an engine that only lives in memory.
  Digest weights_id;
};

struct EngineOptions {
  std::uint64_t pool_bytes = 0;  // memory that kernels read; divided by plan_pool()
  EngineIdentity identity = {};

  std::uint64_t sequence_tokens = 0;  // length that the division is made for; 0: as plan_pool says
  std::uint64_t max_sequences = 16;   // arena slots; models without arena streams have none, and
                                      // then this limits nothing: blocks do
  std::uint64_t step_tokens = 2048;   // largest reserve; larger steps hold more window blocks
  std::uint64_t steps_max = 1;        // sequences with reserved tokens at once, with arena streams

  // Tokens that truncate() can take back exactly where windows or state would be lost otherwise.
  std::uint64_t draft_tokens_max = 0;

  // Models with state in the arena: where snapshots are left, and the memory for them. None given:
  // an eighth of the pool, where any are left.
  SnapshotPolicy snapshots = SnapshotPolicy::kBoundaries;
  std::uint64_t snapshot_period_tokens = 0;  // kPeriodic: a multiple of the block boundary
  std::optional<std::uint64_t> snapshot_bytes = std::nullopt;

  bool share_content = true;                  // equal bytes become one block, after memcmp
  bool share_content_across_tenants = false;  // saves memory, never prefill; hits stay apart
  SealMode seal = SealMode::kInline;  // kDeferred: commit returns sooner, call seal_pending()
  bool metadata_only = false;         // accounts for blocks, holds no bytes

  // Largest logical bytes of all sequences of one tenant together: blocks count once for each
  // sequence that holds them. 0: no limit. `tenant_quotas` names the exceptions.
  std::uint64_t tenant_quota_bytes = 0;
  std::map<std::string, std::uint64_t, std::less<>> tenant_quotas = {};

  EventSink event_sink = {};       // told what is stored, hit, missed, evicted (cache_event.h)
  bool why_across_tenants = true;  // false: why() never says that another tenant has it

  unsigned digest_bits_for_test = 256;  // tests only: fewer bits make every digest collide
};

}  // namespace emblema
