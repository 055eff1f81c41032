// A call's items, taken by threads in waves: as many at a time as there is memory for partial
// results, then their merges, then the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "emblema/kernels/driver/call.h"
#include "emblema/kernels/driver/lane.h"
#include "emblema/kernels/driver/result.h"
#include "emblema/os/thread_pool.h"

namespace emblema::driver {

// What a call needs, counted by going through its work once.
struct Sizes {
  LaneSizes lane;
  std::uint64_t items = 0;
  std::uint64_t units = 0;
  std::uint64_t partial_bytes = 0;

  explicit Sizes(const Call& call);
};

// Makes units smaller where there would be too few items for the threads.
void share_among(std::uint32_t threads, Call& call);

class Waves {
 public:
  // `memory` of bytes() bytes, 64-byte aligned; without, it only counts them.
  Waves(const Call& call, const Sizes& sizes, std::uint32_t workers, std::byte* memory);

  std::uint64_t bytes() const { return carver_.bytes(); }
  void run(ThreadPool* threads);

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  // One unit over one split.
  struct Item {
    UnitRun run;
    Split split;
    std::uint32_t follower = kNone;  // the next unit's item over its split of the same number
    bool is_taken = false;           // by a group
  };
  // Items that one thread takes together: runs [first, first + count) of a wave.
  struct Group {
    Split split;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
  };
  // A unit whose partial results wait to be merged.
  struct Merge {
    Unit unit;
    std::byte* partials = nullptr;
    std::uint64_t stride = 0;
    std::uint32_t parts = 0;
  };

  void add(const Unit& unit, std::uint32_t splits, std::uint64_t stride);
  void group_items();
  bool can_join(const Item& leader, const Item& item) const;
  void run_wave(ThreadPool* threads);

  const Call& call_;
  Carver carver_;
  std::span<Item> items_;
  std::span<UnitRun> runs_;
  std::span<Group> groups_;
  std::span<Merge> merges_;
  std::span<Lane> lanes_;
  std::byte* partials_ = nullptr;
  std::uint64_t partial_bytes_ = 0;
  std::uint64_t joined_max_ = 1;
  std::uint64_t item_count_ = 0;
  std::uint64_t group_count_ = 0;
  std::uint64_t merge_count_ = 0;
  std::uint64_t last_unit_ = 0;  // its first item
  std::uint64_t used_ = 0;       // bytes of partials
};

}  // namespace emblema::driver
