// Some thousand command lines of `emblema plan`, half sense and half nonsense, in this process.
#include <random>

#include "apps/cli/command_testing.h"
#include "apps/cli/random_plan_testing.h"

namespace emblema {
namespace {

std::vector<std::uint8_t> random_bytes(std::mt19937_64& random) {
  std::vector<std::uint8_t> bytes(200);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

TEST(RandomPlan, EveryCommandLineGivesAnAnswerOrOneLine) {
  constexpr int kLines = 3000;
  const command_testing::Folder folder;
  std::mt19937_64 random(20'260'811);
  int answered = 0;
  for (int i = 0; i < kLines; ++i) {
    const std::vector<std::uint8_t> bytes = random_bytes(random);
    const auto line = random_plan::FromBytes(bytes, folder.path()).command_line();
    const random_plan::StandardInput input(line.input);
    const Reply reply = reply_to(line.arguments);
    ASSERT_EQ(random_plan::fault_of(reply), "") << random_plan::describe(line) << "\n"
                                                << reply.exit_code << " " << reply.complaint << "\n"
                                                << reply.output;
    answered += reply.exit_code == kExitDone ? 1 : 0;
  }
  EXPECT_GT(answered, kLines / 8) << "most command lines must get past the parser";
  EXPECT_LT(answered, kLines * 7 / 8) << "and many must be refused";
}

}  // namespace
}  // namespace emblema
