// `emblema` commands in this process: what emblema.plan and the console script call.
#include <string>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "apps/cli/command_line.h"
#include "python/src/core.h"

namespace emblema::python {

void bind_plan(nb::module_& module) {
  module.def(
      "run_command",
      [](const std::vector<std::string>& arguments) {
        const nb::gil_scoped_release released;
        Reply reply = reply_to(arguments);
        return std::make_tuple(reply.exit_code, std::move(reply.output),
                               std::move(reply.complaint));
      },
      nb::arg("arguments"),
      "Runs `emblema ARGUMENTS...` in this process: (exit code, output, complaint). The complaint "
      "is one line, \"\" where nothing is wrong. Reads and writes the files that the command "
      "does.");
}

}  // namespace emblema::python
