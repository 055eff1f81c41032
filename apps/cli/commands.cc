#include "apps/cli/commands.h"

#include <array>

namespace emblema {

std::span<const Command> commands() {
  static const std::array kCommands = {
      run_command(),   plan_command(),       layout_command(), models_command(),
      bench_command(), completion_command(), man_command(),
  };
  return kCommands;
}

}  // namespace emblema
