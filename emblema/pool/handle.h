// Safe names for memory: what crosses the API instead of a raw pointer.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace emblema {

// Bytes in a region table that the pool owns. The same handle works in another process that maps
// the region, and two handles alias exactly when their ranges overlap.
struct Handle {
  std::uint32_t region = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;

  friend bool operator==(const Handle&, const Handle&) = default;
};

// A block's name. The generation changes each time the block is given back, so that a name kept too
// long is found out instead of naming somebody else's bytes.
struct BlockId {
  std::uint32_t index = 0;
  std::uint64_t generation = 0;

  friend auto operator<=>(const BlockId&, const BlockId&) = default;
};

std::string describe(const Handle& handle);  // "region 0 + 147456, 73728 bytes"
std::string describe(BlockId id);            // "block 17 generation 3"

}  // namespace emblema
