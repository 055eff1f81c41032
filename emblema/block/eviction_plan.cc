// Planning an eviction without doing it: a refused request must change nothing.
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "emblema/block/manager_state.h"

namespace emblema::block_internal {
namespace {

// Plays evictions forward over a group that stays as it is.
class EvictionPlan {
 public:
  EvictionPlan(const GroupState& group, std::uint64_t blocks) : group_(group), wanted_(blocks) {}

  bool done() const { return freed_ >= wanted_; }
  std::vector<EntryId> take_victims() { return std::move(victims_); }

  // The policy's next candidate; parents that became leaves and are older go before it.
  bool consider(EntryId entry, std::uint64_t last_use) {
    drain_exposed(std::pair(last_use, entry));
    if (!done()) remove(entry);
    return !done();
  }

  void finish() {
    while (!done() && !exposed_.empty()) {
      const EntryId entry = exposed_.top().second;
      exposed_.pop();
      remove(entry);
    }
  }

 private:
  using Candidate = std::pair<std::uint64_t, EntryId>;

  void drain_exposed(const Candidate& before) {
    while (!done() && !exposed_.empty() && exposed_.top() < before) {
      const EntryId entry = exposed_.top().second;
      exposed_.pop();
      remove(entry);
    }
  }

  void remove(EntryId entry) {
    victims_.push_back(entry);
    const Entry& node = group_.index.at(entry);
    const std::uint32_t block = *node.block;
    // Counted in a table only where several must go: nearly every block has one entry.
    const std::uint32_t holders = group_.meta[block].entries;
    if (holders == 1 || ++entries_gone_[block] == holders) ++freed_;
    if (group_.growing()) expose_parent(node.parent);
  }

  // A parent whose last child went may go too; a bare node (link, segment root) goes by itself.
  void expose_parent(EntryId entry) {
    while (entry != kNoEntry) {
      const Entry& node = group_.index.at(entry);
      if (node.children > 1 && ++children_gone_[entry] < node.children) return;
      if (node.tips > 0 || node.pins > 0) return;
      if (node.block) {
        if (group_.meta[*node.block].refs == 0) exposed_.emplace(node.last_use, entry);
        return;
      }
      entry = node.parent;
    }
  }

  const GroupState& group_;
  std::uint64_t wanted_;
  std::uint64_t freed_ = 0;
  std::vector<EntryId> victims_;
  std::unordered_map<std::uint32_t, std::uint32_t> entries_gone_;  // per block
  std::unordered_map<EntryId, std::uint32_t> children_gone_;       // per entry
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> exposed_;
};

}  // namespace

std::optional<std::vector<EntryId>> GroupState::plan_eviction(std::uint64_t blocks) const {
  EvictionPlan plan(*this, blocks);
  if (!plan.done()) {
    policy->visit(
        [&](EntryId entry, std::uint64_t last_use) { return plan.consider(entry, last_use); });
    plan.finish();
  }
  if (!plan.done()) return std::nullopt;
  return plan.take_victims();
}

std::vector<EntryId> GroupState::all_evictable() const {
  EvictionPlan plan(*this, UINT64_MAX);
  policy->visit(
      [&](EntryId entry, std::uint64_t last_use) { return plan.consider(entry, last_use); });
  plan.finish();
  return plan.take_victims();
}

}  // namespace emblema::block_internal
