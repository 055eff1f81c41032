// `emblema --version`: what this program was built as.
#pragma once

#include <string>

namespace emblema {

// Version, the instruction set that attention runs on, libraries. Three lines.
std::string version_text();

}  // namespace emblema
