#include "emblema/block/dead_record.h"

#include <bit>

#include "emblema/contract/check.h"

namespace emblema {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

}  // namespace

DeadRecord::DeadRecord(std::uint32_t capacity) : capacity_(capacity) {
  EMBLEMA_CHECK(capacity > 0 && capacity < kNone, "a record that can hold something");
}

std::uint32_t DeadRecord::bucket_of(const Digest& key) const {
  return static_cast<std::uint32_t>(DigestHash{}(key) & (buckets_.size() - 1));
}

void DeadRecord::add(std::uint32_t group, const Digest& key, const Death& death) {
  if (buckets_.empty()) {
    buckets_.assign(std::bit_ceil(capacity_), kNone);
    ring_.reserve(capacity_);  // never moved while a lock is held
  }
  const auto slot = static_cast<std::uint32_t>(added_ % capacity_);
  if (slot == ring_.size()) {
    ring_.emplace_back();
  } else {
    // Evictions come in runs: the bucket that one of the next will be taken from is asked for now.
    constexpr std::uint32_t kAhead = 8;
    const Slot& later = ring_[(slot + kAhead) % capacity_ % ring_.size()];
    __builtin_prefetch(&buckets_[bucket_of(later.key)], 1);
    unlink(slot);
  }
  std::uint32_t& newest = buckets_[bucket_of(key)];
  ring_[slot] = {key, group, newest, death};
  newest = slot;
  ++added_;
}

void DeadRecord::unlink(std::uint32_t slot) {
  std::uint32_t* link = &buckets_[bucket_of(ring_[slot].key)];
  while (*link != slot) link = &ring_[*link].older;
  *link = ring_[slot].older;
}

std::optional<DeadRecord::Death> DeadRecord::find(std::uint32_t group, const Digest& key) const {
  if (buckets_.empty()) return std::nullopt;
  for (std::uint32_t slot = buckets_[bucket_of(key)]; slot != kNone; slot = ring_[slot].older) {
    if (ring_[slot].group == group && ring_[slot].key == key) return ring_[slot].death;
  }
  return std::nullopt;
}

}  // namespace emblema
