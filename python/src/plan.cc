// `emblema` commands in this process: what emblema.plan and the console script call.
#include <string>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "apps/cli/command_line.h"
#include "python/src/core.h"

namespace emblema::python {
namespace {

Reply unlocked_reply(const std::vector<std::string>& arguments) {
  const nb::gil_scoped_release released;
  return reply_to(arguments);
}

}  // namespace

void bind_plan(nb::module_& module) {
  module.def(
      "run_command",
      [](const std::vector<std::string>& arguments) {
        Reply reply = unlocked_reply(arguments);
        return std::make_tuple(reply.exit_code, std::move(reply.output),
                               std::move(reply.complaint));
      },
      nb::arg("arguments"),
      "Runs `emblema ARGUMENTS...` in this process: (exit code, output, complaint). The\n"
      "complaint is one line, \"\" where nothing is wrong. Reads and writes the files\n"
      "that the command does.");
  module.def(
      "command_output",
      [](const std::vector<std::string>& arguments) {
        Reply reply = unlocked_reply(arguments);
        if (reply.exit_code != kExitDone) raise({reply.code, std::move(reply.complaint)});
        return std::move(reply.output);
      },
      nb::arg("arguments"),
      "The output of `emblema ARGUMENTS...`, run in this process, or the error of the code\n"
      "that the command failed with.");
  module.def(
      "run_command_line",
      [](const std::vector<std::string>& arguments) {
        const nb::gil_scoped_release released;
        return run_command_line(arguments);
      },
      nb::arg("arguments"),
      "The same as a program does it: writes to standard output and standard error,\n"
      "with a bar of progress on a terminal, and gives the exit code.");
}

}  // namespace emblema::python
