#include "apps/cli/version.h"

#include <fmt/format.h>

#include "emblema/kernels/isa.h"

namespace emblema {

std::string version_text() {
  return fmt::format("emblema {}\nisa: {}\nlibraries: {}\n", EMBLEMA_VERSION, to_string(best_isa()),
                     EMBLEMA_LIBRARIES);
}

}  // namespace emblema
