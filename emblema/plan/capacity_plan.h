// How much a model remembers, and how much of it fits: arithmetic before any allocation.
//
// Sizes come from ModelGeometry, blocks from ModelLayout, and the division of a pool from
// plan_pool, which the engine calls too: the answer is the allocator's.
//
//   payload    token-exact: windows capped, strides floored, no rounding to blocks, no padding;
//              attention caches only
//   allocated  what the pool takes: whole blocks, page padding, the arena slot
//
// Plain values; any thread may read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/geometry/encoding.h"
#include "emblema/geometry/stream.h"
#include "emblema/layout/pool_plan.h"
#include "emblema/layout/profile.h"
#include "emblema/model/model_config.h"

namespace emblema {

// What is asked.
struct Deployment {
  KvDtype kv_dtype = KvDtype::kBf16;
  std::optional<IndexerDtype> indexer_dtype{};  // none: default_indexer_dtype
  bool speculative_mtp = false;                 // draft layers cached too
  std::uint64_t block_tokens = 0;               // 0: derived from the geometry
  std::uint32_t layers = 0;                     // 0: all; else the first so many
  StateDtype state_dtype = StateDtype::kFp32;   // of recurrent state
  std::uint64_t encoder_tokens = 0;  // rows of cross-attention; 0: what the model fixes, else none
  Profile profile = Profile::kNative;  // layout of a block; must fit the data types

  std::vector<std::uint64_t> at_tokens{};  // lengths to give bytes for, 1 to 2^40
  std::uint64_t sequences = 0;             // 0: not asked; else how many, and how many arena slots

  std::optional<std::uint64_t> pool_bytes{};  // none: no blocks, tokens or concurrency
  std::uint64_t context_tokens = 0;           // length that concurrency is for; 0: the longest that
                                              // fits alone, at most the model's max positions
  std::uint64_t step_tokens = 2048;           // most tokens of one sequence written in one step
  std::optional<std::uint64_t>
      snapshot_bytes{};  // none: 1/8 of the pool with arena streams, else 0
};

struct LengthBytes {
  std::uint64_t tokens = 0;
  std::uint64_t payload_bytes = 0;    // one sequence
  std::uint64_t growing_bytes = 0;    // of the payload, what is not a window
  std::uint64_t allocated_bytes = 0;  // one sequence
  // All `Deployment::sequences` together; present where that was given.
  std::optional<std::uint64_t> payload_bytes_total;
  std::optional<std::uint64_t> allocated_bytes_total;
};

struct RankCapacity {
  std::string name;  // "tp0"
  Rational growing_bytes_per_token;
  std::uint64_t fixed_bytes_per_sequence = 0;  // the cap that windows and chunks reach, and
                                               // rows of an encoder
  std::uint64_t state_bytes_per_sequence = 0;  // compressor and recurrent state
  std::vector<LengthBytes> at;                 // as Deployment::at_tokens
  // Present with pool_bytes.
  std::optional<std::uint64_t> pool_bytes;
  std::optional<PoolPlan> pool;                 // blocks per group, arena, used bytes
  std::optional<PoolPlanOptions> pool_options;  // what an engine must be given to divide like this
};

// Pages of one size in a block.
struct PageCapacity {
  std::uint64_t page_bytes = 0;
  std::uint64_t pages = 0;
};

struct GroupCapacity {
  std::string name;
  Retention retention = Retention::kGrowing;
  std::uint64_t window_tokens = 0;
  std::uint64_t block_tokens = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t pages = 0;
  std::vector<PageCapacity> page_sizes;  // of these, in order of first appearance
};

struct StreamCapacity {
  StreamRole role = StreamRole::kKv;
  std::uint64_t entry_bytes = 0;
  std::uint64_t stride_tokens = 1;
  Retention retention = Retention::kGrowing;
  std::uint64_t retention_tokens = 0;
  Sharding sharding = Sharding::kReplicated;
  Placement placement = Placement::kPaged;
};

struct LayerCapacity {
  std::uint32_t index = 0;
  std::string kind;  // LayerGeometry::kind
  bool is_draft = false;
  Rational growing_bytes_per_token;
  std::optional<std::uint64_t> window_tokens;  // of a window or a chunk; none: sees all before it
  std::optional<std::uint64_t> shares_with;    // the layer whose rows it reads; then no streams
  std::vector<StreamCapacity> streams;
};

struct CapacityPlan {
  std::string model;
  std::string attention;  // "61 x MLA"
  KvDtype kv_dtype = KvDtype::kBf16;
  std::optional<IndexerDtype> indexer_dtype;  // present where a layer caches index keys
  std::string profile;
  std::uint64_t block_tokens = 0;  // of the first group; 0 where nothing is paged
  std::vector<GroupCapacity> groups;
  std::uint64_t arena_slot_bytes = 0;  // of each sequence, beside its blocks; 0: no arena streams
  std::vector<RankCapacity> ranks;     // ranks[0] bounds the answer
  std::vector<LayerCapacity> layers;
  std::vector<std::string> notes;  // what was assumed: the model's notes and the plan's own
};

// Invalid: a length or option out of range, a sum past 64 bits (never a wrap). Unsupported: a data
// type without meaning for this attention, a profile that does not fit it. OutOfBlocks: a pool
// below one block per group (and one slot); names the bytes. A pool that holds fewer sequences than
// asked is an answer, not an error: PoolPlan::sequences says how many.
Result<CapacityPlan> plan_capacity(const ModelConfig& model, const Deployment& deployment);

}  // namespace emblema
