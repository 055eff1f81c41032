// What is being written has no second holder: only a sealed block can be shared.
// expect: has no member named 'share'
// expect: no member named 'share'
#include "emblema/block/block_states.h"

#ifdef EMBLEMA_MUST_FAIL
auto second_holder(const emblema::OpenBlock& block) {
  return block.share();
}
#else
auto second_holder(const emblema::SealedBlock& block) {
  return block.share();
}
#endif
