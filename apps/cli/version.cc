#include "apps/cli/version.h"

#include <fmt/format.h>

#include "emblema/kernels/block_primitives.h"

namespace emblema {

std::string version_text() {
  return fmt::format("emblema {}\nisa: {}\nlibraries: {}\n", EMBLEMA_VERSION,
                     scalar_primitives().isa, EMBLEMA_LIBRARIES);
}

}  // namespace emblema
