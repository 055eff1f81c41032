// What a BlockManager keeps, and the small moves that keep it consistent. Internal to this room;
// all of it is used under the manager's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emblema/block/block_key.h"
#include "emblema/block/block_manager.h"
#include "emblema/block/content_index.h"
#include "emblema/block/dead_record.h"
#include "emblema/block/lock_holds.h"
#include "emblema/pool/block_pool.h"

namespace emblema::block_internal {

enum class BlockClass : std::uint8_t { kFree, kOpen, kReferenced, kIdle };

struct BlockMeta {
  bool is_open = false;
  std::uint32_t refs = 0;                    // OpenBlock and SealedBlock objects
  std::uint32_t entries = 0;                 // entries that hold it
  EntryId first_entry = kNoEntry;            // their list, through Entry::next_of_block
  std::uint64_t filled_tokens = 0;           // once sealed
  std::uint32_t domain = 0;                  // tenant of its last holder, 0 = never used
  std::optional<ContentIndex::Key> content;  // listed under this key
  std::optional<BlockId> forward;            // the equal block that replaced it in the entries
  bool is_forward_target = false;            // others may still be led here: never written again
  bool is_pending = false;                   // in State::pending, under this life's id

  // Whether writing needs a copy, with one holder asking.
  bool is_shared() const { return refs > 1 || entries > 0 || is_forward_target; }
  BlockClass classify() const {
    if (refs > 0) return is_open ? BlockClass::kOpen : BlockClass::kReferenced;
    return entries > 0 ? BlockClass::kIdle : BlockClass::kFree;
  }
};

// One group: its memory, the ways to find it, and the rules of who may go.
class GroupState {
 public:
  GroupState(BlockLayout group_layout, BlockPool group_pool, std::unique_ptr<EvictionPolicy> order);

  bool growing() const { return layout.retention == Retention::kGrowing; }
  std::uint64_t count(BlockClass which) const { return counts_[static_cast<std::size_t>(which)]; }
  std::uint64_t holds() const { return holds_; }

  // An open block with one hold, and the tenant that had it before. REQUIRES: a free block.
  struct Taken {
    BlockId id;
    std::uint32_t last_domain = 0;
  };
  Taken take_open(std::uint32_t domain);
  void set_sealed(BlockId id, std::uint64_t filled_tokens);
  void set_open(BlockId id);  // REQUIRES: one hold, no entry
  void add_ref(std::uint32_t block);
  void drop_ref(std::uint32_t block, std::uint64_t tick);

  void attach(EntryId entry, std::uint32_t block);      // the entry now holds the block
  void detach(EntryId entry);                           // and no more; may free the block
  void redirect(std::uint32_t from, std::uint32_t to);  // all entries of one block to an equal one

  void add_tip(EntryId entry);
  void drop_tip(EntryId entry);
  void pin_path(EntryId end);
  void unpin_path(EntryId end);
  void touch(EntryId entry, std::uint64_t tick);

  // Victims in order, whose going frees `blocks` blocks; nothing if that cannot be had.
  std::optional<std::vector<EntryId>> plan_eviction(std::uint64_t blocks) const;
  std::vector<EntryId> all_evictable() const;
  void evict(EntryId entry);

  // Lists or unlists an entry with the policy, by what is true of it now.
  void refresh_candidate(EntryId entry);
  bool may_go(const Entry& entry) const;
  // Erases bare nodes that nothing needs, from `entry` towards the root.
  void prune(EntryId entry);

  BlockLayout layout;
  BlockPool pool;
  std::vector<BlockMeta> meta;
  PrefixIndex index;
  ContentIndex content;
  std::unique_ptr<EvictionPolicy> policy;

 private:
  friend Status check_group(const GroupState& group, std::uint64_t seed, unsigned digest_bits);
  template <class Change>
  void change(std::uint32_t block, Change&& apply);
  void free_if_unheld(std::uint32_t block);
  void refresh_candidates_of(std::uint32_t block);

  std::uint64_t counts_[4] = {0, 0, 0, 0};
  std::uint64_t holds_ = 0;
};

// Recomputes one group from scratch (check_invariants).
Status check_group(const GroupState& group, std::uint64_t seed, unsigned digest_bits);

struct ChainLink;

}  // namespace emblema::block_internal

namespace emblema {

struct BlockManager::State {
  BlockManagerOptions options;
  BlockKeys keys;
  mutable ObservedMutex mutex;  // guards everything below but `epoch`
  std::vector<block_internal::GroupState> groups;
  std::optional<std::uint32_t> snapshot_group;
  std::map<std::string, std::uint32_t, std::less<>> domains;  // tenant -> number, from 1
  std::vector<const std::string*> domain_names;               // of domain i + 1, in `domains`
  BlockStats stats;
  DeadRecord dead;
  std::vector<CacheEvent> events_waiting;  // for deliver_events()
  std::uint64_t events_emitted = 0;
  std::uint64_t key_collisions_told = 0;
  std::uint64_t tick = 0;
  std::deque<std::pair<std::uint32_t, BlockId>> pending;  // deferred content sharing
  std::atomic<std::uint64_t> epoch{0};

  std::uint32_t domain_of(std::string_view tenant);
  void queue_content(std::uint32_t group, BlockId id);  // for seal_pending()
  std::uint64_t boundary_tokens() const;  // where a hit may end: the lcm of the block tokens
  // Evicts so that counts[group] blocks of each group are free. OutOfBlocks: nothing was changed.
  [[nodiscard]] Status make_room(std::span<const std::uint64_t> counts);
  // Whether make_room could. Changes nothing.
  [[nodiscard]] Status has_room(std::span<const std::uint64_t> counts);
  // What make_room would evict, for each group.
  Result<std::vector<std::vector<EntryId>>> plan_room(std::span<const std::uint64_t> counts);

  // ---- what happened (manager_events.cc) -------------------------------------------------------
  // Numbers it and keeps it for deliver_events(). REQUIRES: a sink.
  void emit(CacheEvent event);
  void note_content_collision(std::uint32_t group);
  void note_stored(std::uint32_t group, EntryId entry, std::uint32_t block);
  // `asked`: tokens of the whole boundaries that were looked for. A segment is hit whole or not.
  void note_found(HitKind kind, std::string_view tenant, std::uint64_t asked,
                  const ChainMatch& match);
  // The one way in which entries are evicted: counted, remembered and told.
  void evict(std::uint32_t group, EntryId entry, EvictionReason reason);
  MissReason miss_reason(const std::vector<std::vector<block_internal::ChainLink>>& chains,
                         const std::vector<std::vector<EntryId>>& nodes,
                         std::uint64_t boundary) const;
  std::string tenant_of(std::uint32_t group, std::uint32_t block) const;
  // Of a root or a link; "" elsewhere in a chain.
  std::string_view tenant_of_start(std::uint32_t group, EntryId start) const;
};

}  // namespace emblema
