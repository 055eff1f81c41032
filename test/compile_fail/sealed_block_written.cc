// What is sealed may be shared: nobody writes to it again.
// expect: read-only
// expect: returns a const value
#include "emblema/block/block_states.h"

std::byte first_byte(emblema::OpenBlock& open, emblema::SealedBlock& sealed) {
  open.bytes()[0] = std::byte{1};
#ifdef EMBLEMA_MUST_FAIL
  sealed.bytes()[0] = std::byte{1};
#endif
  return sealed.bytes()[0];
}
