// From arguments to an exit code: finds the command, parses its options, runs it, writes what it
// returns. Every error is one line on standard error, "emblema plan: what, which field, the value,
// what is allowed". One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/cli/command.h"

namespace emblema {

// What a command line comes to, before anything is written.
struct Reply {
  std::string who = "emblema";  // "emblema plan": begins the complaint
  std::string output{};         // for standard output
  std::string complaint{};      // for standard error, one line; "" where nothing is wrong
  int exit_code = kExitDone;
  ErrorCode code = ErrorCode::Invalid;  // of the complaint; Io where the work was begun
};

// Arguments without the program's name.
Reply reply_to(const std::vector<std::string>& arguments);

// The same, written out. Returns the exit code: 1 also where standard output cannot be written.
int run_command_line(const std::vector<std::string>& arguments);

// A command's options as CLI11 holds them: --help, completion and the man page are written from it.
struct DeclaredCommand {
  std::unique_ptr<CLI::App> app;
  Action action;
};
DeclaredCommand declare(const Command& command);

}  // namespace emblema
