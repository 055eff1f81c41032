// The value of a Result is reached only by asking whether there is one.
// expect: cannot convert
// expect: no viable conversion
#include "emblema/contract/bytes.h"

std::uint64_t pool_bytes() {
#ifdef EMBLEMA_MUST_FAIL
  const std::uint64_t bytes = emblema::parse_bytes("4GiB");
  return bytes;
#else
  const auto bytes = emblema::parse_bytes("4GiB");
  return bytes ? *bytes : 0;
#endif
}
