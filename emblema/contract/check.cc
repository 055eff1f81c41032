#include "emblema/contract/check.h"

#include <cstdio>
#include <cstdlib>

namespace emblema {

// The one place where the library writes to a stream: the process is about to end.
void check_failed(const char* condition, const char* what, const char* file, int line) {
  std::fprintf(stderr, "emblema: check failed: %s (%s) at %s:%d\n", condition, what, file, line);
  std::abort();
}

}  // namespace emblema
