// `emblema --help`: the commands and what they have in common.
#pragma once

#include <string>

namespace emblema {

std::string help_text();

}  // namespace emblema
