// A size that went through floating point is no longer exact: 4.5 bytes per token is 9/2.
// expect: deleted
#include "emblema/contract/rational.h"

emblema::Rational rate() {
#ifdef EMBLEMA_MUST_FAIL
  return 4.5;
#else
  return emblema::Rational::of(9, 2);
#endif
}
