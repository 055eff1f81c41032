// What a cache tells about itself: values, for whoever counts, logs or routes by what is stored.
//
// A sink is called outside the manager's lock, at the end of the operation that caused the events
// (a destructor may be one), by whichever thread gets there first: from any thread, several at
// once. `number` is the order in which things happened. A sink may call the engine, but not the
// sequence whose operation called it; what it does there makes events of its own, so it must come
// to an end. It must not throw.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "emblema/contract/ids.h"

namespace emblema {

enum class HitKind : std::uint8_t { kPrefix, kSegment };
enum class MissReason : std::uint8_t { kNeverStored, kEvicted, kOlderThanRecord };
enum class EvictionReason : std::uint8_t { kMemoryWanted, kAsked, kSuperseded };
enum class CollisionKind : std::uint8_t { kKey, kContent };

std::string_view to_string(HitKind kind);           // "prefix"
std::string_view to_string(MissReason reason);      // "never stored"
std::string_view to_string(EvictionReason reason);  // "memory was wanted"; a snapshot is
                                                    // superseded by the next of its turn
std::string_view to_string(CollisionKind kind);     // "content"

struct CacheEvent {
  enum class Kind : std::uint8_t { kStored, kHit, kMiss, kEvicted, kCollision };

  Kind kind = Kind::kStored;
  std::uint64_t number = 0;    // 1, 2, ... within one manager
  std::uint64_t tokens = 0;    // stored, hit, missed or evicted; 0 for a collision
  std::uint64_t age_uses = 0;  // kEvicted: uses of the cache since the entry's own last use
  std::string group = {};      // kStored, kEvicted, kCollision of contents; else every group
  // Whose it was. "" also where that is not known: collisions, and what is evicted from memory that
  // tenants share.
  std::string tenant = {};
  Digest key = {};  // kStored, kEvicted: of the entry

  HitKind hit = HitKind::kPrefix;                           // kHit, kMiss: what was looked for
  MissReason miss = MissReason::kNeverStored;               // kMiss
  EvictionReason eviction = EvictionReason::kMemoryWanted;  // kEvicted
  CollisionKind collision = CollisionKind::kKey;            // kCollision
};

std::string_view to_string(CacheEvent::Kind kind);  // "stored"

// One line: "evicted 64 tokens of group 'full', unused for 12 uses: memory was wanted".
std::string describe(const CacheEvent& event);

using EventSink = std::function<void(const CacheEvent&)>;

}  // namespace emblema
