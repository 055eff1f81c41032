// An open block has one writer: it is handed on, never copied.
// expect: deleted
#include "emblema/block/block_states.h"

emblema::OpenBlock hand_on(emblema::OpenBlock&& block) {
#ifdef EMBLEMA_MUST_FAIL
  return emblema::OpenBlock(block);
#else
  return emblema::OpenBlock(std::move(block));
#endif
}
