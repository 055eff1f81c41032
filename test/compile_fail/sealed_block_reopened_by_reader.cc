// A reader's block cannot be opened for writing: reopening consumes the hold.
// expect: cannot bind rvalue reference
// expect: no matching function
// expect: no matching member function
#include "emblema/block/block_manager.h"

#ifdef EMBLEMA_MUST_FAIL
auto reopen(emblema::BlockManager& manager, const emblema::SealedBlock& block) {
  return manager.reopen(block, "tenant");
}
#else
auto reopen(emblema::BlockManager& manager, emblema::SealedBlock& block) {
  return manager.reopen(std::move(block), "tenant");
}
#endif
