// The life of blocks and of the entries that find them, for all groups of one engine.
//
//    Free --take--> Open (one writer) --seal--> Sealed --no holder left--> Free
//
// A block's holders are the OpenBlock or SealedBlock objects of running sequences ("refs"), and the
// prefix entries that find it. Sealed with refs is *referenced*; without, *idle*: it stays until
// memory is wanted. Eviction removes entries, leaves first, and frees the blocks that nobody holds
// any more.
//
// Three ways to meet the same bytes, counted apart (BlockStats):
//   prefix hit     match(): identity, parent, token ids and extra ids are compared, always
//   segment hit    match_segment(): a span encoded alone from position 0, compared likewise
//   content share  publish(): blocks whose bytes are equal after memcmp become one
//
// Threads: every member may be called from any thread. One short lock guards metadata; no hashing,
// comparing, copying or zeroing happens inside it.
// Invariants (check_invariants recomputes them): free + open + referenced + idle = capacity; counts
// = recounts; free => no holder; content listed only for sealed bytes that still hash to it; in
// growing groups an entry's parent has its block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emblema/block/block_states.h"
#include "emblema/block/cache_event.h"
#include "emblema/block/cache_identity.h"
#include "emblema/block/eviction_policy.h"
#include "emblema/block/lock_holds.h"
#include "emblema/block/prefix_index.h"
#include "emblema/block/why.h"
#include "emblema/contract/result.h"
#include "emblema/layout/block_layout.h"
#include "emblema/layout/pool_plan.h"

namespace emblema {

namespace block_internal {
struct ChainLink;
}  // namespace block_internal

// kInline: publish() hashes and compares before it returns. kDeferred: the prefix entry exists at
// once, content sharing waits for seal_pending().
enum class SealMode : std::uint8_t { kInline, kDeferred };

// How snapshots of arena state (ModelLayout::snapshot) decide where a hit ends.
enum class SnapshotRule : std::uint8_t {
  kNone,    // there are none, or none is needed
  kEndHit,  // a hit ends where a snapshot is
  kNewest,  // a hit ends at any whole boundary, and names the newest snapshot up to there
};

struct BlockManagerOptions {
  bool metadata_only = false;  // no bytes: content sharing is off, equal keys count as equal bytes
  bool share_content = true;
  bool share_content_across_tenants = false;  // hits never are
  SealMode seal = SealMode::kInline;
  SnapshotRule snapshots = SnapshotRule::kNone;
  std::function<std::unique_ptr<EvictionPolicy>()> make_policy = make_lru_policy;
  std::uint64_t content_seed = 0;
  LockHolds* lock_holds = nullptr;  // told of every hold of the lock; outlives the manager
  EventSink event_sink = {};        // none: no event is made (cache_event.h says how it is called)
  // Whether why() says that another tenant has what was asked for; else that is "never stored".
  bool why_across_tenants = true;

  // Tests only: bits kept of every key and content digest, so that all of them collide.
  unsigned digest_bits_for_test = 256;
};

// Counters since open; they never go back.
struct BlockStats {
  std::uint64_t prefix_hits = 0;  // look-ups that found something
  std::uint64_t prefix_hit_tokens = 0;
  std::uint64_t segment_hits = 0;  // found whole
  std::uint64_t segment_hit_tokens = 0;
  // Tokens of whole blocks that were looked for and not found, by what the record of the dead says
  // of the first that was lacking.
  std::uint64_t missed_tokens_never_stored = 0;
  std::uint64_t missed_tokens_evicted = 0;
  std::uint64_t missed_tokens_unknown = 0;  // never stored, or evicted before the record begins
  std::uint64_t stored_blocks = 0;          // that became findable
  std::uint64_t content_shared_blocks = 0;  // merged after memcmp found all bytes equal
  std::uint64_t content_collisions = 0;     // equal digest, other bytes: a security signal
  std::uint64_t key_collisions = 0;         // equal key, other content
  std::uint64_t duplicate_unequal = 0;      // equal key and content, other bytes: kept private
  std::uint64_t evicted_entries = 0;        // = for memory + when asked + superseded
  std::uint64_t evicted_for_memory = 0;
  std::uint64_t evicted_when_asked = 0;
  std::uint64_t evicted_superseded = 0;  // snapshots, by the next of their turn
  std::uint64_t evicted_blocks = 0;
  std::uint64_t refused_for_blocks = 0;  // take(): OutOfBlocks
  std::uint64_t copied_blocks = 0;       // copy on write
  std::uint64_t zeroed_blocks = 0;       // cleared because their tenant changed

  // No counters, but sizes at this moment.
  std::uint64_t dead_keys = 0;  // evictions that why() can still name, at most 65,536
  std::uint64_t dead_keys_forgotten = 0;

  friend bool operator==(const BlockStats&, const BlockStats&) = default;
};

// One group at this moment. free + open + referenced + idle = capacity.
struct BlockCounts {
  std::uint64_t capacity = 0;
  std::uint64_t free = 0;
  std::uint64_t open = 0;
  std::uint64_t referenced = 0;
  std::uint64_t idle = 0;
  std::uint64_t holds = 0;  // refs over all blocks: blocks as their holders see them
  std::uint64_t entries = 0;
  std::uint64_t logical_bytes = 0;   // holds x block bytes
  std::uint64_t physical_bytes = 0;  // (open + referenced) x block bytes

  friend bool operator==(const BlockCounts&, const BlockCounts&) = default;
};

// A place in a group's forest where a chain goes on. Holds the entry in place while it lives.
class Tip {
 public:
  Tip() = default;
  Tip(Tip&& other) noexcept { *this = std::move(other); }
  Tip& operator=(Tip&& other) noexcept;
  ~Tip();
  Tip share() const;
  bool holds() const { return manager_ != nullptr; }

 private:
  friend class BlockManager;
  Tip(BlockManager* manager, std::uint32_t group, EntryId entry)
      : manager_(manager), group_(group), entry_(entry) {}
  BlockManager* manager_ = nullptr;
  std::uint32_t group_ = 0;
  EntryId entry_ = kNoEntry;
};

// Keeps every entry on some matched paths from being evicted while it lives.
class Pin {
 public:
  Pin() = default;
  Pin(Pin&& other) noexcept { *this = std::move(other); }
  Pin& operator=(Pin&& other) noexcept;
  ~Pin();
  std::uint64_t tokens() const { return tokens_; }  // that are pinned
  // Also keeps `owner` alive: for an owner of the manager who may let go first.
  Pin keeping(std::shared_ptr<const void> owner) &&;

 private:
  friend class BlockManager;
  std::shared_ptr<const void> owner_;  // first: it goes last
  BlockManager* manager_ = nullptr;
  std::vector<EntryId> ends_;  // one per group
  std::uint64_t tokens_ = 0;
};

// What was found of a chain, for every group: held blocks in token order and where the chain goes
// on.
struct ChainMatch {
  struct Group {
    std::uint64_t first_block = 0;  // blocks before it were not needed (behind the window)
    std::vector<SealedBlock> blocks;
    std::uint64_t entries = 0;  // of the chain up to `tip`
    Tip tip;
  };
  std::uint64_t tokens = 0;  // a boundary that is whole in every group
  std::vector<Group> groups;
  // Why it is not longer: the group whose entry or block is missing next, "" at the limit; and what
  // is known of that block.
  std::string cut_by;
  MissReason miss = MissReason::kNeverStored;
};

class BlockManager {
 public:
  // Opens one pool per group of the plan. Io: memory was refused.
  static Result<std::unique_ptr<BlockManager>> open(const ModelLayout& layout, const PoolPlan& plan,
                                                    BlockManagerOptions options = {});
  ~BlockManager();  // REQUIRES: every OpenBlock, SealedBlock, Tip and Pin is gone

  // The groups of the layout; behind them the snapshots' own, if any: its blocks are snapshots, its
  // budget and LRU its own, and its entries without a block just lead to others.
  std::uint32_t group_count() const;
  std::optional<std::uint32_t> snapshot_group() const;
  std::uint64_t boundary_tokens() const;  // hits end at multiples of it
  const BlockLayout& layout(std::uint32_t group) const;
  std::byte* region_base(std::uint32_t group) const;  // null in metadata-only mode
  bool huge_pages(std::uint32_t group) const;

  // ---- taking memory -------------------------------------------------------------------------

  // `counts[group]` open blocks for each group, or nothing: evicts idle entries if it must.
  // The tenant's own free blocks are preferred; one that another held before is zeroed first.
  // OutOfBlocks: names the group, what is needed and what could be had; nothing was changed, save
  // that a request of over 64 blocks may have evicted some if other threads took the rest
  // meanwhile.
  Result<std::vector<std::vector<OpenBlock>>> take(std::span<const std::uint64_t> counts,
                                                   std::string_view tenant);

  // Ends writing. Rows of `filled_tokens` tokens stay, everything behind them in each page is
  // zeroed. REQUIRES: block.holds(); filled_tokens <= block tokens.
  SealedBlock seal(OpenBlock&& block, std::uint64_t filled_tokens);

  // Whether reopening needs a second block: somebody else, or an entry, has this one too.
  bool needs_copy(const SealedBlock& block) const;

  // Copy on write: the same memory if this is the only holder and no entry finds it, else a copy of
  // the filled rows in `*spare`, which is then empty. REQUIRES: block.holds(); a spare of the same
  // group where needs_copy(block).
  OpenBlock reopen(SealedBlock&& block, OpenBlock* spare);

  // The same, taking the block it may need itself. OutOfBlocks: `block` is as it was.
  Result<OpenBlock> reopen(SealedBlock&& block, std::string_view tenant);

  // ---- finding -------------------------------------------------------------------------------

  // The longest stored prefix of `tokens`, at most `limit` tokens. `recompute_last`: less its last
  // boundary's blocks, which are there but run again (draft models want their hidden states); what
  // is left must be whole by itself. REQUIRES: limit <= tokens.size().
  ChainMatch match(const CacheIdentity& identity, std::span<const TokenId> tokens,
                   std::span<const ExtraId> extras, std::uint64_t limit,
                   bool recompute_last = false);

  // The same behind a place in the forest; `from` holds one tip per group.
  ChainMatch match_behind(const std::vector<Tip>& from, std::span<const TokenId> tokens,
                          std::span<const ExtraId> extras, std::uint64_t limit);

  // Logical bytes that match() or match_behind() would hold now. Changes nothing: no count, no
  // order of eviction.
  std::uint64_t peek_bytes(const CacheIdentity& identity, std::span<const TokenId> tokens,
                           std::span<const ExtraId> extras, std::uint64_t limit) const;
  std::uint64_t peek_bytes_behind(const std::vector<Tip>& from, std::span<const TokenId> tokens,
                                  std::span<const ExtraId> extras, std::uint64_t limit) const;

  // The stored blocks of a segment, in their last block perhaps partial: tokens = all of them, or a
  // shorter whole boundary from which a builder goes on. Found whole counts as a segment hit.
  ChainMatch match_segment(const std::shared_ptr<const SegmentContent>& segment);

  // Where a chain goes on behind an attached segment: a link of its own, one tip per group, so that
  // it never meets a plain chain. `tail` are the tokens since each group's tip, `extras` theirs.
  struct LinkRequest {
    std::shared_ptr<const SegmentContent> segment;
    std::int64_t delta = 0;
    std::vector<std::span<const TokenId>> tail;     // per group
    std::vector<std::vector<ExtraId>> tail_extras;  // per group, offsets from the tail's start
  };
  std::vector<Tip> link(const std::vector<Tip>& from, const LinkRequest& request);

  struct Published {
    SealedBlock block;  // the newcomer's, or an equal one that was there
    Tip tip;
  };
  // Makes a full sealed block findable behind `parent`, and shares its bytes with an equal block if
  // there is one. The first block under a key wins; one with other bytes stays private and
  // unindexed and its children go under the existing entry. REQUIRES: block.holds(); parent of the
  // same group; tokens.size() = the tokens filled.
  Published publish(SealedBlock&& block, const Tip& parent, std::span<const TokenId> tokens,
                    std::span<const ExtraId> extras);

  // A chain goes on without a block of its own: only in the snapshots' group.
  Tip extend(const Tip& parent, std::span<const TokenId> tokens, std::span<const ExtraId> extras);

  // The place `steps` entries nearer to the root. REQUIRES: the chain is that long.
  Tip ancestor(const Tip& tip, std::uint64_t steps);

  // Evicts the entry's block if nobody holds or pins it. True if it went.
  bool drop_idle(const Tip& tip);

  // Keeps the longest match of `tokens` from being evicted. A pin on nothing holds nothing.
  Pin pin(const CacheIdentity& identity, std::span<const TokenId> tokens,
          std::span<const ExtraId> extras);

  // ---- sharing content -----------------------------------------------------------------------

  // Hashes, compares and shares up to `budget_blocks` blocks of the deferred queue; gives back how
  // many names it took off the queue (of blocks that came free meanwhile too). Any thread, several
  // at once.
  std::uint64_t seal_pending(std::uint64_t budget_blocks);

  // Changes whenever some block was replaced by an equal one: then refresh() may find a new home.
  std::uint64_t forward_epoch() const;
  // Moves the hold to the equal block that replaced this one, if any. True if it moved.
  bool refresh(SealedBlock& block);

  // ---- seeing --------------------------------------------------------------------------------

  // Evicts every entry that may go. Gives back the blocks that came free.
  std::uint64_t evict_all();

  // What is there of `tokens`, block by block, and why the rest is not (why.h). Changes nothing: no
  // count, no order of eviction. For people: it looks at every entry, a few at a time.
  // REQUIRES: limit <= tokens.size().
  WhyReport why(const CacheIdentity& identity, std::span<const TokenId> tokens,
                std::span<const ExtraId> extras, std::uint64_t limit) const;

  BlockStats stats() const;
  BlockCounts counts(std::uint32_t group) const;

  // Recomputes every count and link from scratch. Corrupt: names the first thing that disagrees.
  // Slow (it hashes shared blocks again): in checked builds it runs around every mutation of pools
  // of at most kCheckedBlocksMax blocks.
  Status check_invariants() const;
  static constexpr std::uint64_t kCheckedBlocksMax = 64;

 private:
  friend class block_internal::Hold;
  friend class OpenBlock;
  friend class SealedBlock;
  friend class Tip;
  friend class Pin;
  struct State;
  class Why;
  explicit BlockManager(std::unique_ptr<State> state);

  [[nodiscard]] Status take_piece(std::span<const std::uint64_t> counts, std::string_view tenant,
                                  std::vector<std::vector<OpenBlock>>* taken);
  void release_hold(std::uint32_t group, BlockId id);
  std::optional<OpenBlock> reopen_in_place(SealedBlock& block);
  OpenBlock copy_into(SealedBlock&& block, OpenBlock&& spare);
  SealedBlock share(const SealedBlock& block);
  void release_tip(std::uint32_t group, EntryId entry);
  Tip share_tip(const Tip& tip);
  void release_pin(Pin& pin);
  SealedBlock share_content(SealedBlock&& block);
  bool holds_equal_bytes(const SealedBlock& a, const SealedBlock& b) const;
  Digest key_of(const Tip& tip) const;
  std::vector<Tip> roots(const Digest& key, const EntryProof& proof);
  // How a match may end, beyond whole boundaries.
  struct MatchEnd {
    bool partial = false;         // a segment's last block may be partly filled
    bool recompute_last = false;  // one boundary less
  };
  ChainMatch counted(const std::vector<Tip>& from, std::uint64_t limit, ChainMatch match);
  ChainMatch match_from(const std::vector<Tip>& from, std::span<const TokenId> tokens,
                        std::span<const ExtraId> extras, MatchEnd end);
  std::vector<EntryId> walk(const Tip& from, const std::vector<block_internal::ChainLink>& chain,
                            Tip* deepest);
  void take_up(const Tip& from, std::span<const EntryId> nodes, std::uint64_t tick,
               ChainMatch::Group* found);
  void hold_blocks(std::uint32_t group, std::span<const EntryId> nodes, ChainMatch::Group* found);
  std::uint64_t whole_boundary(const std::vector<std::vector<EntryId>>& nodes, std::uint64_t limit,
                               MatchEnd end, std::string* cut_by) const;
  // Where a look without touching starts: an entry, or what finds it.
  struct PeekStart {
    Digest key;
    EntryProof proof = {};
    EntryId entry = kNoEntry;
  };
  std::uint64_t peek(const std::vector<PeekStart>& from, std::span<const TokenId> tokens,
                     std::span<const ExtraId> extras, MatchEnd end) const;
  std::uint64_t bytes_of_match(std::uint64_t tokens) const;
  std::uint64_t peek_segment_tokens(const std::shared_ptr<const SegmentContent>& segment) const;
  // Ends every operation, outside the lock: walks (in checked builds) and hands out events.
  void checked() const;
  void deliver_events() const;

  std::unique_ptr<State> state_;
};

}  // namespace emblema
