#include "emblema/pool/free_lists.h"

namespace emblema {

FreeLists::FreeLists(std::uint32_t blocks) : nodes_(blocks) {
  for (std::uint32_t block = blocks; block > 0; --block) put(block - 1, kNobody);
}

std::optional<std::uint32_t> FreeLists::take(std::uint32_t domain) {
  std::uint32_t block = newest_of(domain);
  if (block == kNone) block = newest_of(kNobody);
  if (block == kNone) block = oldest_used_;
  if (block == kNone) return std::nullopt;
  remove(block);
  return block;
}

void FreeLists::put(std::uint32_t block, std::uint32_t domain) {
  if (domain >= newest_.size()) newest_.resize(domain + std::size_t{1}, kNone);
  Node& node = nodes_[block];
  node = {.domain = domain, .older_of_domain = newest_[domain]};
  if (node.older_of_domain != kNone) nodes_[node.older_of_domain].newer_of_domain = block;
  newest_[domain] = block;
  ++count_;
  if (domain == kNobody) return;
  node.older = newest_used_;
  (node.older != kNone ? nodes_[node.older].newer : oldest_used_) = block;
  newest_used_ = block;
}

void FreeLists::remove(std::uint32_t block) {
  const Node& node = nodes_[block];
  if (node.older_of_domain != kNone) {
    nodes_[node.older_of_domain].newer_of_domain = node.newer_of_domain;
  }
  (node.newer_of_domain != kNone ? nodes_[node.newer_of_domain].older_of_domain
                                 : newest_[node.domain]) = node.older_of_domain;
  --count_;
  if (node.domain == kNobody) return;
  (node.older != kNone ? nodes_[node.older].newer : oldest_used_) = node.newer;
  (node.newer != kNone ? nodes_[node.newer].older : newest_used_) = node.older;
}

}  // namespace emblema
