// A prompt as a chain of one group's blocks: what its entries are found and compared by. Internal
// to this room; defined in block_find.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emblema/block/manager_state.h"

namespace emblema::block_internal {

// The extra ids that enter within [first, first + count), with offsets from `first`.
std::vector<ExtraId> extras_within(std::span<const ExtraId> extras, std::uint64_t first,
                                   std::uint64_t count);

// One block's worth of a chain: what its entry must be compared with.
struct ChainLink {
  Digest key;
  std::span<const TokenId> tokens;
  std::vector<ExtraId> extras;
};

// The links behind an entry of key `key`. `partial_end`: a last block that is not full counts too.
std::vector<ChainLink> chain_of(const BlockKeys& keys, Digest key, std::uint64_t block_tokens,
                                std::span<const TokenId> tokens, std::span<const ExtraId> extras,
                                bool partial_end);

// The nodes of a chain that are there. In growing groups each has its block; in window groups a
// ghost keeps the chain comparable. REQUIRES: the manager's lock.
std::vector<EntryId> nodes_of(const GroupState& group, EntryId from,
                              std::span<const ChainLink> chain, std::uint64_t* key_collisions);

// First block that a continuation at `boundary` needs: what its window or chunk touches; of
// snapshots the last one.
std::uint64_t first_needed(const BlockLayout& layout, std::uint64_t boundary);

}  // namespace emblema::block_internal
