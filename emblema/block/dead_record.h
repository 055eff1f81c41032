// What was evicted lately: keys only, so that a miss can be explained afterwards.
//
// Holds the last `capacity` evictions and forgets the oldest; a key that is evicted again is
// answered by its last time. A key is a digest and nothing is left to compare it with, so an answer
// is as good as SHA-256 and decides nothing. Not synchronised (the BlockManager's lock).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emblema/block/cache_event.h"
#include "emblema/contract/ids.h"

namespace emblema {

class DeadRecord {
 public:
  static constexpr std::uint32_t kCapacityDefault = 1u << 16;

  struct Death {
    EvictionReason reason = EvictionReason::kMemoryWanted;
    std::uint64_t tick = 0;  // the manager's count of uses when it went
  };

  // REQUIRES: capacity > 0. Memory is taken as the record fills: about 64 bytes per key.
  explicit DeadRecord(std::uint32_t capacity = kCapacityDefault);

  void add(std::uint32_t group, const Digest& key, const Death& death);
  std::optional<Death> find(std::uint32_t group, const Digest& key) const;

  std::uint64_t size() const { return ring_.size(); }  // evictions remembered
  std::uint64_t forgotten() const { return added_ - ring_.size(); }

 private:
  struct Slot {
    Digest key;
    std::uint32_t group = 0;
    std::uint32_t older = 0;  // the next slot of the same bucket, older than this one
    Death death;
  };
  std::uint32_t bucket_of(const Digest& key) const;
  void unlink(std::uint32_t slot);

  std::uint32_t capacity_;
  std::uint64_t added_ = 0;
  std::vector<Slot> ring_;              // slot added_ % capacity_ is written next
  std::vector<std::uint32_t> buckets_;  // newest slot of each, kNone where empty
};

}  // namespace emblema
