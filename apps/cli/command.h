// A sub-command of `emblema`: what it is called, the options it declares, and what it then does.
//
// One file each: declare options -> call the library -> render. A command never prints: it returns
// its whole output, and command_line.cc writes it, so that a full disk or a closed pipe is noticed
// in one place. A failure is a Result: one line on standard error, nothing on standard output.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "emblema/contract/result.h"

namespace CLI {
class App;
}

namespace emblema {

enum ExitCode : int {
  kExitDone = 0,
  kExitWorkFailed = 1,  // the work was begun and did not succeed
  kExitWrongInput = 2,  // the command line or an input is wrong
};

struct Outcome {
  std::string output;   // for standard output, its last line ended
  std::string failure;  // not empty: the work failed, in one line; the output is written all the
                        // same
};

using Action = std::function<Result<Outcome>()>;

struct Command {
  std::string_view name;              // "plan"
  std::string_view summary;           // one line of `emblema --help`
  std::string_view examples;          // the end of `emblema NAME --help`, one command a line
  std::string_view not_in_release{};  // options that exist later, by spaces: refused by name

  // Adds options to `app` and returns what runs once they are parsed. The action owns their values.
  Action (*declare)(CLI::App& app) = nullptr;
};

}  // namespace emblema
