// From arguments to an exit code: finds the command, parses its options, runs it, writes what it
// returns. Every error is one line on standard error, "emblema plan: what, which field, the value,
// what is allowed". One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/cli/command.h"

namespace emblema {

// Without the program's name. Returns the exit code.
int run_command_line(const std::vector<std::string>& arguments);

// A command's options as CLI11 holds them: --help, completion and the man page are written from it.
struct DeclaredCommand {
  std::unique_ptr<CLI::App> app;
  Action action;
};
DeclaredCommand declare(const Command& command);

}  // namespace emblema
