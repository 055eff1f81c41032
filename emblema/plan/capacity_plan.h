// How much a model remembers, and how much of it fits: arithmetic before any allocation.
//
// Sizes come from ModelGeometry, blocks from ModelLayout, and the division of a pool from
// plan_pool, which the engine calls too: the answer is the allocator's.
//
//   payload    token-exact: windows capped, strides floored, no rounding to blocks, no padding;
//              attention caches only
//   allocated  what the pool takes: whole blocks, page padding, the arena slot
//   rank       one GPU's part. GPUs that hold equally much are one entry
//
// Plain values; any thread may read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emblema/contract/rational.h"
#include "emblema/contract/result.h"
#include "emblema/geometry/model_geometry.h"
#include "emblema/layout/pool_plan.h"
#include "emblema/model/model_config.h"
#include "emblema/plan/crossover.h"
#include "emblema/plan/deployment.h"
#include "emblema/plan/roofline.h"

namespace emblema {

struct LengthBytes {
  std::uint64_t tokens = 0;           // of the sequence, wherever its tokens lie
  std::uint64_t payload_bytes = 0;    // one sequence
  std::uint64_t growing_bytes = 0;    // of the payload, what is not a window
  std::uint64_t allocated_bytes = 0;  // one sequence
  // All `Deployment::sequences` together; present where that was given.
  std::optional<std::uint64_t> payload_bytes_total;
  std::optional<std::uint64_t> allocated_bytes_total;
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

struct RankCapacity {
  std::string name;  // "tp0", "tp0..7", "pp1 tp0..7"
  Stage stage;
  std::uint32_t ranks = 1;  // GPUs of one copy of the model that hold so much each
  // Of a token that the rank holds: of every token, or of one in dcp.
  Rational growing_bytes_per_token;
  std::uint64_t fixed_bytes_per_sequence = 0;  // the cap that windows and chunks reach, and
                                               // rows of an encoder
  std::uint64_t state_bytes_per_sequence = 0;  // compressor and recurrent state
  std::vector<LengthBytes> at;                 // as Deployment::at_tokens
  std::vector<GroupCapacity> groups;
  std::uint64_t arena_slot_bytes = 0;  // of each sequence, beside its blocks; 0: no arena streams

  std::optional<std::uint64_t> weight_bytes;  // present where known or estimated
  // Present with a pool, given or left by weights.
  std::optional<std::uint64_t> pool_bytes;
  std::optional<PoolPlan> pool;                 // blocks per group, arena, used bytes; its tokens
                                                // are rows of this rank
  std::optional<PoolPlanOptions> pool_options;  // what an engine must be given to divide like this
  // Of one sequence as long as fits, or of the sequences that fit at once if those are more (every
  // layer has a window); on all dcp ranks together.
  std::uint64_t tokens = 0;
  std::uint64_t concurrency = 0;  // sequences of the context's length at once
  std::string capacity_bound_by;  // "blocks of group growing", "arena slots"

  AttentionStep step;                     // of one sequence, at CapacityPlan::step_context_tokens
  Rational flop_per_byte;                 // of that step; 0 where nothing is read
  std::optional<RooflinePoint> roofline;  // present with hardware whose speeds are known
};

struct StreamCapacity {
  StreamRole role = StreamRole::kKv;
  std::uint64_t entry_bytes = 0;
  std::uint64_t stride_tokens = 1;
  Retention retention = Retention::kGrowing;
  std::uint64_t retention_tokens = 0;
  Sharding sharding = Sharding::kReplicated;
  Placement placement = Placement::kPaged;
  std::vector<EntryRegion> regions;  // of an entry
};

// Figures of one rank: heads divided, where they divide.
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
  std::uint64_t block_tokens = 0;     // of the first group; 0 where nothing is paged
  std::vector<RankCapacity> ranks;    // one for each stage; ranks[0] bounds the answer
  std::vector<LayerCapacity> layers;  // of all stages
  std::vector<std::string> notes;     // what was assumed: the model's notes and the plan's own

  std::uint64_t context_tokens = 0;  // that concurrency is for; 0 without a pool
  std::uint64_t copies = 1;          // of the model, on all GPUs
  // Sequences at once on all GPUs: ranks[0]'s, times the groups of dp_attention and the copies.
  // Present with a pool.
  std::optional<std::uint64_t> concurrency_total;

  std::uint64_t step_context_tokens = 0;  // the context asked; else the longest length asked

  std::optional<std::uint64_t> weight_bytes;  // of one copy of the model
  bool are_weights_estimated = false;
  std::string weights_formula;
  // Of W_K and W_V, where keys and values have heads and the config says how wide its layers are.
  std::optional<KeyValueWeights> key_value_weights;
};

// Invalid: a length or option out of range, heads or layers that do not divide, a sum past 64 bits
// (never a wrap), weights that leave no pool. Unsupported: a data type without meaning for this
// attention, a profile that does not fit it, tokens that cannot be dealt out to ranks. OutOfBlocks:
// a pool below one block per group (and one slot); names the bytes. A pool that holds fewer
// sequences than asked is an answer, not an error: PoolPlan::sequences says how many.
Result<CapacityPlan> plan_capacity(const ModelConfig& model, const Deployment& deployment);

// The geometry of one stage's rank, as `plan_capacity` sizes it: what an engine on that rank is
// opened with. Errors as there.
Result<ModelGeometry> rank_geometry(const ModelConfig& model, const Deployment& deployment,
                                    const Stage& stage);

}  // namespace emblema
