// A digest and its hexadecimal text are different things: read the text first, or print the digest.
// expect: no match for 'operator=='
// expect: invalid operands to binary expression
#include "emblema/contract/ids.h"

bool same(const emblema::Digest& digest, const std::string& text) {
#ifdef EMBLEMA_MUST_FAIL
  return digest == text;
#else
  return digest.hex() == text;
#endif
}
