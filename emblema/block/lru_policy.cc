#include <set>
#include <utility>

#include "emblema/block/eviction_policy.h"
#include "emblema/contract/check.h"

namespace emblema {
namespace {

class LruPolicy final : public EvictionPolicy {
 public:
  void add(EntryId entry, std::uint64_t last_use) override { by_use_.emplace(last_use, entry); }
  void remove(EntryId entry, std::uint64_t last_use) override {
    EMBLEMA_CHECK(by_use_.erase({last_use, entry}) == 1, "a candidate is removed once");
  }
  void visit(const Visitor& visit) const override {
    for (const auto& [last_use, entry] : by_use_) {
      if (!visit(entry, last_use)) return;
    }
  }
  std::uint64_t size() const override { return by_use_.size(); }

 private:
  std::set<std::pair<std::uint64_t, EntryId>> by_use_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lru_policy() {
  return std::make_unique<LruPolicy>();
}

}  // namespace emblema
