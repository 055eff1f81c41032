// A sequence is one place in the cache: a second one comes from fork().
// expect: use of deleted function
// expect: call to implicitly-deleted copy constructor
#include "emblema/session/sequence.h"

#ifdef EMBLEMA_MUST_FAIL
emblema::Sequence second(const emblema::Sequence& sequence) {
  return sequence;
}
#else
emblema::Result<emblema::Sequence> second(emblema::Sequence& sequence) {
  return sequence.fork();
}
#endif
