// A list from the oldest use to the newest, with marks. Nearly every candidate is the newest or
// older than all others (a parent whose last child went), but not every one: marks, one for each
// kTicksPerMark uses of the manager that have candidates, bound the search for its place.
#include <map>

#include "emblema/block/chunked_array.h"
#include "emblema/block/eviction_policy.h"
#include "emblema/contract/check.h"

namespace emblema {
namespace {

class LruPolicy final : public EvictionPolicy {
 public:
  void add(EntryId entry, std::uint64_t last_use) override {
    nodes_.grow_to(std::size_t{entry} + 1);
    nodes_[entry].last_use = last_use;
    Run& run = run_of(last_use / kTicksPerMark);
    EntryId before = run.last;  // the last of the run that is not newer
    while (before != kNoEntry && nodes_[before].last_use > last_use) before = nodes_[before].before;
    const EntryId after = before == kNoEntry ? run.first : nodes_[before].after;
    nodes_[entry].before = before;
    nodes_[entry].after = after;
    (before == kNoEntry ? run.first : nodes_[before].after) = entry;
    (after == kNoEntry ? run.last : nodes_[after].before) = entry;
    ++size_;
  }

  void remove(EntryId entry, std::uint64_t last_use) override {
    const auto run = runs_.find(last_use / kTicksPerMark);
    EMBLEMA_CHECK(run != runs_.end() && entry < nodes_.size() && nodes_[entry].last_use == last_use,
                  "a candidate is removed once");
    Node& node = nodes_[entry];
    (node.before == kNoEntry ? run->second.first : nodes_[node.before].after) = node.after;
    (node.after == kNoEntry ? run->second.last : nodes_[node.after].before) = node.before;
    node = {};
    if (run->second.first == kNoEntry) runs_.erase(run);
    --size_;
  }

  void visit(const Visitor& visit) const override {
    for (const auto& [mark, run] : runs_) {
      for (EntryId entry = run.first; entry != kNoEntry; entry = nodes_[entry].after) {
        if (!visit(entry, nodes_[entry].last_use)) return;
      }
    }
  }
  std::uint64_t size() const override { return size_; }

 private:
  static constexpr std::uint64_t kTicksPerMark = 64;
  struct Node {  // of an entry that is a candidate
    EntryId before = kNoEntry;
    EntryId after = kNoEntry;
    std::uint64_t last_use = kNotListed;
  };
  struct Run {  // the candidates between two marks, oldest first; among equals as they came
    EntryId first = kNoEntry;
    EntryId last = kNoEntry;
  };
  static constexpr std::uint64_t kNotListed = UINT64_MAX;

  Run& run_of(std::uint64_t mark) {
    if (!runs_.empty() && runs_.rbegin()->first == mark) return runs_.rbegin()->second;
    if (runs_.empty() || mark < runs_.begin()->first) {
      return runs_.emplace_hint(runs_.begin(), mark, Run{})->second;
    }
    return runs_[mark];
  }

  block_internal::ChunkedArray<Node> nodes_;  // by entry
  std::map<std::uint64_t, Run> runs_;         // by last use / kTicksPerMark
  std::uint64_t size_ = 0;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lru_policy() {
  return std::make_unique<LruPolicy>();
}

}  // namespace emblema
