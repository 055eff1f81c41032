// emblema COMMAND [OPTIONS]: see command.h for how a command is made, commands.h for the list.
#include <csignal>
#include <string>
#include <vector>

#include "apps/cli/command_line.h"

int main(int argc, char** argv) {
  // Writing to a pipe that nobody reads is an error to report, not a silent end.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // likewise a file that may not grow
  return emblema::run_command_line(
      std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
