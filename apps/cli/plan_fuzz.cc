// Any command line of `emblema plan`: an exit code of 0, 1 or 2, one line where it is refused, and
// never a crash, a hang or an exception.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "apps/cli/random_plan_testing.h"
#include "emblema/contract/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace emblema;
  static const std::string kFolder = std::filesystem::temp_directory_path().string();
  const random_plan::CommandLine line =
      random_plan::FromBytes({data, size}, kFolder).command_line();
  const random_plan::StandardInput input(line.input);
  const Reply reply = reply_to(line.arguments);
  const std::string fault = random_plan::fault_of(reply);
  const std::string what = fault + ": " + random_plan::describe(line) + reply.complaint;
  EMBLEMA_CHECK(fault.empty(), what.c_str());
  return 0;
}
