// The list of sub-commands. A new one is a file with its function, a line here and one in
// commands.cc; help, completion and the man page follow from it.
#pragma once

#include <span>

#include "apps/cli/command.h"

namespace emblema {

Command run_command();
Command plan_command();
Command layout_command();
Command models_command();
Command bench_command();
Command completion_command();
Command man_command();

// In the order of `emblema --help`.
std::span<const Command> commands();

}  // namespace emblema
