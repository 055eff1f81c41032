// Sealing takes the open block away: whoever seals says so with std::move.
// expect: cannot bind
#include "emblema/block/block_manager.h"

emblema::SealedBlock finish(emblema::BlockManager& blocks, emblema::OpenBlock& block) {
#ifdef EMBLEMA_MUST_FAIL
  return blocks.seal(block, 1);
#else
  return blocks.seal(std::move(block), 1);
#endif
}
