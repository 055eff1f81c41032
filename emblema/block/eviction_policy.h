// Which entry goes next when memory is wanted. The manager lists the entries of one group that may
// go now; a policy only orders them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "emblema/block/prefix_index.h"

namespace emblema {

// Called under the BlockManager's lock; must not call back into it.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // `last_use` grows with every use of the manager; it is the same in add and remove.
  virtual void add(EntryId entry, std::uint64_t last_use) = 0;
  virtual void remove(EntryId entry, std::uint64_t last_use) = 0;

  // Gives candidates in the order in which they should go, until `visit` returns false. `last_use`
  // orders an entry that becomes a candidate meanwhile (a parent whose last child goes).
  using Visitor = std::function<bool(EntryId entry, std::uint64_t last_use)>;
  virtual void visit(const Visitor& visit) const = 0;
  virtual std::uint64_t size() const = 0;
};

// Least recently used first.
std::unique_ptr<EvictionPolicy> make_lru_policy();

}  // namespace emblema
