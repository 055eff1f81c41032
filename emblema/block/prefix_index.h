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
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "emblema/block/cache_identity.h"
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

struct Entry {
  EntryKind kind = EntryKind::kBlock;
  bool live = false;       // false: the slot is unused
  bool candidate = false;  // listed with the eviction policy
  Digest key;
  EntryId parent = kNoEntry;
  std::uint32_t children = 0;
  std::uint32_t tips = 0;  // sequences whose chain ends here now
  std::uint32_t pins = 0;  // the caller's wish that it stay, on every node of the pinned path
  std::optional<std::uint32_t> block;
  EntryId next_of_block = kNoEntry;  // other entries that hold the same block
  std::uint64_t last_use = 0;

  std::vector<TokenId> tokens;
  std::vector<ExtraId> extras;
  std::unique_ptr<CacheIdentity> identity;
  std::shared_ptr<const SegmentContent> segment;
  std::int64_t delta = 0;

  bool matches(const EntryProof& proof) const;
  // Nothing stands on it and nobody wants it: a bare node in this state is erased.
  bool is_unused() const { return children == 0 && tips == 0 && pins == 0 && !block; }
};

class PrefixIndex {
 public:
  // The entry with this key and content, or kNoEntry. `key_collisions` grows by the entries that
  // have the key and other content.
  EntryId find(const Digest& key, const EntryProof& proof, std::uint64_t* key_collisions) const;

  // REQUIRES: find() gives kNoEntry; the parent is live, or none for the two kinds of root.
  EntryId insert(const Digest& key, const EntryProof& proof);

  // REQUIRES: at(id).is_unused(). Gives back the parent, which has a child less.
  EntryId erase(EntryId id);

  Entry& at(EntryId id) { return entries_[id]; }
  const Entry& at(EntryId id) const { return entries_[id]; }
  std::uint64_t live_count() const { return by_key_.size(); }
  std::uint32_t slot_count() const { return static_cast<std::uint32_t>(entries_.size()); }

 private:
  std::deque<Entry> entries_;  // a deque: references stay valid as it grows
  std::vector<EntryId> unused_;
  std::unordered_multimap<Digest, EntryId, DigestHash> by_key_;
};

}  // namespace emblema
