// Sealing consumes the open block: its writer must say that it gives it up.
// expect: cannot bind rvalue reference of type 'emblema::OpenBlock&&' to lvalue
// expect: no matching member function
// expect: no viable
#include "emblema/block/block_manager.h"

emblema::SealedBlock seal(emblema::BlockManager& manager, emblema::OpenBlock& block) {
#ifdef EMBLEMA_MUST_FAIL
  return manager.seal(block, 4);
#else
  return manager.seal(std::move(block), 4);
#endif
}
