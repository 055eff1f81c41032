// The memory of one group: a fixed number of equal blocks in one region.
//
// Owns the region. take() and release() are O(1). Not synchronised: the BlockManager calls it under
// its lock. bytes() of different blocks may be used from any thread.
//
// Invariant: free blocks + taken blocks = capacity; a free block has no current BlockId.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emblema/contract/bytes.h"
#include "emblema/contract/result.h"
#include "emblema/os/memory.h"
#include "emblema/pool/free_lists.h"
#include "emblema/pool/handle.h"

namespace emblema {

class BlockPool {
 public:
  struct Options {
    std::uint32_t region = 0;  // number of the region in handles
    std::uint64_t blocks = 0;
    std::uint64_t block_bytes = 0;
    bool metadata_only = false;  // accounts for blocks without memory behind them; bytes() is empty
  };

  // Invalid: more than 2^32 - 1 blocks or a size past 64 bits. Io: the memory was refused.
  static Result<BlockPool> open(const Options& options);

  std::uint64_t capacity() const { return generations_.size(); }
  std::uint64_t free_count() const { return free_.count(); }
  std::uint64_t block_bytes() const { return options_.block_bytes; }
  bool metadata_only() const { return options_.metadata_only; }
  bool huge_pages() const { return memory_.huge_pages(); }

  // A block for this domain (a tenant's number): the one that the domain released last, else the
  // lowest that was never used, else the one that another domain released longest ago; nothing when
  // all are taken. Its bytes are what its last holder left (zero if never used).
  std::optional<BlockId> take(std::uint32_t domain = FreeLists::kNobody);

  // The bytes stay, and `domain` is whose they are. REQUIRES: is_current(id). Every copy of `id` is
  // stale afterwards.
  void release(BlockId id, std::uint32_t domain = FreeLists::kNobody);

  // Whose bytes a block held when it was taken; kNobody where it was never used.
  std::uint32_t last_domain(std::uint32_t index) const { return free_.domain_of(index); }

  // Whether `id` names a block that is taken now, and not an earlier life of it.
  bool is_current(BlockId id) const;

  // REQUIRES: index < capacity().
  BlockId id_of(std::uint32_t index) const { return {index, generations_[index]}; }
  ByteSpan bytes(std::uint32_t index) const;
  std::byte* base() const { return memory_.data(); }

  // REQUIRES: is_current(id).
  Handle handle(BlockId id) const;

  // The bytes that a handle names. Invalid: another region, or a range outside it.
  Result<ByteSpan> resolve(const Handle& handle) const;

 private:
  Options options_;
  MemoryRegion memory_;
  std::vector<std::uint64_t> generations_;
  std::vector<bool> taken_;
  FreeLists free_;
};

}  // namespace emblema
