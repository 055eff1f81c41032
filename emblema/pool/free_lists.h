// The free blocks of one pool, by who had them last, so that a block goes back to where it need not
// be cleared. Internal to this room; not synchronised.
//
// take(d) prefers, in this order: the block that domain d gave back last (warm, and nothing to
// clear); a block that nobody ever had, lowest first; the block that any other domain gave back
// longest ago (its owner is the least likely to miss it). All of it in O(1), and a function of the
// calls made before: the same calls give the same blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace emblema {

class FreeLists {
 public:
  static constexpr std::uint32_t kNobody = 0;  // the domain of what is clean

  FreeLists() = default;
  explicit FreeLists(std::uint32_t blocks);  // all free, all clean

  std::uint64_t count() const { return count_; }
  std::optional<std::uint32_t> take(std::uint32_t domain);
  void put(std::uint32_t block, std::uint32_t domain);  // REQUIRES: block is not free

  // Who had the block before it was free; stays until the next put.
  std::uint32_t domain_of(std::uint32_t block) const { return nodes_[block].domain; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Node {
    std::uint32_t domain = kNobody;
    std::uint32_t newer_of_domain = kNone;
    std::uint32_t older_of_domain = kNone;
    std::uint32_t newer = kNone;  // over all domains but kNobody
    std::uint32_t older = kNone;
  };
  std::uint32_t newest_of(std::uint32_t domain) const {
    return domain < newest_.size() ? newest_[domain] : kNone;
  }
  void remove(std::uint32_t block);

  std::vector<Node> nodes_;
  std::vector<std::uint32_t> newest_;  // per domain: they are numbered densely
  std::uint32_t newest_used_ = kNone;
  std::uint32_t oldest_used_ = kNone;
  std::uint64_t count_ = 0;
};

}  // namespace emblema
