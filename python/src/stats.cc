// What an engine counts: plain values with the names of the C++ structs.
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "emblema/session/engine.h"
#include "python/src/core.h"

namespace emblema::python {
namespace {

// A class whose attributes are read only and printed by repr() in the order given.
template <class T>
class Record {
 public:
  Record(nb::module_& module, const char* name, const char* doc)
      : type_(module, name, doc), name_(name) {}

  template <class Field>
  Record& field(const char* name, Field T::*member, const char* doc) {
    type_.def_ro(name, member, doc);
    names_.emplace_back(name);
    return *this;
  }

  void done() {
    type_.def("__repr__", [name = name_, names = names_](nb::handle self) {
      std::string text = name + "(";
      for (std::size_t i = 0; i < names.size(); ++i) {
        text += i == 0 ? "" : ", ";
        text += names[i] + "=";
        text += nb::cast<std::string>(nb::repr(self.attr(names[i].c_str())));
      }
      return text + ")";
    });
  }

 private:
  nb::class_<T> type_;
  std::string name_;
  std::vector<std::string> names_;
};

void bind_block_stats(nb::module_& module) {
  Record<BlockStats>(module, "BlockStats", "Counters since the engine was opened.")
      .field("prefix_hits", &BlockStats::prefix_hits, "Look-ups that found something.")
      .field("prefix_hit_tokens", &BlockStats::prefix_hit_tokens, "Tokens found by start().")
      .field("segment_hits", &BlockStats::segment_hits, "Segments found whole.")
      .field("segment_hit_tokens", &BlockStats::segment_hit_tokens, "Their tokens.")
      .field("missed_tokens_never_stored", &BlockStats::missed_tokens_never_stored,
             "Tokens of whole blocks that were looked for and never stored.")
      .field("missed_tokens_evicted", &BlockStats::missed_tokens_evicted,
             "The same, of blocks that were evicted.")
      .field("missed_tokens_unknown", &BlockStats::missed_tokens_unknown,
             "Never stored, or evicted before the record begins.")
      .field("stored_blocks", &BlockStats::stored_blocks, "Blocks that became findable.")
      .field("content_shared_blocks", &BlockStats::content_shared_blocks,
             "Blocks merged after all their bytes compared equal.")
      .field("content_collisions", &BlockStats::content_collisions,
             "Equal digest, other bytes: a security signal.")
      .field("key_collisions", &BlockStats::key_collisions, "Equal key, other content.")
      .field("duplicate_unequal", &BlockStats::duplicate_unequal,
             "Equal key and content, other bytes: kept private.")
      .field("evicted_entries", &BlockStats::evicted_entries, "Entries that went.")
      .field("evicted_for_memory", &BlockStats::evicted_for_memory, "Because memory was wanted.")
      .field("evicted_when_asked", &BlockStats::evicted_when_asked, "By evict_idle().")
      .field("evicted_superseded", &BlockStats::evicted_superseded,
             "Snapshots, by the next of their turn.")
      .field("evicted_blocks", &BlockStats::evicted_blocks, "Blocks that came free so.")
      .field("refused_for_blocks", &BlockStats::refused_for_blocks, "OutOfBlocksError.")
      .field("copied_blocks", &BlockStats::copied_blocks, "Copies on write.")
      .field("zeroed_blocks", &BlockStats::zeroed_blocks,
             "Blocks cleared because their tenant changed.")
      .field("dead_keys", &BlockStats::dead_keys, "Evictions that why() can name now.")
      .field("dead_keys_forgotten", &BlockStats::dead_keys_forgotten, "Evictions that it cannot.")
      .done();
}

void bind_block_counts(nb::module_& module) {
  Record<BlockCounts>(module, "BlockCounts",
                      "Blocks at this moment: free + open + referenced + idle = capacity.")
      .field("capacity", &BlockCounts::capacity, "All blocks.")
      .field("free", &BlockCounts::free, "Nobody has them.")
      .field("open", &BlockCounts::open, "Being written.")
      .field("referenced", &BlockCounts::referenced, "Sealed, held by sequences or segments.")
      .field("idle", &BlockCounts::idle, "Sealed, held by none, still findable.")
      .field("holds", &BlockCounts::holds, "Blocks as their holders see them.")
      .field("entries", &BlockCounts::entries, "Ways to find a block.")
      .field("logical_bytes", &BlockCounts::logical_bytes, "holds x block bytes.")
      .field("physical_bytes", &BlockCounts::physical_bytes, "(open + referenced) x block bytes.")
      .done();
}

void bind_pool_plan(nb::module_& module) {
  Record<PoolPlan::Group>(module, "PoolGroup", "One group's share of a pool.")
      .field("blocks", &PoolPlan::Group::blocks, "Blocks.")
      .field("block_bytes", &PoolPlan::Group::block_bytes, "Bytes of each.")
      .field("block_tokens", &PoolPlan::Group::block_tokens, "Tokens of each.")
      .done();
  Record<PoolPlan>(module, "PoolPlan", "How an engine divided its pool.")
      .field("groups", &PoolPlan::groups, "As Geometry.groups.")
      .field("arena_slots", &PoolPlan::arena_slots, "0: the model has no arena streams.")
      .field("arena_bytes", &PoolPlan::arena_bytes, "Slots and step buffers.")
      .field("snapshot_bytes", &PoolPlan::snapshot_bytes, "Memory of snapshots.")
      .field("snapshots", &PoolPlan::snapshots, "Whole ones in it.")
      .field("used_bytes", &PoolPlan::used_bytes, "Sum of the above, at most pool_bytes.")
      .field("sequence_tokens", &PoolPlan::sequence_tokens, "The length it was made for.")
      .field("tokens", &PoolPlan::tokens, "That fit as one long sequence.")
      .field("sequences", &PoolPlan::sequences, "Of `sequence_tokens` that fit at once.")
      .done();
}

}  // namespace

void bind_stats(nb::module_& module) {
  bind_block_stats(module);
  bind_block_counts(module);
  bind_pool_plan(module);
  Record<StateArena::Counts>(module, "ArenaCounts", "What is used of the arena.")
      .field("slots", &StateArena::Counts::slots, "Sequences that fit.")
      .field("slots_used", &StateArena::Counts::slots_used, "Sequences that are there.")
      .field("steps_used", &StateArena::Counts::steps_used, "Step buffers in use.")
      .field("units_used", &StateArena::Counts::units_used, "Units, by class.")
      .field("zeroed_units", &StateArena::Counts::zeroed_units, "Cleared for another tenant.")
      .done();
  Record<EngineStats>(module, "EngineStats", "What Engine.stats() gives.")
      .field("blocks", &EngineStats::blocks, "BlockStats.")
      .field("totals", &EngineStats::totals, "BlockCounts, summed over groups.")
      .field("refused_for_quota", &EngineStats::refused_for_quota, "Requests of all tenants.")
      .field("region_bytes", &EngineStats::region_bytes, "Of all blocks.")
      .field("arena", &EngineStats::arena, "ArenaCounts, zero without an arena.")
      .field("snapshots_taken", &EngineStats::snapshots_taken, "Snapshots left.")
      .field("snapshots_missed", &EngineStats::snapshots_missed,
             "Steps ran past a boundary where one was wanted.")
      .field("snapshots_refused", &EngineStats::snapshots_refused, "No memory for one.")
      .field("huge_pages", &EngineStats::huge_pages,
             "Every group's region was advised for 2 MiB pages.")
      .done();
  Record<TenantUsage>(module, "TenantUsage", "What a tenant holds and may hold.")
      .field("held_bytes", &TenantUsage::held_bytes, "Logical, by its sequences now.")
      .field("quota_bytes", &TenantUsage::quota_bytes, "0: no limit.")
      .field("refusals", &TenantUsage::refusals, "Requests refused for the quota.")
      .done();
}

}  // namespace emblema::python
