// Entries: the ways to find a block, as a forest of one group.
//
// A node's key is a hash of its parent's key and its own content; find() compares the content
// itself (kind, parent, token ids, extra ids, identity or segment), so that equal hashes of
// different things are never a hit. Not synchronised: the BlockManager calls it under its lock.
//
//   root           an identity                     no block
//   block          block_tokens tokens             a block, or none ("ghost": evicted in a window
//                                                  group while later entries stand on it)
//   segment root   a span's whole content          no block; its blocks are children
//   link           a chain goes on behind a segment  no block
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "emblema/block/cache_identity.h"
#include "emblema/block/chunked_array.h"
#include "emblema/contract/ids.h"
#include "emblema/pool/handle.h"

namespace emblema {

using EntryId = std::uint32_t;
inline constexpr EntryId kNoEntry = UINT32_MAX;

enum class EntryKind : std::uint8_t { kRoot, kBlock, kSegmentRoot, kLink };

// A span's content, shared by its root and by every link to it.
struct SegmentContent {
  CacheIdentity identity;
  std::vector<TokenId> tokens;
  std::vector<ExtraId> extras;

  friend bool operator==(const SegmentContent&, const SegmentContent&) = default;
};

// What an entry is compared by. Spans point into the caller's memory.
struct EntryProof {
  EntryKind kind = EntryKind::kBlock;
  EntryId parent = kNoEntry;
  std::span<const TokenId> tokens = {};
  std::span<const ExtraId> extras = {};
  const CacheIdentity* identity = nullptr;                  // kRoot
  std::shared_ptr<const SegmentContent> segment = nullptr;  // kSegmentRoot, kLink
  std::int64_t delta = 0;                                   // kLink
};

// What only few entries have: extra ids, an identity, a segment, or more tokens than a block.
struct EntryContent {
  std::vector<ExtraId> extras;
  std::unique_ptr<CacheIdentity> identity;        // kRoot
  std::shared_ptr<const SegmentContent> segment;  // kSegmentRoot, kLink
  std::int64_t delta = 0;                         // kLink
  std::vector<TokenId> tokens;                    // where they are more than a block's
};

// Lies in two cache lines. Its tokens: PrefixIndex::tokens_of().
struct alignas(32) Entry {
  Digest key;
  EntryId parent = kNoEntry;
  std::uint32_t children = 0;
  std::uint32_t tips = 0;  // sequences whose chain ends here now
  std::uint32_t pins = 0;  // the caller's wish that it stay, on every node of the pinned path
  std::optional<std::uint32_t> block;
  EntryId next_of_block = kNoEntry;  // other entries that hold the same block
  std::uint32_t token_count = 0;
  std::uint64_t last_use = 0;
  std::unique_ptr<EntryContent> content;  // null for a block of tokens alone
  EntryKind kind = EntryKind::kBlock;
  bool live = false;       // false: the slot is unused
  bool candidate = false;  // listed with the eviction policy

  // Nothing stands on it and nobody wants it: a bare node in this state is erased.
  bool is_unused() const { return children == 0 && tips == 0 && pins == 0 && !block; }
};
static_assert(sizeof(Entry) == 96, "three halves of a cache line: never in three of them");

// Entries by key: an open-addressed table of {hash, id}, linearly probed and at most half full, so
// that a look-up touches one line of the table and then the entry. Equal keys stand behind each
// other in the order in which they came.
class PrefixIndex {
 public:
  // Memory for the tokens of an entry is set aside by `block_tokens`; the table has room for
  // `entries` of them before it must be built anew.
  PrefixIndex(std::uint64_t block_tokens, std::uint64_t entries);

  // The entry with this key and content, or kNoEntry. `key_collisions` grows by the entries that
  // have the key and other content.
  EntryId find(const Digest& key, const EntryProof& proof, std::uint64_t* key_collisions) const;

  // Asks the processor for what find() of these keys will read, all at once instead of one after
  // the other. Changes nothing that can be seen.
  template <class Links>  // of anything with a member `key`
  void prefetch(const Links& links) const {
    for (const auto& link : links) __builtin_prefetch(&slots_[hash_of(link.key) & mask_]);
    for (const auto& link : links) prefetch_entry(link.key);
  }

  // The same for erase() of these entries.
  void prefetch_erase(std::span<const EntryId> ids) const {
    for (const EntryId id : ids) __builtin_prefetch(&slots_[hash_of(entries_[id].key) & mask_], 1);
  }

  // REQUIRES: find() gives kNoEntry; the parent is live, or none for the two kinds of root.
  EntryId insert(const Digest& key, const EntryProof& proof);

  // REQUIRES: at(id).is_unused(). Gives back the parent, which has a child less.
  EntryId erase(EntryId id);

  Entry& at(EntryId id) { return entries_[id]; }
  const Entry& at(EntryId id) const { return entries_[id]; }
  std::span<const TokenId> tokens_of(EntryId id) const;
  std::uint64_t live_count() const { return live_count_; }
  std::uint32_t slot_count() const { return static_cast<std::uint32_t>(entries_.size()); }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    EntryId entry = kNoEntry;  // kNoEntry: free
  };
  static std::uint32_t hash_of(const Digest& key) {
    return static_cast<std::uint32_t>(DigestHash()(key));
  }
  void prefetch_entry(const Digest& key) const;
  bool matches(EntryId id, const EntryProof& proof) const;
  EntryId unused_id();
  void store_content(EntryId id, const EntryProof& proof);
  void list(std::uint32_t hash, EntryId id);
  void unlist(std::uint32_t hash, EntryId id);
  void resize_table(std::uint64_t entries);
  TokenId* token_room(EntryId id) const {
    return tokens_[id / kTokenChunk].get() + id % kTokenChunk * block_tokens_;
  }

  static constexpr std::uint64_t kTokenChunk = 1024;  // entries
  std::uint64_t block_tokens_;
  block_internal::ChunkedArray<Entry> entries_;
  std::vector<std::unique_ptr<TokenId[]>> tokens_;  // block_tokens_ for each entry
  std::vector<EntryId> unused_;
  std::vector<Slot> slots_;  // a power of two
  std::uint64_t mask_ = 0;
  std::uint64_t live_count_ = 0;
};

}  // namespace emblema
